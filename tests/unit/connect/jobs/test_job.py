"""A job's lag, progress and gaps in status and metrics, and its error in words its user knows."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from kafkeep.archive.commit import Changes, Commit, Gap, LogSpan
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.connect.jobs.job import (
    GAPS_SHOWN,
    NO_PROGRESS_MS,
    Progress,
    backlog_of,
    format_trace,
    gaps_of,
    in_keys,
)
from kafkeep.connect.jobs.sink import SinkJob, SinkProgress
from kafkeep.connect.metrics.page import WorkerFacts, render
from kafkeep.connect.metrics.totals import Totals
from kafkeep.connect.model import Backlog, ConnectorStatus, RunState
from kafkeep.connect.rest.answers import status_json
from kafkeep.connect.rest.openapi import SCHEMAS
from kafkeep.connect.service.state import status_from_json, status_to_json
from kafkeep.errors import PreflightError
from kafkeep.store.memory import MemoryStore

P0 = PartitionId("orders", 1, 0)
GAP = Gap(P0, OffsetRange(100, 150), "deleted from Kafka before it was archived", 1_000)
DUE: Any = SimpleNamespace(stretches=("something",))
IDLE: Any = SimpleNamespace(stretches=())


def look(at_ms: int, end: int = 200) -> ClusterSnapshot:
    partition = PartitionSnapshot(LogSpan(0, end), end, 1, None)
    return ClusterSnapshot(
        at_ms, {"orders": TopicSnapshot("orders", "id", 1, {}, (partition,))}, {}
    )


def commit(changes: Changes, at_ms: int) -> Commit:
    return Commit(number=0, log="x", epoch=1, writer="w", at_ms=at_ms, previous="", changes=changes)


def status(backlog: Backlog | None) -> ConnectorStatus:
    return ConnectorStatus(
        name="orders",
        type="sink",
        version="1",
        state=RunState.RUNNING,
        worker_id="a:1",
        backlog=backlog,
    )


def test_work_that_is_due_and_not_committed_shows_since_when_there_is_no_progress() -> None:
    recorder = SinkProgress(Progress())
    for at_ms in (1_000, 30_000):  # Spark starves: nothing comes of what is planned
        recorder.record_snapshot(look(at_ms), {("orders", 0): 80}, DUE)
    now_ms = 1_000 + NO_PROGRESS_MS
    before = backlog_of(recorder.progress, "sink", now_ms - 1, 0)
    assert before.no_progress_since_ms is None
    after = backlog_of(recorder.progress, "sink", now_ms, 0)
    assert (after.records, after.seconds, after.no_progress_since_ms) == (120, 60.0, 1_000)
    assert backlog_of(recorder.progress, "sink", now_ms, None).no_progress_since_ms is None
    recorder.committed(commit(Changes(positions={P0: 200}), now_ms), {("orders", 0): 200})
    done = backlog_of(recorder.progress, "sink", now_ms, 0)
    assert (done.records, done.no_progress_since_ms, done.last_progress_ms) == (0, None, now_ms)


def test_records_that_wait_for_their_file_to_be_full_are_lag_but_no_lack_of_progress() -> None:
    recorder = SinkProgress(Progress())
    for at_ms in range(0, 10 * NO_PROGRESS_MS, 5_000):
        recorder.record_snapshot(look(at_ms), {("orders", 0): 198}, IDLE)
        found = backlog_of(recorder.progress, "sink", at_ms, 0)
        assert (found.records, found.no_progress_since_ms) == (2, None)


def test_a_sink_that_cannot_reach_kafka_shows_since_when() -> None:
    progress = Progress()
    assert backlog_of(progress, "sink", 5_000 + NO_PROGRESS_MS, 5_000).no_progress_since_ms == 5_000
    SinkProgress(progress).record_snapshot(look(70_000), {}, IDLE)
    assert backlog_of(progress, "sink", 129_999, 5_000).no_progress_since_ms is None
    assert backlog_of(progress, "sink", 130_000, 5_000).no_progress_since_ms == 70_000


def test_a_source_that_polls_seldom_lacks_no_progress_but_one_that_hangs_does() -> None:
    progress = Progress(measured_ms=0)
    assert backlog_of(progress, "source", 10**9, 0).no_progress_since_ms is None
    progress.due_since_ms = 10**9
    assert backlog_of(progress, "source", 10**9 + NO_PROGRESS_MS, 0).no_progress_since_ms == 10**9


def test_one_of_a_pair_that_waits_for_its_turn_lacks_no_progress() -> None:
    progress = Progress(measured_ms=0, is_passive=True)
    assert backlog_of(progress, "sink", 10**9, 0).no_progress_since_ms is None


def test_all_gaps_are_counted_and_the_newest_are_listed_first() -> None:
    gaps = [Gap(P0, OffsetRange(10 * n, 10 * n + n), "why", 1_000 + n) for n in range(1, 31)]
    found = gaps_of(gaps)
    assert (found.count, found.offsets) == (30, sum(range(31)))
    assert [lost.at_ms for lost in found.newest] == [1_030 - n for n in range(GAPS_SHOWN)]


def test_a_gap_is_a_warning_with_topic_partition_and_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    job: Any = SimpleNamespace(options=SimpleNamespace(called="sink"))
    SinkJob.log_commit(job, commit(Changes(gaps=(GAP,)), 1))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "connector sink: gap in orders-0: offsets 100 to 149 inclusive (50 in all)" in (
        record.getMessage()
    )
    caplog.clear()
    many = tuple(Gap(P0, OffsetRange(n, n + 1), "why", 1) for n in range(103))
    SinkJob.log_commit(job, commit(Changes(gaps=many), 1))
    assert caplog.messages[-1] == "connector sink: 3 more gaps"


def test_a_writer_reads_the_gaps_of_earlier_runs_from_its_log_without_a_request() -> None:
    class Counting(MemoryStore):
        gets = 0

        def get(self, key: str) -> bytes:
            self.gets += 1
            return super().get(key)

    store = Counting()

    def open_log(writer: str) -> CommitLog:
        return CommitLog.open(
            store, "sink", writer=writer, now_ms=lambda: 1_000, checkpoint_every=2
        )

    log = open_log("a")
    later = Gap(P0, OffsetRange(160, 170), "why", 2_000)
    log.append(Changes(gaps=(GAP,), positions={P0: 150}))
    assert log.checkpoint()
    log.append(Changes(gaps=(later,), positions={P0: 170}))
    again = open_log("b")
    store.gets = 0
    assert [gap.range for gap in again.view().gaps] == [GAP.range, later.range]
    assert store.gets == 1  # the table of the checkpoint, since it has a gap
    assert again.view().gap_count == 2


def fits(name: str, answer: dict[str, Any]) -> None:
    schema = SCHEMAS[name]
    assert answer.keys() <= schema["properties"].keys()
    assert set(schema.get("required", ())) <= answer.keys()


def test_the_status_answer_has_lag_progress_and_gaps_beside_connects_fields() -> None:
    backlog = Backlog(
        measured_ms=1_000,
        records=120,
        seconds=60.0,
        last_progress_ms=0,
        no_progress_since_ms=500,
        gaps=gaps_of([GAP]),
    )
    answer = status_json(status(backlog))
    assert answer["kafkeep"] == {
        "lag_records": 120,
        "lag_seconds": 60.0,
        "measured_at": "1970-01-01T00:00:01.000Z",
        "last_progress": "1970-01-01T00:00:00.000Z",
        "no_progress_since": "1970-01-01T00:00:00.500Z",
        "gaps": {
            "count": 1,
            "offsets": 50,
            "newest": [
                {
                    "topic": "orders",
                    "partition": 0,
                    "first_offset": 100,
                    "last_offset": 149,
                    "reason": "deleted from Kafka before it was archived",
                    "found_at": "1970-01-01T00:00:01.000Z",
                }
            ],
        },
    }
    fits("Status", answer)
    fits("Backlog", answer["kafkeep"])
    for nothing_known in (None, Backlog()):
        assert status_json(status(nothing_known)).keys() == {"name", "connector", "tasks", "type"}


def test_other_workers_learn_it_by_heartbeat_and_accept_one_of_an_older_kafkeep() -> None:
    original = status(Backlog(measured_ms=1, records=2, seconds=0.5, gaps=gaps_of([GAP])))
    document = orjson.loads(orjson.dumps(status_to_json(original)))
    assert status_from_json(document) == original
    del document["backlog"]
    assert status_from_json(document).backlog is None


def test_metrics_and_status_report_the_same_lag_and_stall() -> None:
    recorder = SinkProgress(Progress())
    recorder.record_snapshot(look(1_000), {("orders", 0): 80}, DUE)
    now_ms = 91_000
    backlog = backlog_of(recorder.progress, "sink", now_ms, 0)
    facts = WorkerFacts(totals=Totals(), now_ms=now_ms, version="0")
    page = render([status(backlog)], {"orders": recorder.progress}, facts)
    labels = 'connector="orders",partition="0",topic="orders"'
    assert f"kafkeep_lag_records{{{labels}}} {float(backlog.records)}" in page
    assert f"kafkeep_lag_seconds{{{labels}}} {backlog.seconds}" in page
    assert 'kafkeep_no_progress_seconds{connector="orders"} 90.0' in page


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("append with --into-non-empty.", "append with restore.into.non.empty."),
        ("(--topics a:new-a), or delete it", "(topics a:new-a), or delete it"),
        ("--partitions and --groups", "restore.partitions and restore.groups"),
        ("Set --state to keep it.", "Set restore.state to keep it."),
        ("--port, --no-such-flag", "--port, --no-such-flag"),
        ("kafkeep restore --schemas map", "kafkeep restore --schemas map"),
        ("a-b--c, key=--", "a-b--c, key=--"),
    ],
)
def test_flags_of_a_restore_are_named_as_a_connectors_keys(said: str, shown: str) -> None:
    assert in_keys(said) == shown


def test_a_trace_has_message_hint_and_causes_in_keys() -> None:
    try:
        try:
            raise ValueError("--allow-missing is data here")
        except ValueError as cause:
            raise PreflightError("back is not empty", hint="Append: --into-non-empty.") from cause
    except PreflightError as error:
        lines = format_trace(error).splitlines()
    assert lines[0] == "kafkeep.errors.PreflightError: back is not empty"
    assert lines[1] == "Append: restore.into.non.empty."
    assert "Caused by: builtins.ValueError: --allow-missing is data here" in lines
