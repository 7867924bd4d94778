"""Connectors as jobs: behaviour that needs no services."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkeep.archive.commit import Changes, Commit, Gap, Intent, LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.connect.connectors.chtbd import COMPACT
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.jobs.compacted_pair import SinkThread
from kafkeep.connect.jobs.connector_group import positions_now
from kafkeep.connect.jobs.job import JobContext, Progress, backlog_of, run_with_retries
from kafkeep.connect.jobs.make import make_job
from kafkeep.connect.jobs.offsets import (
    move_listing,
    parse_moves,
    read_offsets,
    sink_offset_page,
    sink_offsets,
)
from kafkeep.connect.jobs.sink import SinkJob, SinkProgress, kafka_of
from kafkeep.connect.jobs.source import SourceJob, find_source
from kafkeep.connect.model import RestError
from kafkeep.errors import FencedError, TransientError, UsageError
from kafkeep.maintenance.move_positions import move_positions
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.follow.follower import Follower
from kafkeep.restore.follow.log import LOG_STATES, LogFollowSource, LogFollowState
from kafkeep.restore.summary import RestoreSummary
from kafkeep.retry import RetryPolicy
from kafkeep.store.memory import MemoryStore
from kafkeep.store.open import open_store

P0, P1 = PartitionId("t", 1, 0), PartitionId("t", 1, 1)
SAME = {"t": "t", "u": "u"}
S3 = {"s3.bucket.name": "bucket", "s3.region": "eu-1"}


def context(**defaults: str) -> JobContext:
    return JobContext(
        kafka=KafkaOptions("one:9092", {"client.id": "worker"}),
        run_tasks=lambda *_args, **_more: [],
        slots=lambda: 2,
        state_address="memory:state",
        defaults={key.replace("_", "."): text for key, text in defaults.items()},
    )


def info(incarnation: int = 1) -> TopicInfo:
    return TopicInfo(
        topic="t",
        incarnation=incarnation,
        topic_id="id",
        partitions=1,
        replication_factor=1,
        configs={},
    )


def test_our_own_backup_writes_segments_whatever_converter_the_worker_has() -> None:
    own = {"segment.age": "5s", "cycle.time": "3s", "cycle.bytes": "1MiB"}
    config = {"connector.class": "kafkeep.Backup", "topics": "a,b", **own, **S3}
    job = make_job("own", config, context(value_converter="StringConverter"))
    assert isinstance(job, SinkJob)
    options = job.options
    assert (options.format, options.sink, options.segment_age_ms) == ("segment", None, 5000)
    assert (options.cycle_ms, options.cycle_bytes) == (3000, 1 << 20)
    assert (options.follow, options.group, options.interval_ms) == (True, "connect-own", 1000)


def test_a_sink_keeps_its_tail_and_its_bounds(caplog: pytest.LogCaptureFixture) -> None:
    config = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics.regex": "a.*",
        "flush.size": "3",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "tasks.max": "4",
        "consumer.override.auto.offset.reset": "latest",
        "nobody.knows.this": "x",
        **S3,
    }
    job = make_job("sink", config, context())
    assert isinstance(job, SinkJob)
    assert (job.options.keeps_tail, job.options.start_at) == (True, "latest")
    assert (job.options.tasks_max, job.task_count) == (4, 4)
    job.limit_tasks(3)
    assert job.task_count == 3
    assert "nobody.knows.this" in caplog.text


@pytest.mark.parametrize("kind", ["kafkeep.Backup", "kafkeep.Restore"])
def test_a_mistyped_number_of_tasks_fills_no_memory_with_them(kind: str) -> None:
    """A paused connector shows its tasks, and nobody has counted its partitions yet."""
    config = {"connector.class": kind, "topics": "t", "tasks.max": "99999999999", **S3}
    job = make_job("many", config, context())
    assert job.task_count == 100
    if isinstance(job, SinkJob):
        job.limit_tasks(120)
        assert job.task_count == 120


def test_a_source_is_a_source() -> None:
    job = make_job("back", {"connector.class": "kafkeep.Restore", **S3}, context())
    assert isinstance(job, SourceJob)
    assert job.type == "source"


def test_a_source_reports_once_what_was_not_restored_unchanged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A round tells all gaps of its topics, whichever round passed them."""
    job = make_job("back", {"connector.class": "kafkeep.Restore", **S3}, context())
    assert isinstance(job, SourceJob)
    first = {"topic": "t", "partition": 0, "start": 3, "end": 5, "reason": "expired"}
    second = {**first, "start": 7, "end": 8}
    job._count(RestoreSummary(gaps=[first], lost=["topics/t/1"], schemas={"unknown_values": 2}))
    job._count(RestoreSummary(gaps=[first, second], schema_notes=["a rule is left out"]))
    assert job.progress.gaps == 2
    assert [record.getMessage() for record in caplog.records] == [
        "connector back: left out: topics/t/1",
        "connector back: 2 values start like a schema id that is not in the archive: they were "
        "not changed",
        "connector back: t-0: offsets 3 to 4 are not in the archive: expired",
        "connector back: the schema registry: a rule is left out",
        "connector back: t-0: offsets 7 to 7 are not in the archive: expired",
    ]


