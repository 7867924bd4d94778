from __future__ import annotations

from typing import Any

import pytest

from kafkeep.archive.commit import Gap, Intent, PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup.plan import RETENTION
from kafkeep.backup.reconcile_reports import Reconciliation, reconcile
from kafkeep.backup.task import RangeReport
from kafkeep.errors import TransientError

P0, P1 = PartitionId("t", 1, 0), PartitionId("t", 1, 1)


def intent(*ranges: tuple[PartitionId, int, int]) -> Intent:
    planned = tuple(
        PlannedRange(partition_id=pid, topic_id="id", range=OffsetRange(start, end))
        for pid, start, end in ranges
    )
    return Intent(ranges=planned, options={}, at_ms=0)


def entry(pid: PartitionId, start: int, end: int) -> Entry:
    return Entry(
        key=f"topics/t/partition={pid.partition}/t+{pid.partition}+{start:010d}.log.zst",
        partition_id=pid,
        topic_id="id",
        range=OffsetRange(start, end),
        records=end - start,
        min_timestamp=0,
        max_timestamp=0,
        size_bytes=1,
        raw_bytes=1,
        format="segment",
        codec="zstd",
        sha256="0" * 64,
    )


def report(number: int, first: int, next: int, finished: bool = True, **more: Any) -> RangeReport:
    values: dict[str, Any] = {"gone": False, "gaps": (), **more}
    return RangeReport(number=number, first=first, next=next, finished=finished, **values)


def run(plan: Intent, *reports: RangeReport) -> Reconciliation:
    entries = {
        r.number: [entry(plan.ranges[r.number].partition_id, r.first, r.next)]
        for r in reports
        if r.next > r.first
    }
    return reconcile(plan, entries, {r.number: r for r in reports}, at_ms=5)


def test_adjacent_ranges_are_reconciled_in_order() -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20), (P1, 5, 9))
    done = run(plan, report(0, 0, 13), report(1, 13, 20), report(2, 5, 9))
    assert done.positions == {P0: 20, P1: 9}
    assert [(e.partition_id, e.range.start) for e in done.entries] == [(P0, 0), (P0, 13), (P1, 5)]
    assert done.left_over == () and done.gone == ()


def test_a_range_inside_one_huge_batch_owns_nothing_and_still_tiles() -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20), (P0, 20, 30))
    done = run(plan, report(0, 0, 25), report(1, 25, 25), report(2, 25, 30))
    assert done.positions == {P0: 30} and len(done.entries) == 2


@pytest.mark.parametrize("first", [9, 11])
def test_neighbours_that_do_not_meet_commit_nothing(first: int) -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20))
    with pytest.raises(TransientError, match=f"read from offset {first}, but 10 was next"):
        run(plan, report(0, 0, 10), report(1, first, 20))


def test_only_the_prefix_counts_and_the_rest_stays_planned() -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20), (P0, 20, 30), (P1, 0, 5))
    done = run(
        plan,
        report(0, 0, 10),
        report(1, 10, 14, finished=False),
        report(2, 20, 30),
        report(3, 0, 5),
    )
    assert done.positions == {P0: 14, P1: 5}
    assert [e.range for e in done.entries] == [
        OffsetRange(0, 10),
        OffsetRange(10, 14),
        OffsetRange(0, 5),
    ]
    assert [r.range for r in done.left_over] == [OffsetRange(14, 20), OffsetRange(20, 30)]


@pytest.mark.parametrize(("reached", "rest"), [(13, [(13, 20), (20, 30)]), (24, [(24, 30)])])
def test_a_range_that_was_never_begun_waits_behind_the_batch_that_reaches_into_it(
    reached: int, rest: list[tuple[int, int]]
) -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20), (P0, 20, 30))
    done = run(
        plan, report(0, 0, reached), report(1, 10, 10, finished=False), report(2, reached, 30)
    )
    assert done.positions == {P0: reached}
    assert [e.range for e in done.entries] == [OffsetRange(0, reached)]
    assert [(r.range.start, r.range.end) for r in done.left_over] == rest


def test_gaps_of_the_prefix_are_reported_and_others_wait() -> None:
    lost, later = OffsetRange(3, 6), OffsetRange(20, 25)
    plan = intent((P0, 0, 10), (P0, 10, 20), (P0, 20, 30))
    done = run(
        plan,
        report(0, 0, 10, gaps=(lost,)),
        report(1, 10, 12, finished=False),
        report(2, 20, 30, gaps=(later,)),
    )
    assert done.gaps == (Gap(P0, lost, RETENTION, 5),)


def test_a_partition_that_vanished_leaves_nothing_planned() -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20), (P1, 0, 5))
    done = run(
        plan,
        report(0, 0, 7, finished=False, gone=True),
        report(1, 10, 10, finished=False, gone=True),
        report(2, 0, 5),
    )
    assert done.gone == (P0,) and done.left_over == ()
    assert done.positions == {P0: 7, P1: 5}


def test_what_the_range_before_has_read_of_a_gap_is_not_lost() -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20))
    lost = OffsetRange(10, 17)
    done = run(plan, report(0, 0, 13), report(1, 10, 20, gaps=(lost,)))
    assert [gap.range for gap in done.gaps] == [OffsetRange(13, 17)]
    assert done.positions == {P0: 20}
    done = run(plan, report(0, 0, 17), report(1, 10, 20, gaps=(lost,)))
    assert done.gaps == () and done.positions == {P0: 20}


def test_a_leader_epoch_that_is_not_known_is_forgotten_when_the_position_moves() -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20), (P1, 0, 10))
    moved, still = report(0, 0, 10, leader_epoch=5), report(2, 0, 0, finished=False)
    assert run(plan, moved, report(1, 10, 20), still).leader_epochs == {P0: -1}
    behind = report(1, 10, 10, finished=False, leader_epoch=7)
    assert run(plan, moved, behind, still).leader_epochs == {P0: 5}


def test_a_gap_that_several_tasks_met_is_one() -> None:
    plan = intent((P0, 0, 10), (P0, 10, 20))
    lost = [OffsetRange(0, 10), OffsetRange(10, 17)]
    done = run(plan, report(0, 0, 10, gaps=(lost[0],)), report(1, 10, 20, gaps=(lost[1],)))
    assert [gap.range for gap in done.gaps] == [OffsetRange(0, 17)]
