from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkeep.archive.commit import Gap, Intent, LogSpan, PlannedRange, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.backup.cycle_budget import ArchivedTo, DueReason, PlannedStretch
from kafkeep.backup.incarnations import LoggedState, identify_topics
from kafkeep.backup.plan import (
    RETENTION,
    CycleBacklog,
    CyclePlan,
    PlanInput,
    changed_groups,
    plan_cycle,
)
from kafkeep.errors import GapError, KafkeepError
from kafkeep.options.backup import BackupOptions

P0, P1 = PartitionId("t", 1, 0), PartitionId("t", 1, 1)


def partition(start: int, end: int, *, stable: int | None = None, size: int | None = 1000) -> Any:
    held = end if stable is None else stable
    return PartitionSnapshot(LogSpan(start, end), held, leader=1, size_bytes=size)


def snapshot(
    *partitions: Any, topic_id: str = "id-1", at_ms: int = 1000, groups: Any = None
) -> ClusterSnapshot:
    topic = TopicSnapshot("t", topic_id, 1, {"retention.ms": "5"}, partitions)
    return ClusterSnapshot(at_ms, {"t": topic}, groups or {})


def info(**changes: Any) -> TopicInfo:
    values: dict[str, Any] = {
        "topic": "t",
        "incarnation": 1,
        "topic_id": "id-1",
        "partitions": 1,
        "replication_factor": 1,
        "configs": {"retention.ms": "5"},
    }
    return TopicInfo(**{**values, **changes})


def known(positions: Mapping[PartitionId, int] | None = None, **changes: Any) -> LoggedState:
    return LoggedState(positions or {}, {"t": info(**changes)})


NOTHING = LoggedState({}, {})


def plan(
    seen: ClusterSnapshot, before: LoggedState = NOTHING, waiting: Any = None, **options: Any
) -> CyclePlan:
    until = options.pop("until", None)
    skip = options.pop("skip", frozenset())
    chosen = BackupOptions(topics=("t",), **options)
    given, backlog = PlanInput.of(seen, before), CycleBacklog(since=dict(waiting or {}))
    return plan_cycle(given, chosen, backlog, until=until, skip=skip)


def planned(stretch: PlannedStretch) -> PlannedRange:
    return PlannedRange(
        partition_id=stretch.partition_id, topic_id=stretch.topic_id, range=stretch.range
    )


def test_a_first_backup_begins_at_the_log_start_without_a_gap() -> None:
    made = plan(snapshot(partition(40, 100)))
    assert [s.range for s in made.stretches] == [OffsetRange(40, 100)]
    assert made.gaps == ()
    assert made.positions == {P0: 40}
    assert made.topics == (info(),)


def test_reading_continues_at_the_position_of_the_log() -> None:
    made = plan(snapshot(partition(0, 100)), known({P0: 60}))
    assert [s.range for s in made.stretches] == [OffsetRange(60, 100)]
    assert made.positions == {} and made.topics == ()


def test_nothing_is_planned_when_all_is_archived() -> None:
    made = plan(snapshot(partition(0, 100)), known({P0: 100}))
    assert made.stretches == () and made.gaps == ()


def test_what_retention_deleted_before_it_was_read_is_a_gap() -> None:
    made = plan(snapshot(partition(80, 100)), known({P0: 60}))
    assert made.gaps == (Gap(P0, OffsetRange(60, 80), RETENTION, 1000),)
    assert made.positions == {P0: 80}
    assert [s.range for s in made.stretches] == [OffsetRange(80, 100)]


def test_a_gap_up_to_the_end_leaves_nothing_to_read() -> None:
    made = plan(snapshot(partition(100, 100)), known({P0: 60}))
    assert made.gaps == (Gap(P0, OffsetRange(60, 100), RETENTION, 1000),)
    assert made.stretches == ()


def test_on_gap_fail_names_every_gap_and_stops() -> None:
    seen = snapshot(partition(80, 100), partition(9, 10))
    with pytest.raises(GapError, match="t-0: offsets 60 to 79; t-1: offsets 3 to 8"):
        plan(seen, known({P0: 60, P1: 3}), on_gap="fail")


def test_a_log_cut_back_under_the_same_id_is_refused() -> None:
    with pytest.raises(KafkeepError, match="under the same topic id"):
        plan(snapshot(partition(0, 50)), known({P0: 60}))


@pytest.mark.parametrize("end", [10, 60, 500])
def test_a_topic_created_again_is_read_from_its_start_as_a_new_incarnation(end: int) -> None:
    made = plan(snapshot(partition(0, end), topic_id="id-2"), known({P0: 60}))
    again = PartitionId("t", 2, 0)
    assert [(s.partition_id, s.range) for s in made.stretches] == [(again, OffsetRange(0, end))]
    assert made.gaps == ()
    assert [t.incarnation for t in made.topics] == [2]


def test_a_topic_marked_deleted_that_is_there_again_is_a_new_incarnation() -> None:
    found = identify_topics(snapshot(partition(0, 1)), known(deleted=True))
    assert found["t"].incarnation == 2


