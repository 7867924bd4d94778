"""Plan a cycle: which offsets to read, and which offsets were lost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from kafkeep.archive.commit import Changes, Gap, Intent, LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.cluster_snapshot import (
    ClusterSnapshot,
    PartitionSnapshot,
    TopicSnapshot,
    check_not_truncated,
)
from kafkeep.backup.incarnations import LoggedState, identify_topics
from kafkeep.backup.sink_schedule import PartitionBacklog, ReadDecision, SinkTiming
from kafkeep.errors import GapError
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.options.backup import BackupOptions

EARLIEST, LATEST = "earliest", "latest"
RETENTION = "deleted from Kafka before it was archived"
UNKNOWN_RECORD_BYTES = 1024


class DueReason(StrEnum):
    """Why a partition is read in this cycle."""

    ONCE = "one-shot backup"
    BYTES = "enough bytes are waiting for a whole object"
    AGE = "records have waited long enough"


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A snapshot of the cluster, and the state of its topics in the log."""

    snapshot: ClusterSnapshot
    logged: LoggedState
    topics: Mapping[str, TopicInfo]
    """The topics of the snapshot, each with its incarnation."""

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, logged: LoggedState) -> PlanInput:
        """Combine a snapshot with the log, and assign incarnations to its topics."""
        return cls(snapshot, logged, identify_topics(snapshot, logged))

    def iter_partitions(self) -> Iterator[tuple[PartitionId, TopicSnapshot, PartitionSnapshot]]:
        """Yield every partition of the snapshot, in order."""
        for name, topic in sorted(self.snapshot.topics.items()):
            for number, partition in enumerate(topic.partitions):
                yield PartitionId(name, self.topics[name].incarnation, number), topic, partition


@dataclass(slots=True)
class CycleBacklog:
    """Records that are in Kafka and not archived yet. Kept from one cycle to the next."""

    since: dict[PartitionId, int] = field(default_factory=dict)
    """Partition → the time since when its records wait, in ms."""
    tails: dict[PartitionId, SinkTail] = field(default_factory=dict)
    """For a sink: records that were read and stay in Kafka."""

    def note_read(
        self,
        intent: Intent,
        tails: Mapping[PartitionId, SinkTail],
        moved: Set[PartitionId],
    ) -> None:
        """Update the backlog after an intent; the position of partitions in ``moved`` advanced."""
        for planned in intent.ranges:
            pid = planned.partition_id
            if pid not in tails:
                self.tails.pop(pid, None)
                self.since.pop(pid, None)
                continue
            self.tails[pid] = tails[pid]
            if pid in moved:
                self.since[pid] = intent.at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStretch:
    """The contiguous offsets of one partition in a cycle. One or more tasks read them."""

    partition_id: PartitionId
    topic_id: str
    range: OffsetRange
    leader: int
    est_bytes: int
    reason: str
    closes: RotateReason | None = None
    """For a sink: why the files that are open at its end are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """The offsets that one cycle reads, and the metadata that it commits."""

    stretches: tuple[PlannedStretch, ...]
    gaps: tuple[Gap, ...]
    topics: tuple[TopicInfo, ...]
    """Topics that are new or have changed since the log last recorded them."""
    positions: Mapping[PartitionId, int]
    """Start offsets of partitions that are new to the log, or that lost records."""
    spans: Mapping[PartitionId, LogSpan]
    waiting: Mapping[PartitionId, int]
    """Partition → the time since when its records wait to be due, in ms."""
    blocked: tuple[PartitionId, ...]
    identified: Mapping[str, TopicInfo] = field(default_factory=dict)
    """All topics of the snapshot."""
    groups: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    """Group offsets of the snapshot."""


def first_positions(
    given: PlanInput, *, start_at: str, group: Mapping[tuple[str, int], int]
) -> dict[PartitionId, int]:
    """Return the start offsets of new partitions that do not start at the log start.

    An offset of the group is ignored if it is past the end of the partition. It then belongs to an
    earlier topic of the same name.
    """
    found = {}
    for pid, _topic, partition in given.iter_partitions():
        if pid.topic in given.logged.latest:
            continue
        committed = group.get((pid.topic, pid.partition))
        if committed is not None and committed <= partition.span.end:
            found[pid] = committed
        elif start_at == LATEST:
            found[pid] = partition.stable
    return found


def takeover_note(
    group: str, offsets: Mapping[tuple[str, int], int], starts: Mapping[PartitionId, int]
) -> str:
    """Return the note of a commit that starts at a group's offsets; empty if none does."""
    taken = [p for p, at in starts.items() if offsets.get((p.topic, p.partition)) == at]
    if not taken:
        return ""
    return f"positions of {len(taken)} partitions taken over from group {group}"


