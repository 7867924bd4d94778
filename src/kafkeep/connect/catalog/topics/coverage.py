"""Which offsets of a partition are archived, wait in Kafka, or are lost. Pure.

Several logs may hold the same topic. An offset is archived if one of them covers it, and lost only
if none does. A log covers every offset from its first one up to its position, except its gaps:
offsets without an object hold no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkeep.archive.entry import OffsetRange
from kafkeep.numba_setup import Int64s


class CoverageKind(StrEnum):
    """What is known of some offsets."""

    ARCHIVED = "archived"
    HOLE = "hole"
    WAITING = "waiting"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPartition:
    """What one log holds of one partition: its objects, gaps and position."""

    starts: Int64s = field(repr=False)
    ends: Int64s = field(repr=False)
    records: Int64s = field(repr=False)
    gaps: tuple[OffsetRange, ...] = ()
    position: int = 0

    @property
    def covered(self) -> list[OffsetRange]:
        """The offsets that it covers."""
        begins = [int(self.starts.min())] if len(self.starts) else []
        begins += [gap.start for gap in self.gaps]
        begin = min(begins, default=self.position)
        if begin >= self.position:
            return []
        return subtract([OffsetRange(begin, self.position)], self.gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCoverage:
    """One partition of one incarnation, over all logs that hold it."""

    partition: int
    live: OffsetRange | None = None
    """The offsets that Kafka has now; None when the topic or the partition is gone."""
    archived: tuple[OffsetRange, ...] = ()
    gaps: tuple[OffsetRange, ...] = ()
    waiting: tuple[OffsetRange, ...] = ()
    records: int = 0
    """Of the log that covers most, as are the holes."""
    holes: int = 0
    position: int | None = None
    """The offset up to which it is archived; None when no log has the partition."""

    @property
    def span(self) -> OffsetRange | None:
        """From the first to the last offset that is known of; None when there is none."""
        known = [*self.archived, *self.gaps, *([self.live] if self.live else [])]
        if not known:
            return None
        return OffsetRange(min(one.start for one in known), max(one.end for one in known))

    @property
    def archived_offsets(self) -> int:
        return total(self.archived)

    @property
    def lost_offsets(self) -> int:
        return total(self.gaps)

    @property
    def waiting_offsets(self) -> int:
        """Offsets in Kafka that no log covers."""
        return total(self.waiting)

    @property
    def lag(self) -> int | None:
        """Offsets in Kafka past the archived position; None when Kafka does not have it."""
        if self.live is None:
            return None
        return max(0, self.live.end - max(self.live.start, self.position or 0))


def cover(
    partition: int, logs: Sequence[LoggedPartition], live: OffsetRange | None
) -> PartitionCoverage:
    """Combine what logs hold of a partition with what Kafka has of it."""
    covered = [log.covered for log in logs]
    archived = union(one for ranges in covered for one in ranges)
    gaps = subtract(union(gap for log in logs for gap in log.gaps), archived)
    waiting = subtract(subtract([live] if live else [], archived), gaps)
    records = holes = 0
    if logs:
        most = max(range(len(logs)), key=lambda i: total(covered[i]))
        records = int(logs[most].records.sum())
        holes = max(0, total(covered[most]) - records)
    return PartitionCoverage(
        partition=partition,
        live=live,
        archived=tuple(archived),
        gaps=tuple(gaps),
        waiting=tuple(waiting),
        records=records,
        holes=holes,
        position=max((log.position for log in logs), default=None),
    )


def union(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the offsets of all ranges, in order, merged where they touch."""
    merged: list[OffsetRange] = []
    for one in sorted(one for one in ranges if len(one)):
        if merged and one.start <= merged[-1].end:
            merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, one.end))
        else:
            merged.append(one)
    return merged


def subtract(ranges: Iterable[OffsetRange], taken: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the offsets of ``ranges`` that are not in ``taken``, in order."""
    left = []
    away = union(taken)
    at = 0
    for one in union(ranges):
        start = one.start
        while at < len(away) and away[at].end <= start:
            at += 1
        i = at
        while i < len(away) and away[i].start < one.end:
            if away[i].start > start:
                left.append(OffsetRange(start, away[i].start))
            start = max(start, away[i].end)
            i += 1
        if start < one.end:
            left.append(OffsetRange(start, one.end))
    return left


def total(ranges: Iterable[OffsetRange]) -> int:
    """Return the number of offsets in ranges that do not overlap."""
    return sum(one.end - one.start for one in ranges)