def follows(folder: Path, connector: str, **keys: str) -> str | None:
    """Return what a source over a folder follows by now."""
    given = {"connector.class": connector, "archive": str(folder), "name": "back"}
    config = SourceConfig.from_map({**given, **keys}, strict=False)
    state = MemoryStore(uuid.uuid4().hex)
    found = find_source(config, open_store(str(folder)), state)
    return found and type(found).__name__


def test_a_source_waits_for_its_archive_and_for_the_log_it_names(tmp_path: Path) -> None:
    folder, named = tmp_path / "later", {"restore.log": "sink"}
    assert follows(folder, "kafkeep.Restore") is None
    folder.mkdir()
    assert follows(folder, "kafkeep.Restore") is None
    CommitLog.open(open_store(str(folder)), "other", writer="a", now_ms=lambda: 0)
    assert follows(folder, "kafkeep.Restore", **named) is None
    assert follows(folder, "kafkeep.Restore") == "LogFollowSource"
    CommitLog.open(open_store(str(folder)), "sink", writer="a", now_ms=lambda: 0)
    assert follows(folder, "kafkeep.Restore", **named) == "LogFollowSource"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "has no log of kafkeep's yet, and no object of Confluent's sink; waiting"),
        ({"restore.log": "sink"}, "has no log named sink yet; waiting"),
    ],
)
def test_a_source_says_what_it_waits_for_and_nothing_else(
    tmp_path: Path, keys: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"connector.class": "S3SourceConnector", "archive": str(tmp_path), **keys}
    job = make_job("back", {**config, "format.class": "json", "topics": "t"}, context())
    assert isinstance(job, SourceJob)
    stop = threading.Event()
    stop.set()
    store = open_store(str(tmp_path))
    assert job._await_archive(store, MemoryStore(uuid.uuid4().hex), stop) is None
    assert caplog.messages[-1].endswith(said)


class _LongRound(Follower[PartitionId, int]):
    """A follower whose one round tells how far it is, and then fails."""

    def __init__(self, job: SourceJob, clock: list[int], reports: list[tuple[int, int]]) -> None:
        options = RestoreOptions(commit=1)
        self.source = LogFollowSource(store=MemoryStore(), options=options, now_ms=lambda: 0)
        self.job, self.clock, self.reports = job, clock, reports
        self.due: list[int | None] = []

    def step(self) -> RestoreSummary | None:
        for at_ms, written in self.reports:
            self.clock[0] = at_ms
            self.job._note_growth(written, 9)
            self.due.append(self.job.progress.due_since_ms)
        raise TransientError("Kafka is away")


