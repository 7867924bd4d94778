"""What the tasks report, settled into one commit: only what tiles the plan counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

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
    done: list[Entry] = []
    gaps: list[Gap] = []
    left_over: list[PlannedRange] = []
    positions: dict[PartitionId, int] = {}
    leader_epochs: dict[PartitionId, int] = {}
    gone: list[PartitionId] = []
    for pid, numbers in by_partition.items():
        position = intent.ranges[numbers[0]].range.start
        stopped = False
        for number in numbers:
            planned = intent.ranges[number]
            # Not begun, it cannot tell where the batch ends that reaches into it from before.
            if stopped or not reports[number].has_read:
                stopped = True
                left_over.append(_rest(planned, position))
                continue
            report = reports[number]
            if report.first != position:
                raise TransientError(
                    f"{pid}: a task read from offset {report.first}, but {position} was next"
                )
            done.extend(entries.get(number, ()))
            gaps.extend(Gap(pid, lost, RETENTION, at_ms) for lost in report.gaps)
            position = report.next
            if report.leader_epoch >= 0:
                leader_epochs[pid] = report.leader_epoch
            if not report.finished:
                stopped = True
                left_over.append(_rest(planned, position))
        if any(reports[number].gone for number in numbers if number in reports):
            gone.append(pid)
        positions[pid] = position
    return Settled(
        entries=tuple(done),
        positions=positions,
        leader_epochs=leader_epochs,
        gaps=tuple(gaps),
        left_over=tuple(r for r in left_over if r.partition_id not in gone and len(r.range)),
        gone=tuple(gone),
        tails={
            intent.ranges[number].partition_id: Tail(**report.tail)
            for number, report in sorted(reports.items())
            if report.tail is not None
        },
        bad=sum(report.bad for report in reports.values()),
        complaints=tuple(line for report in reports.values() for line in report.complaints),
    )


def _rest(planned: PlannedRange, position: int) -> PlannedRange:
    """Return what is still to be read of a range; all of it, if it lies past the position."""
    start = max(position, planned.range.start)
    return replace(planned, range=OffsetRange(start, max(start, planned.range.end)))
