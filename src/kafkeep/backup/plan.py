"""Plan a cycle: which offsets to read, and which offsets were lost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from kafkeep.archive.commit import Changes, Gap, Intent, LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.cluster_snapshot import (
    ClusterSnapshot,
    PartitionSnapshot,
    TopicSnapshot,
    check_not_truncated,
)
from kafkeep.backup.cycle_budget import (
    ArchivedTo,
    CycleBudget,
    DueReason,
    PlannedStretch,
    Waiting,
    take_segments,
    time_left_ms,
)
from kafkeep.backup.incarnations import LoggedState, identify_topics
from kafkeep.backup.sink_schedule import PartitionBacklog, ReadDecision, SinkTiming
from kafkeep.errors import GapError
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.options.backup import BackupOptions

RETENTION = "deleted from Kafka before it was archived"
UNKNOWN_RECORD_BYTES = 1024
_Due = tuple[PlannedStretch, ReadDecision]


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
    archived: dict[PartitionId, ArchivedTo] = field(default_factory=dict)
    """What the newest objects of each partition say about the records after them."""

    def note_waiting(
        self, waiting: Mapping[PartitionId, int], running: Set[PartitionId] = frozenset()
    ) -> None:
        """Replace the times since when records wait, but for partitions that are being archived."""
        kept = {pid: since for pid, since in self.since.items() if pid in running}
        self.since = {**kept, **waiting}

    def note_read(
        self,
        intent: Intent,
        tails: Mapping[PartitionId, SinkTail],
        moved: Set[PartitionId],
        behind: Set[PartitionId] = frozenset(),
    ) -> None:
        """Update the backlog after an intent; the position of partitions in ``moved`` advanced.

        Records of partitions in ``behind`` are still waiting.
        """
        for planned in intent.ranges:
            pid = planned.partition_id
            if pid not in tails:
                self.tails.pop(pid, None)
                if pid not in behind:
                    self.since.pop(pid, None)
                continue
            self.tails[pid] = tails[pid]
            if pid in moved:
                self.since[pid] = intent.at_ms


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
    behind: Set[PartitionId] = frozenset()
    """Partitions with records that are due, or were, and that this cycle does not read."""
    catches_up: bool = False
    """True if records that are due wait for the next cycle."""


def plan_cycle(
    given: PlanInput,
    options: BackupOptions,
    backlog: CycleBacklog,
    *,
    sink: SinkTiming | None = None,
    until: Mapping[PartitionId, int] | None = None,
    skip: Set[PartitionId] = frozenset(),
    starts: Mapping[PartitionId, int] | None = None,
    slots: int = 1,
    reserved_bytes: int = 0,
) -> CyclePlan:
    """Decide what this cycle reads.

    ``until`` limits a one-shot backup to the end offsets at its start. ``skip`` holds partitions
    whose earlier plan is still open; reading it takes ``reserved_bytes`` of this cycle. ``starts``
    holds the positions of partitions that are new to the log. ``slots`` is the number of tasks that
    run at once. Raises GapError under ``--on-gap fail``, before anything is written.
    """
    survey = _survey(given, starts or {}, until, skip, backlog.archived)
    if survey.gaps and options.on_gap == "fail":
        raise gap_error(survey.gaps)
    decide = partial(_decide, options=options) if sink is None else sink.decide
    due, waiting = _choose(survey.readable, backlog, decide, given.snapshot.at_ms)
    if sink is not None:  # the rules of a sink end its windows; only time bounds its cycles
        chosen = _Chosen([_decided(*one) for one in due])
    else:
        budget = CycleBudget.of(options, slots, reserved_bytes)
        chosen = _fill_cycle(given, due, backlog, budget)
        waiting |= chosen.behind
    latest = given.logged.latest
    return CyclePlan(
        stretches=tuple(chosen.stretches),
        gaps=tuple(survey.gaps),
        topics=tuple(t for name, t in sorted(given.topics.items()) if latest.get(name) != t),
        positions=survey.begins,
        spans=survey.spans,
        waiting=waiting,
        blocked=tuple(survey.blocked),
        identified=given.topics,
        groups=given.snapshot.groups,
        behind=chosen.behind.keys(),
        catches_up=chosen.catches_up,
    )


@dataclass(slots=True)
class _Survey:
    """All readable offsets, before rules decide which of them to read now."""

    begins: dict[PartitionId, int] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    readable: list[tuple[PlannedStretch, PartitionSnapshot]] = field(default_factory=list)
    spans: dict[PartitionId, LogSpan] = field(default_factory=dict)
    blocked: list[PartitionId] = field(default_factory=list)


def _survey(
    given: PlanInput,
    starts: Mapping[PartitionId, int],
    until: Mapping[PartitionId, int] | None,
    skip: Set[PartitionId],
    archived: Mapping[PartitionId, ArchivedTo],
) -> _Survey:
    found = _Survey()
    logged = given.logged.positions
    for pid, topic, partition in given.iter_partitions():
        found.spans[pid] = partition.span
        if partition.is_blocked:
            found.blocked.append(pid)
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
            wanted = OffsetRange(begin, end)
            stretch = _stretch(pid, topic, partition, wanted, archived.get(pid))
            found.readable.append((stretch, partition))
    return found


def _choose(
    readable: Iterable[tuple[PlannedStretch, PartitionSnapshot]],
    backlog: CycleBacklog,
    decide: Callable[[PartitionBacklog], ReadDecision | None],
    at_ms: int,
) -> tuple[list[_Due], dict[PartitionId, int]]:
    """Return the stretches to read now, and the times since when other records wait."""
    chosen: list[_Due] = []
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
            chosen.append((stretch, decision))
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
    pid: PartitionId,
    topic: TopicSnapshot,
    partition: PartitionSnapshot,
    wanted: OffsetRange,
    archived: ArchivedTo | None,
) -> PlannedStretch:
    """Plan a stretch. Its size is estimated from the newest objects, else from Kafka's files."""
    held = partition.span.end - partition.span.start
    if archived is not None and archived.bytes_per_offset > 0:
        est = max(1, int(len(wanted) * archived.bytes_per_offset))
    elif partition.size_bytes is None or held <= 0:
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


