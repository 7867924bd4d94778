"""Which offsets of a partition are archived, wait in Kafka, or are lost; as bars, too. Pure.

Several logs may hold the same topic. An offset is archived if one of them covers it, and lost only
if none does. A log covers every offset from its first one up to its position, except its gaps:
offsets without an object hold no record.

Bars show a partition by offset and a topic by time, in a bounded number of parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from kafkeep.archive.entry import OffsetRange
from kafkeep.numba_setup import Int64s

BINS = 400
TIME_BINS = 120
_SPARSE = 0.5
"""A stretch with fewer records than this share of its offsets is drawn as a hole."""
Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True)
class BarPart:
    """A stretch of a bar; ``x`` and ``width`` are thousandths of the bar."""

    kind: CoverageKind
    range: OffsetRange
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class TimeBin:
    """Records of one span of time. ``height`` is relative to the fullest bin: 0 to 1."""

    start_ms: int
    end_ms: int
    records: int
    height: float
    kind: CoverageKind | None
    """None where nothing is known, because no record has such a time."""


def offset_bar(
    coverage: PartitionCoverage, logs: Sequence[LoggedPartition], bins: int = BINS
) -> tuple[BarPart, ...]:
    """Return the parts of a partition's bar, from its first to its last offset.

    A gap or offsets that wait have at least one bin, however few they are.
    """
    span = coverage.span
    if span is None or not len(span):
        return ()
    edges = np.linspace(0, len(span), bins + 1)
    kinds: list[CoverageKind | None] = [None] * bins
    held = _density(logs, span, edges)
    for one in coverage.archived:
        for i in _touched(one, span, bins):
            kinds[i] = CoverageKind.ARCHIVED if held[i] >= _SPARSE else CoverageKind.HOLE
    for kind, ranges in (
        (CoverageKind.WAITING, coverage.waiting),
        (CoverageKind.GAP, coverage.gaps),
    ):
        for one in ranges:
            for i in _touched(one, span, bins):
                kinds[i] = kind
    return tuple(_joined(kinds, span, bins))


def place(range: OffsetRange, span: OffsetRange) -> tuple[float, float]:
    """Return where a range is in a bar of ``span``: x and width, in thousandths."""
    scale = 1000 / max(1, len(span))
    x = (range.start - span.start) * scale
    return round(x, 2), round(max(2.0, len(range) * scale), 2)


def _density(logs: Sequence[LoggedPartition], span: OffsetRange, edges: Floats) -> Floats:
    """Return records per offset in each bin, of the log that holds most there."""
    best = np.zeros(len(edges) - 1)
    for log in logs:
        if len(log.starts):
            sums = cumulated(log.starts - span.start, log.ends - span.start, log.records, edges)
            np.maximum(best, np.diff(sums) / np.diff(edges), out=best)
    return best


def _touched(one: OffsetRange, span: OffsetRange, bins: int) -> range:
    """Return the bins whose middle is in a range, and at least the one where it begins."""
    size = len(span)
    first = ((one.start - span.start) * 2 * bins + size) // (2 * size)
    after = ((one.end - span.start) * 2 * bins + size) // (2 * size)
    first = min(first, bins - 1)
    return range(first, max(first + 1, min(after, bins)))


def _joined(kinds: list[CoverageKind | None], span: OffsetRange, bins: int) -> list[BarPart]:
    parts, at = [], 0
    for kind, members in groupby(kinds):
        count = len(list(members))
        if kind is not None:
            covered = OffsetRange(
                span.start + at * len(span) // bins, span.start + (at + count) * len(span) // bins
            )
            parts.append(
                BarPart(kind, covered, round(at * 1000 / bins, 2), round(count * 1000 / bins, 2))
            )
        at += count
    return parts


def cumulated(starts: Int64s, ends: Int64s, weights: Int64s, edges: Floats) -> Floats:
    """Return, for each edge, the weight before it when each is spread evenly over its span.

    Spans may overlap and may have no length.
    """
    begin = starts.astype(np.float64)
    size = np.maximum(ends - starts, 1).astype(np.float64)
    rates = weights / size
    up, down = np.argsort(begin, kind="stable"), np.argsort(begin + size, kind="stable")
    return _ramps(begin[up], rates[up], edges) - _ramps((begin + size)[down], rates[down], edges)


def _ramps(at: Floats, rates: Floats, edges: Floats) -> Floats:
    """Return the sum of ``rate * (edge - at)`` over all ramps that begin before each edge."""
    count = np.searchsorted(at, edges, side="right")
    rate_sums = np.concatenate([[0.0], np.cumsum(rates)])
    moment_sums = np.concatenate([[0.0], np.cumsum(rates * at)])
    result: Floats = edges * rate_sums[count] - moment_sums[count]
    return result


def time_bars(
    times: tuple[Int64s, Int64s, Int64s],
    *,
    now_ms: int,
    gaps_ms: Sequence[tuple[int, int]] = (),
    waits_since_ms: int | None = None,
    bins: int = TIME_BINS,
) -> tuple[TimeBin, ...]:
    """Return the archived records by time, from the oldest record up to now.

    ``times`` holds the first time, the last time and the records of each object. Times before 1970
    and in the future are left out. Offsets wait since ``waits_since_ms``.
    """
    lows, highs, records = times
    known = (lows >= 0) & (highs <= now_ms)
    lows, highs, records = lows[known], highs[known], records[known]
    begins = [int(lows.min())] if len(lows) else []
    begins += [start for start, _ in gaps_ms if 0 <= start <= now_ms]
    if waits_since_ms is not None and 0 <= waits_since_ms <= now_ms:
        begins.append(waits_since_ms)
    if not begins:
        return ()
    first = min(begins)
    last = max(int(highs.max(initial=first)), first + bins)
    if waits_since_ms is not None or gaps_ms:
        last = max(last, now_ms)
    edges = np.linspace(0, last - first, bins + 1)
    sums = cumulated(lows - first, highs - first + 1, records, edges)
    counts = np.diff(sums)
    most = float(counts.max(initial=0.0))
    bounds = [first + int(edge) for edge in edges]
    # The bin of the newest archived record counts as archived, unless it is the last one.
    waits = None if waits_since_ms is None else min(waits_since_ms, bounds[-2])
    return tuple(
        TimeBin(
            a,
            b,
            round(count),
            round(count / most, 3) if most > 0 else 0.0,
            _kind_at(a, b, count, gaps_ms, waits),
        )
        for a, b, count in zip(bounds[:-1], bounds[1:], counts.tolist(), strict=True)
    )


def _kind_at(
    start: int,
    end: int,
    count: float,
    gaps: Sequence[tuple[int, int]],
    waits_since: int | None,
) -> CoverageKind | None:
    if any(a < end and b >= start for a, b in gaps):
        return CoverageKind.GAP
    if waits_since is not None and start >= waits_since:
        return CoverageKind.WAITING
    return CoverageKind.ARCHIVED if count > 1e-3 else None
