"""What the overview says of connectors: a green one promises that nothing is lost or late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.archive_builder import FIRST_MS, build_archive, partition
from tests.support.waiting import until

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.archives.archives import ArchivePlace, Archives
from kafkeep.connect.jobs.job import JobContext, Progress, backlog_of
from kafkeep.connect.metrics.totals import Totals
from kafkeep.connect.model import (
    Backlog,
    Connector,
    ConnectorStatus,
    OffsetGaps,
    RunState,
    TargetState,
)
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.service.overview import LogFacts, ServiceOverview, overview_of
from kafkeep.connect.service.overview_reader import OverviewReader
from kafkeep.connect.service.state import status_from_json, status_to_json
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.options.kafka import KafkaOptions
from kafkeep.store.open import open_store

HEALTH = {"status": "healthy", "leader": "w:1", "is_leader": True}
STATUS = ConnectorStatus(
    name="orders", type="sink", version="1", state=RunState.RUNNING, worker_id="w:1"
)
LOST = OffsetGaps(count=2, offsets=70)
MEASURED = Backlog(measured_ms=1, last_progress_ms=1)


def overview(status: ConnectorStatus, log: LogFacts | None = None) -> ServiceOverview:
    return overview_of([status], {}, {}, {} if log is None else {"orders": log}, HEALTH)


@pytest.mark.parametrize("state", [RunState.STOPPED, RunState.PAUSED, RunState.UNASSIGNED])
@pytest.mark.parametrize("backlog", [None, Backlog()])
def test_gaps_and_last_commit_come_from_the_log_while_no_job_has_read_them(
    state: RunState, backlog: Backlog | None
) -> None:
    found = overview(replace(STATUS, state=state, backlog=backlog), LogFacts(123, LOST))
    [one] = found.connectors
    assert (one.gap_count, one.lost_offsets, one.last_commit_ms) == (2, 70, 123)
    assert one.needs_attention
    assert found.gaps == 2


def test_gaps_that_nobody_has_read_are_not_known() -> None:
    found = overview(replace(STATUS, state=RunState.STOPPED))
    assert (found.gaps, found.connectors[0].lost_offsets, found.lag_records) == (None, None, None)
    assert found.unmeasured == 1


@pytest.mark.parametrize(
    ("state", "backlog", "doubt"),
    [
        (RunState.RUNNING, MEASURED, ""),
        (RunState.RUNNING, Backlog(), "lag not measured yet"),
        (RunState.RUNNING, None, "lag not measured yet"),
        (RunState.RUNNING, Backlog(is_passive=True), ""),
        (RunState.UNASSIGNED, None, "not started"),
        (RunState.PAUSED, Backlog(), "paused"),
        (RunState.STOPPED, None, "stopped"),
    ],
)
def test_a_sink_that_may_be_behind_is_in_doubt(
    state: RunState, backlog: Backlog | None, doubt: str
) -> None:
    status = replace(STATUS, state=state, backlog=backlog)
    assert overview(status, LogFacts()).connectors[0].doubt == doubt
    assert overview(replace(status, type="source")).connectors[0].doubt == ""


def test_a_heartbeat_says_that_the_other_one_of_a_pair_archives() -> None:
    backlog = backlog_of(Progress(is_passive=True), "sink", 1, None)
    document = orjson.dumps(status_to_json(replace(STATUS, backlog=backlog)))
    sent = status_from_json(orjson.loads(document))
    assert sent.backlog is not None and sent.backlog.is_passive


def test_a_worker_that_does_not_lead_shows_the_rates_of_the_last_heartbeat() -> None:
    totals, progress = Totals(), Progress()
    totals.with_rates([STATUS], {"orders": progress}, 0)
    progress.records, progress.bytes = 30, 600
    sent = totals.with_rates([STATUS], {"orders": progress}, 10_000)
    [received] = [status_from_json(orjson.loads(orjson.dumps(status_to_json(s)))) for s in sent]
    [one] = overview(received).connectors
    assert (one.records_per_second, one.bytes_per_second) == (3.0, 60.0)
    older = {k: v for k, v in status_to_json(sent[0]).items() if not k.endswith("_per_second")}
    assert status_from_json(older).records_per_second is None


@pytest.fixture
def reader(tmp_path: Path) -> OverviewReader:
    topics = {"orders": [partition(0, 10, 25, gaps=[OffsetRange(25, 30)])]}
    build_archive(open_store(str(tmp_path)), topics, name="orders")
    unused: Any = None
    context = JobContext(
        kafka=KafkaOptions("localhost:1"), run_tasks=unused, slots=lambda: 1, state_address="x"
    )
    return OverviewReader(
        definitions=Definitions(providers=Providers()),
        context_for=lambda _: context,
        archives=Archives(lambda: [ArchivePlace(address=str(tmp_path))]),
        totals=Totals(),
        now_ms=lambda: 1,
    )


@pytest.mark.parametrize("progress", [{}, None], ids=["leader", "standby"])
def test_the_log_of_a_stopped_connector_is_read_in_the_background_on_any_worker(
    reader: OverviewReader, tmp_path: Path, progress: dict[str, Progress] | None
) -> None:
    config = {
        "connector.class": "kafkeep.Backup",
        "topics": "orders",
        "archive": str(tmp_path),
    }
    connectors = {"orders": Connector(name="orders", config=config, target=TargetState.STOPPED)}
    status = replace(STATUS, state=RunState.STOPPED)

    def found() -> ServiceOverview:
        return reader.read(connectors, [status], progress, HEALTH)

    assert found().gaps is None
    until(lambda: found().gaps == 1)
    assert found().connectors[0].lost_offsets == 5
    assert found().last_commit_ms is not None and found().last_commit_ms > FIRST_MS