@dataclass(frozen=True, slots=True)
class _Chosen:
    stretches: list[PlannedStretch]
    behind: dict[PartitionId, int] = field(default_factory=dict)
    """Partitions that are not read to their end, and since when their records wait."""
    catches_up: bool = False


def _fill_cycle(
    given: PlanInput,
    due: Sequence[_Due],
    backlog: CycleBacklog,
    budget: CycleBudget,
) -> _Chosen:
    """Choose what the cycle reads of the stretches that are due: whole segments of each."""
    at_ms = given.snapshot.at_ms
    since = {s.partition_id: backlog.since.get(s.partition_id, at_ms) for s, _ in due}
    waiting = [Waiting(s, decision.why != DueReason.BYTES) for s, decision in due]
    left_out = take_segments(
        sorted(waiting, key=lambda one: since[one.stretch.partition_id]),
        budget,
        partial(_time_left, given, backlog),
    )
    taken = zip(waiting, (decision for _, decision in due), strict=True)
    return _Chosen(
        [_decided(one.taken(), decision) for one, decision in taken if one.taken_bytes],
        {one.partition_id: since[one.partition_id] for one in waiting if not one.is_whole},
        left_out,
    )


def _decided(stretch: PlannedStretch, decision: ReadDecision) -> PlannedStretch:
    return replace(stretch, reason=decision.why, closes=decision.closes)


def _time_left(given: PlanInput, backlog: CycleBacklog, stretch: PlannedStretch) -> float:
    topic = given.snapshot.topics[stretch.partition_id.topic]
    partition = topic.partitions[stretch.partition_id.partition]
    archived = backlog.archived.get(stretch.partition_id)
    return time_left_ms(
        topic.configs,
        partition.span,
        stretch.range.start,
        size_bytes=partition.size_bytes,
        at_ms=given.snapshot.at_ms,
        record_ms=archived.record_ms if archived is not None else 0,
    )


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
