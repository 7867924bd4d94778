from __future__ import annotations

import pytest
from bench.simulated_backup import SimulatedBackup, SimulatedTopics

from kafkeep.archive.commit import LogSpan
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.cycle_budget import (
    CYCLE_BYTES,
    CycleBudget,
    DueReason,
    PlannedStretch,
    Waiting,
    count_segments,
    take_segments,
    time_left_ms,
)
from kafkeep.options.backup import MIB, BackupOptions

DAY_MS = 86_400_000


def waiting(number: int, est_bytes: int, *, to_end: bool = True) -> Waiting:
    stretch = PlannedStretch(
        partition_id=PartitionId("t", 1, number),
        topic_id="id",
        range=OffsetRange(0, 1000),
        leader=1,
        est_bytes=est_bytes,
        reason=DueReason.ONCE,
    )
    return Waiting(stretch, to_end)


def take(*items: Waiting, budget: int, segment: int = 100, reserved: int = 0) -> list[int]:
    size = CycleBudget(budget, segment, reserved)
    take_segments(items, size, lambda stretch: -stretch.partition_id.partition)
    return [one.taken_bytes for one in items]


def test_partitions_take_turns_and_those_that_lose_data_first_begin() -> None:
    items = [waiting(n, 1000) for n in range(4)]
    assert take(*items, budget=250) == [0, 0, 100, 100]
    items = [waiting(n, 1000) for n in range(2)]
    assert take(*items, budget=500) == [200, 300]


def test_everything_is_taken_if_it_fits() -> None:
    assert take(waiting(0, 350), waiting(1, 20), budget=370) == [350, 20]


def test_a_small_rest_joins_the_last_segment() -> None:
    assert take(waiting(0, 225), waiting(1, 900), budget=325) == [100, 200]
    assert take(waiting(0, 225), budget=225, reserved=0) == [225]


def test_a_rest_that_is_not_due_waits_until_it_fills_a_segment() -> None:
    assert take(waiting(0, 250, to_end=False), budget=900) == [200]
    assert take(waiting(0, 225, to_end=False), budget=900) == [225]
    assert take(waiting(0, 99, to_end=False), budget=900) == [0]


def test_a_backlog_does_not_hold_up_small_rests_nor_they_the_backlog() -> None:
    far_behind, small = waiting(9, 10_000), [waiting(n, 50) for n in range(8)]
    taken = take(far_behind, *small, budget=400)
    assert taken[0] == 200 and sum(taken[1:]) == 200


def test_a_segment_larger_than_the_budget_is_cut_and_read_all_the_same() -> None:
    size = CycleBudget.of(BackupOptions(topics=("t",), cycle_bytes=10), slots=2)
    items = [waiting(0, 100), waiting(1, 3)]
    assert take_segments(items, size, lambda _: 0.0)
    assert [one.taken_bytes for one in items] == [10, 3]


def test_what_the_last_cycle_left_over_takes_its_part_first() -> None:
    assert take(waiting(0, 500), budget=300, reserved=250) == [0]


@pytest.mark.parametrize(("slots", "expected"), [(2, CYCLE_BYTES), (256, 256 * 3 * 128 * MIB)])
def test_a_cycle_grows_with_the_slots_unless_its_size_is_given(slots: int, expected: int) -> None:
    assert CycleBudget.of(BackupOptions(topics=("t",)), slots).bytes == expected
    given = BackupOptions(topics=("t",), cycle_bytes=7 * CYCLE_BYTES)
    assert CycleBudget.of(given, slots).bytes == 7 * CYCLE_BYTES


def test_the_time_left_follows_from_record_times_and_else_from_offsets() -> None:
    week, kept = {"retention.ms": str(7 * DAY_MS)}, LogSpan(0, 100)

    def left(position: int, record_ms: int = 0, size: int = 0, **configs: str) -> float:
        chosen = {name.replace("_", "."): value for name, value in configs.items()}
        return time_left_ms(
            {**week, **chosen},
            kept,
            position,
            size_bytes=size,
            at_ms=100 * DAY_MS,
            record_ms=record_ms,
        )

    assert left(0) == 0 and left(100) == 7 * DAY_MS
    assert left(0, record_ms=99 * DAY_MS) == pytest.approx(6 * DAY_MS)
    assert left(0, record_ms=1) == 0
    assert left(0, retention_ms="-1") == float("inf")
    assert left(50, size=100, retention_ms="-1", retention_bytes="100") == 3.5 * DAY_MS
    assert left(90, size=100, retention_bytes="10") == 0
    assert left(0, cleanup_policy="compact") == float("inf")


@pytest.mark.parametrize(("size", "objects"), [(1, 1), (125, 1), (126, 2), (225, 2), (226, 3)])
def test_objects_of_a_range_are_counted_with_the_spare_room_of_the_last(
    size: int, objects: int
) -> None:
    assert count_segments(size, 100) == objects


def test_a_backlog_in_many_partitions_becomes_whole_segments() -> None:
    """One tenth of 10 TiB in 10,000 partitions, whose slices were 839 KiB when all were read."""
    topics = SimulatedTopics(topics=20, partitions=50, partition_bytes=10 * 2**40 // 10_000)
    backup = SimulatedBackup(topics, BackupOptions(topics_regex=".*"), slots=16)
    backup.run()
    assert backup.objects <= 8_200
    assert min(backup.smallest[:-1]) == pytest.approx(128 * MIB, rel=0.01)


@pytest.mark.parametrize("sizes", [(500, 1500), (1500, 500)])
def test_a_wrong_estimate_costs_a_few_objects_for_each_partition(sizes: tuple[int, int]) -> None:
    topics = SimulatedTopics(
        topics=10,
        partitions=10,
        partition_bytes=2**30,
        record_bytes=sizes[0],
        later_record_bytes=sizes[1],
    )
    backup = SimulatedBackup(topics, BackupOptions(topics_regex=".*"), slots=2)
    backup.run()
    assert backup.objects <= 100 * (8 + 3)