def test_a_long_restore_that_writes_records_is_not_without_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000]
    monkeypatch.setattr("kafkeep.connect.jobs.source.now_ms", lambda: clock[0])
    config = {"connector.class": "S3SourceConnector", "archive": str(tmp_path), "topics": "t"}
    job = make_job("back", {**config, "format.class": "json"}, context())
    assert isinstance(job, SourceJob)
    growing = [(2_000, 0), (100_000, 5), (200_000, 9), (300_000, 9)]
    tried_again = [(400_000, 9), (500_000, 9)]
    for reports, due in (
        (growing, [1_000, 100_000, 200_000, 200_000]),
        (tried_again, [200_000, 200_000]),
    ):
        follower = _LongRound(job, clock, reports)
        with pytest.raises(TransientError):
            job._follow(follower, threading.Event())
        assert follower.due == due
    found = backlog_of(job.progress, "source", clock[0], 0)
    assert found.no_progress_since_ms == 200_000


def test_a_source_waits_for_objects_of_its_topics(tmp_path: Path) -> None:
    source, asked = "S3SourceConnector", {"topics": "t", "format.class": "json"}
    generic = {"mode": "GENERIC", "topic.regex.list": "t:.*", "format.class": "json"}
    objects = tmp_path / "later/topics"
    assert follows(objects.parent, source, **asked) is None
    assert follows(objects.parent, source, **generic) is None
    (objects / "u/partition=0").mkdir(parents=True)
    (objects / "u/partition=0/u+0+0000000000.json").write_text("{}")
    assert follows(objects.parent, source, **asked) is None
    (objects / "t/partition=0").mkdir(parents=True)
    (objects / "t/partition=0/t+0+0000000000.json").write_text("{}")
    assert follows(objects.parent, source, **asked) == "ListingFollowSource"
    assert follows(objects.parent, source, **generic) == "ListingFollowSource"


def test_a_class_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="no connector"):
        make_job("x", {"connector.class": "org.example.Sink", **S3}, context())


def test_overrides_come_over_the_workers_client() -> None:
    overrides = {"bootstrap.servers": "two:9092", "sasl.mechanism": "PLAIN"}
    found = kafka_of(KafkaOptions("one:9092", {"client.id": "w"}), overrides)
    assert found.bootstrap_servers == "two:9092"
    assert found.properties == {"client.id": "w", "sasl.mechanism": "PLAIN"}


def test_positions_are_those_of_the_newest_incarnation() -> None:
    old, new = PartitionId("t", 1, 0), PartitionId("t", 2, 0)
    state = LogState(
        name="x",
        positions={old: 9, P1: 4, new: 3},
        topics={("t", 1): info(1), ("t", 2): info(2)},
    )
    assert positions_now(state) == {("t", 0): 3}


def test_offsets_are_shown_once_there_are_some_or_they_were_moved() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    log = CommitLog.open(store, "x", writer="w", now_ms=lambda: 1)
    log.append(Changes(topics=(info(),), positions={P0: 3, P1: 0}))
    shown = {
        "partition": {"kafka_topic": "t", "kafka_partition": 0},
        "offset": {"kafka_offset": 3},
    }
    assert sink_offsets(log.state) == [shown]
    move_positions(store, "x", {("t", 0): 0}, writer="w2", now_ms=lambda: 2)
    moved = CommitLog.open(store, "x", writer="w3", now_ms=lambda: 3).state
    assert {**shown, "offset": {"kafka_offset": 0}} in sink_offsets(moved)
    for state in (log.state, moved):
        every = sink_offsets(state)
        assert sink_offset_page(state, 0, 100) == (every, len(every))
        assert sink_offset_page(state, 1, 1) == (every[1:2], len(every))


def move(partition: Any, offset: Any) -> dict[str, Any]:
    return {"partition": partition, "offset": offset}


GOOD = {"kafka_topic": "t", "kafka_partition": 0}