def plan_cycle(
    given: PlanInput,
    options: BackupOptions,
    backlog: CycleBacklog,
    *,
    sink: SinkTiming | None = None,
    until: Mapping[PartitionId, int] | None = None,
    skip: Set[PartitionId] = frozenset(),
    starts: Mapping[PartitionId, int] | None = None,
) -> CyclePlan:
    """Decide what this cycle reads.

    ``until`` limits a one-shot backup to the end offsets at its start. ``skip`` holds partitions
    whose earlier plan is still open. ``starts`` holds the positions of partitions that are new to
    the log. Raises GapError under ``--on-gap fail``, before anything is written.
    """
    survey = _survey(given, starts or {}, until, skip)
    if survey.gaps and options.on_gap == "fail":
        raise gap_error(survey.gaps)
    decide = partial(_decide, options=options) if sink is None else sink.decide
    stretches, waiting = _choose(survey.readable, backlog, decide, given.snapshot.at_ms)
    latest = given.logged.latest
    return CyclePlan(
        # The rules of a sink end its windows; only time bounds its cycles.
        stretches=_bounded(stretches, options.cycle_bytes) if sink is None else tuple(stretches),
        gaps=tuple(survey.gaps),
        topics=tuple(t for name, t in sorted(given.topics.items()) if latest.get(name) != t),
        positions=survey.begins,
        spans={pid: partition.span for pid, _, partition in given.iter_partitions()},
        waiting=waiting,
        blocked=tuple(pid for pid, _, partition in given.iter_partitions() if partition.is_blocked),
        identified=given.topics,
        groups=given.snapshot.groups,
    )


@dataclass(slots=True)
class _Survey:
    """All readable offsets, before rules decide which of them to read now."""

    begins: dict[PartitionId, int] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    readable: list[tuple[PlannedStretch, PartitionSnapshot]] = field(default_factory=list)


def _survey(
    given: PlanInput,
    starts: Mapping[PartitionId, int],
    until: Mapping[PartitionId, int] | None,
    skip: Set[PartitionId],
) -> _Survey:
    found = _Survey()
    logged = given.logged.positions
    for pid, topic, partition in given.iter_partitions():
        position = logged.get(pid, starts.get(pid))
        check_not_truncated(pid, position or 0, partition.history_end)
        if pid in skip:
            continue
        begin, gap = _begin(pid, partition, position, given.snapshot.at_ms)
        if gap is not None:
            found.gaps.append(gap)
        if logged.get(pid) != begin:
            found.begins[pid] = begin
        end = partition.stable if until is None else min(partition.stable, until.get(pid, 0))
        if begin < end:
            stretch = _stretch(pid, topic, partition, OffsetRange(begin, end))
            found.readable.append((stretch, partition))
    return found


def _choose(
    readable: Iterable[tuple[PlannedStretch, PartitionSnapshot]],
    backlog: CycleBacklog,
    decide: Callable[[PartitionBacklog], ReadDecision | None],
    at_ms: int,
) -> tuple[list[PlannedStretch], dict[PartitionId, int]]:
    """Return the stretches to read now, and the times since when other records wait."""
    chosen: list[PlannedStretch] = []
    waiting: dict[PartitionId, int] = {}
    for stretch, partition in readable:
        pid = stretch.partition_id
        since = backlog.since.get(pid, at_ms)
        tail = backlog.tails.get(pid)
        if tail is not None and tail.read_to < stretch.range.start:
            tail = None
        decision = decide(
            PartitionBacklog(
                stretch.range, stretch.est_bytes, since, at_ms, tail, partition.late_offset
            )
        )
        if decision is None or decision.closes is None:
            waiting[pid] = since
        if decision is not None:
            chosen.append(replace(stretch, reason=decision.why, closes=decision.closes))
    return chosen, waiting


