"""What a dry run says; that it writes nothing: tests/integration/test_backup.py."""

from __future__ import annotations

from typing import Any

import pytest

from kafkeep.archive.commit import Gap, Intent, LogSpan, PlannedRange, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.backup.dry_run import BackupForecast, describe_plan, plan_all
from kafkeep.backup.incarnations import LoggedState
from kafkeep.backup.plan import PlanInput
from kafkeep.errors import GapError
from kafkeep.options.backup import BackupOptions

P0, P1 = PartitionId("t", 1, 0), PartitionId("t", 1, 1)
INFO = TopicInfo(
    topic="t", incarnation=1, topic_id="id", partitions=2, replication_factor=1, configs={}
)


def forecast(state: LogState, *partitions: PartitionSnapshot, **options: Any) -> BackupForecast:
    topic = TopicSnapshot("t", "id", 1, {}, partitions)
    chosen = BackupOptions(topics=("t",), **options)
    snapshot = ClusterSnapshot(1000, {"t": topic}, {"g": {("t", 0): 1}})
    given = PlanInput.of(snapshot, LoggedState.of(state))
    return describe_plan(
        plan_all(given, chosen, state, {}), given, chosen, state, archive="s3://b/p"
    )


def partition(start: int, end: int, *, stable: int | None = None, size: int = 1000) -> Any:
    held = end if stable is None else stable
    return PartitionSnapshot(LogSpan(start, end), held, leader=1, size_bytes=size)


NEW = LogState(name="backup")
KNOWN = LogState(name="backup", commit=4, positions={P0: 60, P1: 10}, topics={("t", 1): INFO})


def test_a_new_log_reads_everything_that_kafka_holds() -> None:
    found = forecast(NEW, partition(0, 100), partition(5, 5))
    (only,) = found.partitions
    assert (only.partition_id, only.range, only.est_bytes) == (P0, OffsetRange(0, 100), 1000)
    assert (found.commit, found.new_topics, found.groups) == (-1, ("t",), 1)
    assert (found.records_at_most, found.est_bytes, found.exit_code) == (100, 1000, 0)


def test_what_was_archived_is_not_read_again() -> None:
    found = forecast(KNOWN, partition(0, 100), partition(0, 10))
    assert [p.range for p in found.partitions] == [OffsetRange(60, 100)]
    assert found.new_topics == () and found.topics == ("t",)


def test_a_gap_and_an_open_transaction_exit_as_the_backup_would() -> None:
    found = forecast(KNOWN, partition(70, 100), partition(0, 20, stable=15))
    assert [(g.partition_id, g.range) for g in found.gaps] == [(P0, OffsetRange(60, 70))]
    assert found.blocked == (P1,)
    assert found.exit_code == 3
    assert found.to_json()["gaps"][0]["start"] == 60


def test_on_gap_fail_fails_already() -> None:
    with pytest.raises(GapError):
        forecast(KNOWN, partition(70, 100), partition(0, 10), on_gap="fail")


def test_no_limit_of_a_cycle_hides_a_part() -> None:
    found = forecast(NEW, partition(0, 100, size=1 << 40), cycle_bytes=1, segment_bytes=1 << 30)
    assert found.records_at_most == 100
    assert found.objects_at_least == 1024


def test_a_following_backup_reads_what_is_there_now() -> None:
    found = forecast(NEW, partition(0, 100), follow=True)
    assert found.records_at_most == 100


def test_the_plan_of_an_interrupted_run_is_read_first() -> None:
    planned = PlannedRange(partition_id=P0, topic_id="id", range=OffsetRange(60, 80))
    state = LogState(
        name="backup",
        commit=5,
        positions={P0: 60},
        topics={("t", 1): INFO},
        intent=Intent(ranges=(planned,), options={}, at_ms=0),
    )
    found = forecast(state, partition(0, 100))
    assert found.partitions == () and found.unfinished == (planned,)
    assert found.records_at_most == 20


def test_gaps_are_those_of_the_plan() -> None:
    gap = forecast(KNOWN, partition(70, 100), partition(0, 10)).gaps[0]
    assert isinstance(gap, Gap) and "deleted from Kafka" in gap.reason