def test_moves_are_read() -> None:
    other = {"kafka_topic": "t", "kafka_partition": "1"}
    assert parse_moves([move(GOOD, {"kafka_offset": "5"}), move(other, None)]) == {
        ("t", 0): 5,
        ("t", 1): None,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        move(None, None),
        move({"kafka_topic": "t"}, None),
        move({**GOOD, "kafka_topic": None}, None),
        move({**GOOD, "kafka_partition": "x"}, None),
        move({**GOOD, "kafka_partition": -1}, None),
        move(GOOD, {}),
        move(GOOD, 5),
        move(GOOD, {"kafka_offset": True}),
        move(GOOD, {"kafka_offset": -1}),
        {},
    ],
)
def test_a_move_that_cannot_be_is_a_bad_request(wrong: dict[str, Any]) -> None:
    with pytest.raises(RestError) as caught:
        parse_moves([wrong])
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("count", "status"),
    [("3", 200), (3, 200), (None, 200), ("x", 400), (-1, 400), (1.5, 400), ([3], 400), (True, 400)],
)
def test_a_source_without_a_log_is_moved_to_an_object_unless_its_count_is_no_number(
    tmp_path: Path, count: Any, status: int
) -> None:
    folder = "topics/t/partition=0/"
    key = f"{folder}t+0+0000000003.json"
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / key).write_text("{}")
    given = {"connector.class": "S3SourceConnector", "archive": str(tmp_path), "name": "back"}
    config = SourceConfig.from_map({**given, "format.class": "json"}, strict=False)
    wanted = [{"partition": {"folder": folder}, "offset": {"lastFileRead": key}}]
    if count is not None:
        wanted[0]["offset"]["fileOffset"] = count
    if status == 200:
        moved = move_listing({}, config, wanted)
        assert [(place, at.key) for place, at in moved.items()] == [((folder, "t", 0), key)]
    else:
        with pytest.raises(RestError, match="fileOffset") as caught:
            move_listing({}, config, wanted)
        assert caught.value.status == status


def test_a_connector_that_has_made_no_folder_yet_has_no_offsets(tmp_path: Path) -> None:
    config = {"connector.class": "kafkeep.Backup", "topics": "t", "archive": f"{tmp_path}/later"}
    assert read_offsets("x", config, context()) == []


def test_progress_reports_lag_and_since_when() -> None:
    recorder = SinkProgress(Progress())
    partition = PartitionSnapshot(LogSpan(0, 10), 10, 1, None)
    seen = ClusterSnapshot(100, {"t": TopicSnapshot("t", "id", 1, {}, (partition,))}, {})
    recorder.record_snapshot(seen, {("t", 0): 4})
    assert recorder.progress.lag_records == {("t", 0): 6}
    recorder.record_snapshot(ClusterSnapshot(200, seen.topics, {}), {("t", 0): 4})
    assert recorder.progress.lag_since_ms == {("t", 0): 100}
    gap = Gap(P0, OffsetRange(4, 6), "why", 1)
    recorder.committed(commit(Changes(positions={P0: 8}, gaps=(gap,)), at_ms=300), {("t", 0): 8})
    assert recorder.progress.lag_since_ms == {("t", 0): 300}
    assert (recorder.progress.gaps, recorder.progress.skipped_offsets) == (1, 2)
    recorder.committed(commit(Changes(positions={P0: 10}), at_ms=400), {("t", 0): 10})
    assert (recorder.progress.lag_records, recorder.progress.lag_since_ms) == ({("t", 0): 0}, {})
    intent = Intent(ranges=(), options={}, at_ms=1)
    recorder.committed(commit(Changes(intent=intent), at_ms=500), {("t", 0): 10})
    assert (recorder.progress.commits, recorder.progress.last_commit_ms) == (2, 400)