def _begin(
    pid: PartitionId, partition: PartitionSnapshot, position: int | None, at_ms: int
) -> tuple[int, Gap | None]:
    """Return the next offset to read. A first backup starts at the log start, without a gap."""
    if position is None:
        return partition.span.start, None
    if position < partition.span.start:
        lost = OffsetRange(position, partition.span.start)
        return partition.span.start, Gap(pid, lost, RETENTION, at_ms)
    return position, None


def _stretch(
    pid: PartitionId, topic: TopicSnapshot, partition: PartitionSnapshot, wanted: OffsetRange
) -> PlannedStretch:
    held = partition.span.end - partition.span.start
    if partition.size_bytes is None or held <= 0:
        est = len(wanted) * UNKNOWN_RECORD_BYTES
    else:
        est = max(1, partition.size_bytes * len(wanted) // held)
    return PlannedStretch(
        partition_id=pid,
        topic_id=topic.topic_id,
        range=wanted,
        leader=partition.leader,
        est_bytes=est,
        reason=DueReason.ONCE,
    )


def _decide(backlog: PartitionBacklog, options: BackupOptions) -> ReadDecision | None:
    """Decide for the segment format, in which every object is closed at the end of a read."""
    if not options.follow:
        return ReadDecision(DueReason.ONCE, RotateReason.END)
    if backlog.est_bytes >= options.segment_bytes:
        return ReadDecision(DueReason.BYTES, RotateReason.BYTES)
    if backlog.at_ms - backlog.since_ms >= options.segment_age_ms:
        return ReadDecision(DueReason.AGE, RotateReason.AGE)
    return None


def _bounded(stretches: list[PlannedStretch], cycle_bytes: int) -> tuple[PlannedStretch, ...]:
    """Shorten all stretches by the same ratio if their total exceeds ``cycle_bytes``."""
    total = sum(s.est_bytes for s in stretches)
    if total <= cycle_bytes:
        return tuple(stretches)
    cut = []
    for s in stretches:
        length = max(1, len(s.range) * cycle_bytes // total)
        shorter = OffsetRange(s.range.start, s.range.start + length)
        weight = max(1, s.est_bytes * cycle_bytes // total)
        cut.append(replace(s, range=shorter, est_bytes=weight))
    return tuple(cut)


def gap_error(gaps: Iterable[Gap]) -> GapError:
    """Return the error of ``--on-gap fail``, for gaps found by a plan or by a task."""
    named = "; ".join(
        f"{g.partition_id}: offsets {g.range.start} to {g.range.end - 1}" for g in gaps
    )
    return GapError(
        f"deleted from Kafka before they were archived: {named}",
        hint="Raise retention.ms, or back up more often. Without --on-gap fail, it is recorded.",
    )


def changed_groups(
    groups: Mapping[str, Mapping[tuple[str, int], int]],
    topics: Mapping[str, TopicInfo],
    positions: Mapping[PartitionId, int],
    before: Mapping[str, Mapping[PartitionId, int]],
) -> dict[str, dict[PartitionId, int]]:
    """Return the group offsets that are new to the log, limited to archived positions.

    A group keeps its offsets on topics that were deleted or are not in this backup. Kafka drops
    them with the topic, but a restore of that topic needs them.
    """
    current = {(info.topic, info.incarnation) for info in topics.values()}
    changed = {}
    for group, offsets in groups.items():
        logged = dict(before.get(group, {}))
        found = {pid: at for pid, at in logged.items() if pid[:2] not in current}
        for (topic, number), offset in offsets.items():
            pid = PartitionId(topic, topics[topic].incarnation, number)
            found[pid] = min(offset, positions.get(pid, 0))
        if found != logged:
            changed[group] = found
    return changed


def is_empty(changes: Changes) -> bool:
    """Return True if ``changes`` contain nothing that is new to the log."""
    return not (
        changes.entries
        or changes.positions
        or changes.gaps
        or changes.topics
        or changes.groups
        or changes.schemas
    )
