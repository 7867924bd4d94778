"""Distribute the work of a cycle over tasks, and reconcile their reports with the plan. Pure.

Stretches are cut into ranges, and ranges are packed into bundles. Only reports that tile the plan
without a break count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from kafkeep.archive.commit import Gap, Intent, PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup.cycle_budget import PlannedStretch
from kafkeep.backup.plan import RETENTION, UNKNOWN_RECORD_BYTES
from kafkeep.backup.task import RangeReport
from kafkeep.errors import TransientError
from kafkeep.objects.range_writer import SinkTail
from kafkeep.options.backup import MIB
from kafkeep.spark.bundles import pack_evenly

SMALLEST_SPLIT_BYTES = 32 * MIB
SMALLEST_BUNDLE_BYTES = 8 * MIB
LARGEST_BUNDLE_BYTES = 512 * MIB
"""Up to this size, one task per slot is best: it fetches, compresses and stores in parallel."""
RANGES_PER_SLOT = 3
"""Several, so that all slots finish at about the same time even if partitions differ in size."""


def count_bundles(est_bytes: int, slots: int) -> int:
    """Return the number of tasks of a cycle: one to three for each that runs at a time."""
    per_slot = -(-est_bytes // (LARGEST_BUNDLE_BYTES * slots))
    return slots * min(RANGES_PER_SLOT, max(1, per_slot))


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedRange:
    """One range of a stretch, with its expected size and its leader."""

    planned: PlannedRange
    leader: int
    est_bytes: int


def weigh_ranges(
    ranges: Iterable[PlannedRange], ratios: Mapping[PartitionId, float] | None = None
) -> list[WeighedRange]:
    """Estimate the size of ranges of an earlier cycle from the bytes per offset, if known."""
    known = ratios or {}
    return [
        WeighedRange(
            planned=r,
            leader=-1,
            est_bytes=int(len(r.range) * known.get(r.partition_id, UNKNOWN_RECORD_BYTES)),
        )
        for r in ranges
    ]


def split_stretches(
    stretches: Iterable[PlannedStretch],
    *,
    tasks: int,
    may_cut: bool = True,
    segment_bytes: int | None = None,
) -> list[WeighedRange]:
    """Cut stretches into about ``tasks`` ranges of similar size. Small stretches stay whole.

    Without ``may_cut`` all stay whole, because the rules of a sink restart at each cut. With
    ``segment_bytes`` every range but the last of a stretch holds whole segments.
    """
    stretches = list(stretches)
    total = sum(s.est_bytes for s in stretches)
    share = max(SMALLEST_SPLIT_BYTES, total // max(1, tasks))
    if segment_bytes is not None:
        share = max(1, share // segment_bytes) * segment_bytes
    ranges = []
    for s in stretches:
        cuts = min(len(s.range), max(1, round(s.est_bytes / share))) if may_cut else 1
        edges = _edges(s, cuts, share if segment_bytes is not None else None)
        for start, end in pairwise(edges):
            planned = PlannedRange(
                partition_id=s.partition_id, topic_id=s.topic_id, range=OffsetRange(start, end)
            )
            weight = s.est_bytes * (end - start) // len(s.range)
            ranges.append(WeighedRange(planned=planned, leader=s.leader, est_bytes=weight))
    return ranges


def _edges(stretch: PlannedStretch, cuts: int, step_bytes: int | None) -> list[int]:
    """Return the offsets where a stretch begins, is cut, and ends: in equal parts, or by bytes."""
    start, end = stretch.range.start, stretch.range.end
    step, whole = (1, cuts) if step_bytes is None else (step_bytes, stretch.est_bytes)
    inner = (start + len(stretch.range) * step * i // whole for i in range(1, cuts))
    return [start, *(at for at in inner if start < at < end), end]


def pack(ranges: Iterable[WeighedRange], *, bundles: int) -> list[tuple[WeighedRange, ...]]:
    """Pack ranges into at most ``bundles`` bundles of similar size, largest range first.

    Ranges of a bundle are ordered by leader, so that one Fetch request can read several.
    """
    ranges = sorted(ranges, key=lambda r: (-r.est_bytes, r.planned.partition_id))
    total = sum(r.est_bytes for r in ranges)
    wanted = min(bundles, len(ranges), max(1, total // (SMALLEST_BUNDLE_BYTES)))
    return [
        tuple(sorted(members, key=lambda r: (r.leader, r.planned.partition_id, r.planned.range)))
        for members in pack_evenly(ranges, wanted, lambda r: r.est_bytes)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The archived prefix of each planned partition, and the rest of the plan."""

    entries: tuple[Entry, ...]
    positions: Mapping[PartitionId, int]
    leader_epochs: Mapping[PartitionId, int]
    """For partitions whose position moved; -1 if the epoch at the position is unknown."""
    gaps: tuple[Gap, ...]
    left_over: tuple[PlannedRange, ...]
    """Planned and not read yet. The next intent repeats them, so that their objects are adopted."""
    gone: tuple[PartitionId, ...]
    """Partitions whose topic was deleted while they were read."""
    tails: Mapping[PartitionId, SinkTail]
    """For a sink: records that were read and stay in Kafka."""
    bad: int
    """Records that a sink skipped, as errors.tolerance allows."""
    complaints: tuple[str, ...]


