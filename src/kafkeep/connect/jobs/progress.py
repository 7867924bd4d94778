"""What a job has done, and how far it is behind. Pure.

Status answers and ``/metrics`` both take their numbers from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkeep.archive.commit import Gap
from kafkeep.connect.model import Backlog, ConnectorType, LostOffsets, OffsetGaps

NO_PROGRESS_MS = 60_000
"""Work that is due for longer than this without a commit is reported."""
GAPS_SHOWN = 10


@dataclass(slots=True)
class Progress:
    """What a job has done since its start. The job writes it; status and metrics read it.

    One thread writes plain numbers, others read them. Partitions are (topic, number). ``records``
    is written last, so that a reader who sees it sees its positions, too.
    """

    records: int = 0
    bytes: int = 0
    objects: int = 0
    commits: int = 0
    gaps: int = 0
    skipped_offsets: int = 0
    """Offsets in these gaps."""
    bad_records: int = 0
    last_commit_ms: int | None = None
    topics: set[str] = field(default_factory=set)
    """Topics that records were read from or written to."""
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """Archived, or restored, up to here."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of a sink: the end offsets in its last snapshot of the cluster."""
    measured_ms: int | None = None
    """When lag and gaps were last measured."""
    due_since_ms: int | None = None
    """Since when work is due without a commit."""
    is_passive: bool = False
    """True while another connector of its pair archives and this one does not read Kafka."""
    lost: OffsetGaps = field(default_factory=OffsetGaps)
    """All gaps of the log, also those of earlier runs."""
    lag_records: dict[tuple[str, int], int] = field(default_factory=dict)
    lag_since_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    """Since when records of a partition wait; absent for one that is archived to its end."""


@dataclass(frozen=True, slots=True, order=True)
class PartitionLag:
    """How many offsets of one partition wait, and for how long the oldest has waited."""

    topic: str
    partition: int
    records: int = field(compare=False)
    seconds: float = field(compare=False)


def partition_lags(progress: Progress, now_ms: int) -> list[PartitionLag]:
    """Return how far behind each partition is, sorted; 0 records for one at its end."""
    # The job's thread keeps writing: a copy is atomic, a loop is not.
    waiting, since = progress.lag_records.copy(), progress.lag_since_ms.copy()
    return sorted(
        PartitionLag(
            topic,
            partition,
            records,
            max(0, now_ms - since.get((topic, partition), now_ms)) / 1000,
        )
        for (topic, partition), records in waiting.items()
    )


def backlog_of(
    progress: Progress, kind: ConnectorType, now_ms: int, running_since_ms: int | None
) -> Backlog:
    """Return a job's backlog; ``running_since_ms`` is None for a connector that does not run."""
    lags = partition_lags(progress, now_ms)
    stuck_ms = None if running_since_ms is None else _undone_since(progress, kind, running_since_ms)
    return Backlog(
        measured_ms=progress.measured_ms,
        records=sum(lag.records for lag in lags),
        seconds=max((lag.seconds for lag in lags), default=0.0),
        last_progress_ms=progress.last_commit_ms,
        no_progress_since_ms=stuck_ms
        if stuck_ms is not None and now_ms - stuck_ms >= NO_PROGRESS_MS
        else None,
        gaps=progress.lost,
    )


def _undone_since(progress: Progress, kind: ConnectorType, running_since_ms: int) -> int | None:
    """Return since when work is due; a sink reads the end offsets every few seconds.

    Records that wait for a rotation rule are not due.
    """
    if progress.due_since_ms is not None:
        return max(progress.due_since_ms, running_since_ms)
    if kind == "source" or progress.is_passive:
        return None
    return max(progress.measured_ms or 0, running_since_ms)


def gaps_of(gaps: Iterable[Gap]) -> OffsetGaps:
    """Summarise the gaps of a log: all counted, the newest listed."""
    found = sorted(gaps, key=lambda gap: (gap.at_ms, gap.partition_id, gap.range.start))
    return OffsetGaps(
        count=len(found),
        offsets=sum(len(gap.range) for gap in found),
        newest=tuple(_lost(gap) for gap in reversed(found[-GAPS_SHOWN:])),
    )


def _lost(gap: Gap) -> LostOffsets:
    return LostOffsets(
        topic=gap.partition_id.topic,
        partition=gap.partition_id.partition,
        start=gap.range.start,
        end=gap.range.end,
        reason=gap.reason,
        at_ms=gap.at_ms,
    )
