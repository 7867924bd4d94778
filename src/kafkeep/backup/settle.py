"""What the tasks report, settled into one commit: only what tiles the plan counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkeep.archive.commit import Gap, Intent, PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup.plan import RETENTION
from kafkeep.backup.tail import Tail
from kafkeep.backup.task import RangeReport
from kafkeep.errors import TransientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One prefix per partition of what was planned, and what remains of the plan."""

    entries: tuple[Entry, ...]
    positions: Mapping[PartitionId, int]
    leader_epochs: Mapping[PartitionId, int]
    """Of those whose position moved; -1 where the epoch there is not known."""
    gaps: tuple[Gap, ...]
    left_over: tuple[PlannedRange, ...]
    """Planned, not read yet: the next intent names these again, so their objects are adopted."""
    gone: tuple[PartitionId, ...]
    """Partitions that vanished from Kafka while they were read."""
    tails: Mapping[PartitionId, Tail]
    """Of a sink: what was read and is left in Kafka."""
    bad: int
    """Records a sink left out as it was told to."""
    complaints: tuple[str, ...]


def settle(
    intent: Intent,
    entries: Mapping[int, Iterable[Entry]],
    reports: Mapping[int, RangeReport],
    *,
    at_ms: int,
) -> Settled:
    """Put the reports of an intent's ranges together, in order.

    ``entries`` and ``reports`` are by the range's place in the intent. TransientError when two
    neighbours do not meet: then nothing may be committed.
    """
    by_partition: dict[PartitionId, list[int]] = {}
    for number, planned in enumerate(intent.ranges):
        by_partition.setdefault(planned.partition_id, []).append(number)
    parts = [
        _settle_partition(intent, numbers, entries, reports, at_ms)
        for numbers in by_partition.values()
    ]
    gone = [part.partition_id for part in parts if part.gone]
    left_over = [rest for part in parts if not part.gone for rest in part.left_over]
    return Settled(
        entries=tuple(entry for part in parts for entry in part.entries),
        positions={part.partition_id: part.position for part in parts},
        leader_epochs={p.partition_id: e for p in parts if (e := p.leader_epoch) is not None},
        gaps=tuple(gap for part in parts for gap in part.gaps),
        left_over=tuple(rest for rest in left_over if len(rest.range)),
        gone=tuple(gone),
        tails={
            intent.ranges[number].partition_id: Tail(**report.tail)
            for number, report in sorted(reports.items())
            if report.tail is not None
        },
        bad=sum(report.bad for report in reports.values()),
        complaints=tuple(line for report in reports.values() for line in report.complaints),
    )


@dataclass(slots=True)
class _Part:
    """What came of one partition: the prefix that was read without a break, and the rest."""

    partition_id: PartitionId
    position: int
    gone: bool
    leader_epoch: int | None = None
    entries: list[Entry] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    left_over: list[PlannedRange] = field(default_factory=list)

    def lose(self, lost: OffsetRange, at_ms: int) -> None:
        """Note a gap; where it goes on from one that another task met, they are one."""
        if self.gaps and self.gaps[-1].range.end == lost.start:
            lost = OffsetRange(self.gaps.pop().range.start, lost.end)
        self.gaps.append(Gap(self.partition_id, lost, RETENTION, at_ms))


def _settle_partition(
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
        # Not begun, a range cannot tell where the batch ends that reaches into it from before.
        if part.left_over or not reports[number].has_read:
            part.left_over.append(_rest(planned, part.position))
            continue
        report = _behind(part.position, reports[number])
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


def _behind(position: int, report: RangeReport) -> RangeReport:
    """Return the report less what the range before it has of a gap that begins it.

    That range had read on into this one, to the end of its last batch, before Kafka deleted it.
    """
    if not report.gaps or not report.first < position <= report.gaps[0].end:
        return report
    lost, *others = report.gaps
    if lost.start != report.first:
        return report
    rest = OffsetRange(position, lost.end)
    return replace(report, first=position, gaps=(*([rest] if len(rest) else []), *others))


def _rest(planned: PlannedRange, position: int) -> PlannedRange:
    """Return what is still to be read of a range; all of it, if it lies past the position."""
    start = max(position, planned.range.start)
    return replace(planned, range=OffsetRange(start, max(start, planned.range.end)))
