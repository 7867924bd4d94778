"""Sharing work out: cuts tile what was planned, bundles hold each range once and weigh alike."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.cycle_budget import DueReason, PlannedStretch
from kafkeep.backup.reconcile_reports import (
    SMALLEST_SPLIT_BYTES,
    WeighedRange,
    pack,
    split_stretches,
)

MIB = 1 << 20


@st.composite
def stretch_lists(draw: st.DrawFn) -> list[PlannedStretch]:
    return [
        PlannedStretch(
            partition_id=PartitionId("t", 1, number),
            topic_id="id",
            range=OffsetRange(start, start + draw(st.integers(1, 10**6))),
            leader=draw(st.integers(1, 3)),
            est_bytes=draw(st.integers(1, 2000 * MIB)),
            reason=DueReason.ONCE,
        )
        for number, start in enumerate(draw(st.lists(st.integers(0, 10**9), max_size=20)))
    ]


@given(stretches=stretch_lists(), tasks=st.integers(1, 64))
def test_cuts_tile_each_stretch_exactly(stretches: list[PlannedStretch], tasks: int) -> None:
    ranges = split_stretches(stretches, tasks=tasks)
    for stretch in stretches:
        mine = [r.planned.range for r in ranges if r.planned.partition_id == stretch.partition_id]
        assert mine[0].start == stretch.range.start and mine[-1].end == stretch.range.end
        assert all(a.end == b.start for a, b in pairwise(mine))
        assert all(len(one) for one in mine)


@given(stretches=stretch_lists(), tasks=st.integers(1, 64))
def test_no_piece_weighs_much_more_than_its_share(
    stretches: list[PlannedStretch], tasks: int
) -> None:
    share = max(SMALLEST_SPLIT_BYTES, sum(s.est_bytes for s in stretches) // tasks)
    for piece in split_stretches(stretches, tasks=tasks):
        assert piece.est_bytes <= 1.5 * share or len(piece.planned.range) == 1


@given(stretches=stretch_lists(), tasks=st.integers(1, 16))
def test_bundles_hold_every_range_once(stretches: list[PlannedStretch], tasks: int) -> None:
    ranges = split_stretches(stretches, tasks=tasks)
    bundles = pack(ranges, bundles=tasks)
    packed: list[WeighedRange] = [one for bundle in bundles for one in bundle]
    assert sorted(packed, key=order) == sorted(ranges, key=order)
    assert len(bundles) <= tasks and all(bundles)


@given(stretches=stretch_lists(), tasks=st.integers(1, 16))
def test_bundles_differ_by_at_most_one_range(stretches: list[PlannedStretch], tasks: int) -> None:
    ranges = split_stretches(stretches, tasks=tasks)
    weights = [sum(one.est_bytes for one in b) for b in pack(ranges, bundles=tasks)]
    if weights:
        assert max(weights) - min(weights) <= max(r.est_bytes for r in ranges)


def order(one: WeighedRange) -> tuple[PartitionId, int]:
    return one.planned.partition_id, one.planned.range.start
