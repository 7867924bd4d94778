"""Share a cycle's work out: cut stretches into ranges, pack ranges into tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange
from kafkeep.backup.plan import UNKNOWN_RECORD_BYTES, Stretch
from kafkeep.config.backup import MIB

SMALLEST_SPLIT_BYTES = 32 * MIB
SMALLEST_BUNDLE_BYTES = 8 * MIB
LARGEST_BUNDLE_BYTES = 512 * MIB
"""Up to here one task per core is best: it fetches, packs and stores side by side."""
RANGES_PER_CORE = 3
"""So that cores end at about the same time, whatever the partitions weigh."""


def bundles_for(est_bytes: int, cores: int) -> int:
    """Return how many tasks a cycle is given: one to three for each core."""
    rounds = -(-est_bytes // (LARGEST_BUNDLE_BYTES * cores))
    return cores * min(RANGES_PER_CORE, max(1, rounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedRange:
    """One range of a stretch, with what it is expected to weigh and who leads it."""

    planned: PlannedRange
    leader: int
    est_bytes: int


def weigh(ranges: Iterable[PlannedRange]) -> list[WeighedRange]:
    """Weigh ranges that an earlier cycle planned: of them only their offsets are known."""
    return [
        WeighedRange(planned=r, leader=-1, est_bytes=len(r.range) * UNKNOWN_RECORD_BYTES)
        for r in ranges
    ]


def split_stretches(
    stretches: Iterable[Stretch], *, tasks: int, may_cut: bool = True
) -> list[WeighedRange]:
    """Cut stretches so that about ``tasks`` of them are of even weight; small ones stay whole.

    Without ``may_cut`` all stay whole: a sink's rules count from one cut to the next.
    """
    stretches = list(stretches)
    total = sum(s.est_bytes for s in stretches)
    share = max(SMALLEST_SPLIT_BYTES, total // max(1, tasks))
    ranges = []
    for s in stretches:
        pieces = min(len(s.range), max(1, round(s.est_bytes / share))) if may_cut else 1
        edges = [s.range.start + len(s.range) * i // pieces for i in range(pieces + 1)]
        for start, end in pairwise(edges):
            planned = PlannedRange(
                partition_id=s.partition_id, topic_id=s.topic_id, range=OffsetRange(start, end)
            )
            ranges.append(
                WeighedRange(planned=planned, leader=s.leader, est_bytes=s.est_bytes // pieces)
            )
    return ranges


def pack(ranges: Iterable[WeighedRange], *, bundles: int) -> list[tuple[WeighedRange, ...]]:
    """Share ranges out to at most ``bundles`` tasks of even weight, heaviest first.

    Inside a bundle ranges are ordered by leader, so that one Fetch can ask for several.
    """
    ranges = sorted(ranges, key=lambda r: (-r.est_bytes, r.planned.partition_id))
    total = sum(r.est_bytes for r in ranges)
    wanted = min(bundles, len(ranges), max(1, total // (SMALLEST_BUNDLE_BYTES)))
    slots: list[tuple[int, list[WeighedRange]]] = [(0, []) for _ in range(wanted)]
    for r in ranges:
        index = min(range(len(slots)), key=lambda i: (slots[i][0], len(slots[i][1])))
        weight, members = slots[index]
        slots[index] = (weight + r.est_bytes, [*members, r])
    return [
        tuple(sorted(members, key=lambda r: (r.leader, r.planned.partition_id, r.planned.range)))
        for _, members in slots
        if members
    ]