def test_who_sees_a_lag_sees_since_when_it_is_one() -> None:
    seen = []

    class Watched(Progress):
        """Notes what others read at the moment a lag is recorded."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "lag_records" and value:
                seen.append((self.positions, value, self.lag_since_ms))

    recorder = SinkProgress(Watched())
    partition = PartitionSnapshot(LogSpan(0, 10), 10, 1, None)
    recorder.record_snapshot(
        ClusterSnapshot(100, {"t": TopicSnapshot("t", "id", 1, {}, (partition,))}, {}),
        {("t", 0): 4},
    )
    recorder.committed(commit(Changes(positions={P0: 10}), at_ms=400), {("t", 0): 10})
    assert seen == [
        ({("t", 0): 4}, {("t", 0): 6}, {("t", 0): 100}),
        ({("t", 0): 10}, {("t", 0): 0}, {}),
    ]


def test_a_snapshot_is_complete_at_kafkas_end_despite_a_concurrent_commit() -> None:
    at = ("t", 0)

    class Moving(Progress):
        """Commits everything as soon as somebody has looked at how much waits."""

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name in ("lag_records", "ends") and value:
                self.positions = {at: 10}
            return value

    def run(stop: threading.Event) -> None:
        stop.wait()

    progress = Moving(positions={at: 4}, lag_records={at: 6}, ends={at: 10})
    sink: Any = SimpleNamespace(options=SimpleNamespace(called="one"), progress=progress, run=run)
    work = SinkThread(sink)
    try:
        work.reached()
        assert work.reached()
    finally:
        work.end()


def commit(changes: Changes, *, at_ms: int) -> Commit:
    return Commit(log="x", number=0, previous="", epoch=1, writer="w", at_ms=at_ms, changes=changes)


def test_faults_that_pass_are_waited_out_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkeep.connect.jobs.job.CONNECTOR", RetryPolicy(first_wait_s=0.001))
    outcomes: list[Exception | None] = [TransientError("away"), TransientError("away"), None]

    def work() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    run_with_retries("x", work, threading.Event())
    assert outcomes == []
    outcomes.append(FencedError("another"))
    with pytest.raises(FencedError):
        run_with_retries("x", work, threading.Event())


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": "kafkeep.Backup", "topics": "t"},
        {"connector.class": "kafkeep.Backup", "topics": "t", "format.class": "json"},
        {"connector.class": "kafkeep.Restore", "topics": "t"},
        {
            "connector.class": COMPACT,
            "topics": "t",
            "compacted.log.backup.initial.status": "ACTIVATE",
            "compacted.log.backup.length.hours": "1",
        },
    ],
    ids=["segments", "sink", "source", "pair"],
)
def test_people_read_of_a_connector_what_they_call_it(
    config: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job: Any = make_job("orders → S3", {**config, **S3}, context())
    stop = threading.Event()

    def fail(*_: object) -> None:
        stop.set()
        raise TransientError("Kafka is away")

    monkeypatch.setattr(job, "_run", fail)
    job.run(stop)
    assert caplog.messages[-1] == "connector orders → S3: Kafka is away; trying again"


def test_how_far_a_source_is_survives_and_one_worker_alone_says_it() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    assert LOG_STATES.load(store) is None
    begun = LogFollowState(log="x").begin(7, SAME, {P0: 5})
    LOG_STATES.save(store, begun)
    LOG_STATES.save(store, begun)  # an answer that got lost
    assert LOG_STATES.load(store) == begun
    with pytest.raises(FencedError):
        LOG_STATES.save(store, LogFollowState(log="x").begin(8, SAME, {P0: 6}))
    done = begun.finish({P0: 5})
    LOG_STATES.save(store, done)
    assert (done.cycles, done.positions, done.cycle) == (1, {P0: 5}, None)
    assert LOG_STATES.load(store) == done


def test_a_worker_that_slept_does_not_take_a_number_that_was_swept() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    begun = LogFollowState(log="x").begin(7, SAME, {P0: 5})
    for revision in (begun, begun.finish({P0: 5})):
        LOG_STATES.save(store, revision)
    LOG_STATES.sweep(store, begun.finish({P0: 5}), before_ms=2**60)
    assert len(list(store.list(""))) == 1
    with pytest.raises(FencedError):
        LOG_STATES.save(store, begun)


def test_a_renamed_topic_begins_anew_and_others_continue() -> None:
    store, other = MemoryStore(uuid.uuid4().hex), PartitionId("u", 1, 0)
    done = LogFollowState(log="x").begin(7, SAME).finish({P0: 5, other: 3})
    LOG_STATES.save(store, done)
    found = LOG_STATES.load(store)
    assert found == done
    anew = found.forget({"t"})
    assert (anew.positions, anew.targets) == ({other: 3}, {"u": "u"})


def test_moving_a_source_gives_up_the_round_under_way_and_its_number() -> None:
    begun = LogFollowState(log="x").begin(7, SAME, {P0: 5})
    moved = begun.move({P0: 2})
    assert (moved.cycle, moved.positions) == (None, {P0: 2})
    opened = moved.begin(8, SAME, {P0: 5}).cycle
    assert opened is not None and opened.number == 2