def test_a_changed_setting_is_committed_without_data() -> None:
    made = plan(snapshot(partition(0, 9)), known({P0: 9}, configs={"retention.ms": "1"}))
    assert made.topics == (info(),)


def test_an_open_transaction_holds_back_and_is_named() -> None:
    made = plan(snapshot(partition(0, 100, stable=70)))
    assert [s.range for s in made.stretches] == [OffsetRange(0, 70)]
    assert made.blocked == (P0,)


def test_a_one_shot_backup_ends_where_kafka_ended_at_its_start() -> None:
    made = plan(snapshot(partition(0, 100), partition(0, 9)), until={P0: 40})
    assert [(s.partition_id, s.range) for s in made.stretches] == [(P0, OffsetRange(0, 40))]


def test_partitions_of_an_open_plan_are_left_alone() -> None:
    seen = snapshot(partition(0, 10), partition(0, 10))
    made = plan(seen, skip=frozenset({P0}))
    assert [s.partition_id for s in made.stretches] == [P1]


def test_following_waits_until_records_are_many_or_old_enough() -> None:
    options = {"follow": True, "segment_age_ms": 500, "segment_bytes": 1000}
    few = snapshot(partition(0, 10, size=10))
    first = plan(few, **options)
    assert first.stretches == () and first.waiting == {P0: 1000}
    later = plan(snapshot(partition(0, 10, size=10), at_ms=1499), waiting=first.waiting, **options)
    assert later.stretches == () and later.waiting == {P0: 1000}
    old = plan(snapshot(partition(0, 10, size=10), at_ms=1500), waiting=later.waiting, **options)
    assert [s.reason for s in old.stretches] == [DueReason.AGE] and old.waiting == {}
    many = plan(snapshot(partition(0, 10, size=1000)), **options)
    assert [s.reason for s in many.stretches] == [DueReason.BYTES]


def test_a_cycle_is_bounded_by_bytes_and_reads_whole_segments() -> None:
    seen = snapshot(partition(0, 1000, size=9000), partition(0, 1, size=1))
    made = plan(seen, cycle_bytes=900)
    assert [s.range for s in made.stretches] == [OffsetRange(0, 100), OffsetRange(0, 1)]
    assert made.catches_up and made.behind == {P0}


def test_following_leaves_the_rest_of_a_segment_waiting_since_its_time() -> None:
    options = {"follow": True, "segment_age_ms": 500, "segment_bytes": 1000}
    seen = snapshot(partition(0, 250, size=2500), at_ms=1400)
    made = plan(seen, waiting={P0: 1000}, **options)
    assert [s.range for s in made.stretches] == [OffsetRange(0, 200)]
    assert made.waiting == {P0: 1000} and not made.catches_up
    backlog = CycleBacklog(since=dict(made.waiting))
    intent = Intent(ranges=(planned(made.stretches[0]),), options={}, at_ms=1400)
    backlog.note_read(intent, {}, {P0}, made.behind)
    assert backlog.since == {P0: 1000}


def test_sizes_follow_from_the_newest_objects_of_a_partition() -> None:
    given = PlanInput.of(snapshot(partition(0, 100, size=100)), known({P0: 50}))
    backlog = CycleBacklog(archived={P0: ArchivedTo(bytes_per_offset=8.0, record_ms=0)})
    made = plan_cycle(given, BackupOptions(topics=("t",)), backlog)
    assert [s.est_bytes for s in made.stretches] == [400]


def test_what_the_last_cycle_left_over_counts() -> None:
    given = PlanInput.of(snapshot(partition(0, 10, size=1000), partition(0, 10)), NOTHING)
    options = BackupOptions(topics=("t",), cycle_bytes=1500)
    made = plan_cycle(given, options, CycleBacklog(), skip=frozenset({P1}), reserved_bytes=1500)
    assert made.stretches == () and made.catches_up


def test_unknown_sizes_are_guessed() -> None:
    assert plan(snapshot(partition(0, 10, size=None))).stretches[0].est_bytes == 10 * 1024


def test_group_offsets_are_committed_when_they_change_and_never_beyond_the_data() -> None:
    seen = snapshot(partition(0, 100), groups={"g": {("t", 0): 90}, "h": {("t", 0): 5}})
    infos = {"t": info()}
    changed = changed_groups(seen.groups, infos, {P0: 60}, {"h": {P0: 5}})
    assert changed == {"g": {P0: 60}}


def test_group_offsets_on_other_topics_and_incarnations_stay() -> None:
    seen = snapshot(partition(0, 100), groups={"g": {("t", 0): 90}})
    others = {PartitionId("t", 7, 0): 3, PartitionId("u", 1, 0): 4}
    gone = PartitionId("t", info().incarnation, 5)
    changed = changed_groups(seen.groups, {"t": info()}, {P0: 95}, {"g": {**others, gone: 2}})
    assert changed == {"g": {**others, P0: 90}}
    assert changed_groups(seen.groups, {"t": info()}, {P0: 95}, changed) == {}