def reconcile(
    intent: Intent,
    entries: Mapping[int, Iterable[Entry]],
    reports: Mapping[int, RangeReport],
    *,
    at_ms: int,
) -> Reconciliation:
    """Combine the reports of an intent's ranges, in order.

    ``entries`` and ``reports`` are keyed by the index of the range in the intent. Raises
    TransientError if adjacent reports do not meet. Then nothing may be committed.
    """
    by_partition: dict[PartitionId, list[int]] = {}
    for number, planned in enumerate(intent.ranges):
        by_partition.setdefault(planned.partition_id, []).append(number)
    parts = [
        _reconcile_partition(intent, numbers, entries, reports, at_ms)
        for numbers in by_partition.values()
    ]
    gone = [part.partition_id for part in parts if part.gone]
    left_over = [rest for part in parts if not part.gone for rest in part.left_over]
    return Reconciliation(
        entries=tuple(entry for part in parts for entry in part.entries),
        positions={part.partition_id: part.position for part in parts},
        leader_epochs={p.partition_id: e for p in parts if (e := p.leader_epoch) is not None},
        gaps=tuple(gap for part in parts for gap in part.gaps),
        left_over=tuple(rest for rest in left_over if len(rest.range)),
        gone=tuple(gone),
        tails={
            intent.ranges[number].partition_id: SinkTail(**report.tail)
            for number, report in sorted(reports.items())
            if report.tail is not None
        },
        bad=sum(report.bad for report in reports.values()),
        complaints=tuple(line for report in reports.values() for line in report.complaints),
    )


@dataclass(slots=True)
class _Part:
    """One partition: the prefix that was read without a break, and the rest."""

    partition_id: PartitionId
    position: int
    gone: bool
    leader_epoch: int | None = None
    entries: list[Entry] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    left_over: list[PlannedRange] = field(default_factory=list)

    def lose(self, lost: OffsetRange, at_ms: int) -> None:
        """Add a gap; merge it with the previous gap if they are adjacent."""
        if self.gaps and self.gaps[-1].range.end == lost.start:
            lost = OffsetRange(self.gaps.pop().range.start, lost.end)
        self.gaps.append(Gap(self.partition_id, lost, RETENTION, at_ms))


def _reconcile_partition(
    intent: Intent,
    numbers: Sequence[int],
    entries: Mapping[int, Iterable[Entry]],
    reports: Mapping[int, RangeReport],
    at_ms: int,
) -> _Part:
    first = intent.ranges[numbers[0]]
    pid = first.partition_id
    gone = any(reports[number].gone for number in numbers if number in reports)
    part = _Part(pid, first.range.start, gone)
    for number in numbers:
        planned = intent.ranges[number]
        # A range that was not read cannot report where the batch that spans its start ends.
        if part.left_over or not reports[number].has_read:
            part.left_over.append(_rest(planned, part.position))
            continue
        report = _trim_gap(part.position, reports[number])
        if report.first != part.position:
            raise TransientError(
                f"{pid}: a task read from offset {report.first}, but {part.position} was next"
            )
        part.entries.extend(entries.get(number, ()))
        for lost in report.gaps:
            part.lose(lost, at_ms)
        part.position = report.next
        if report.next > report.first:
            part.leader_epoch = report.leader_epoch
        if not report.finished:
            part.left_over.append(_rest(planned, part.position))
    return part


def _trim_gap(position: int, report: RangeReport) -> RangeReport:
    """Remove offsets that the previous range has read from the gap at the start of a report.

    The previous range read its last batch, which spans both ranges, before Kafka deleted it.
    """
    if not report.gaps or not report.first < position <= report.gaps[0].end:
        return report
    lost, *others = report.gaps
    if lost.start != report.first:
        return report
    rest = OffsetRange(position, lost.end)
    return replace(report, first=position, gaps=(*([rest] if len(rest) else []), *others))


def _rest(planned: PlannedRange, position: int) -> PlannedRange:
    """Return the part of a range at or after ``position``."""
    start = max(position, planned.range.start)
    return replace(planned, range=OffsetRange(start, max(start, planned.range.end)))
