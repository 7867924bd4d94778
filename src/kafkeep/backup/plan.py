"""Plan a cycle: what is read, where it begins and ends, which offsets were lost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from kafkeep.archive.commit import Changes, Gap, Intent, LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import (
    ClusterSnapshot,
    PartitionSnapshot,
    TopicSnapshot,
    check_not_cut_back,
)
from kafkeep.backup.sink_schedule import PartitionBacklog, ReadDecision, SinkTiming
from kafkeep.errors import GapError
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.sink.rotation import Reason
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
class LoggedState:
    """What planning needs of the log."""

    positions: Mapping[PartitionId, int]
    latest: Mapping[str, TopicInfo]
    """Topic → its newest incarnation."""
    folders: Mapping[str, int] = field(default_factory=dict)
    """Topic → the highest number of its folders, where that is not the incarnation's."""

    @classmethod
    def of(cls, state: LogState) -> LoggedState:
        """Take it from the state of a log."""
        latest = {name: info for (name, _), info in sorted(state.topics.items())}
        return cls(state.positions, latest, state.last_folders())


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A snapshot of the cluster, and what the log says of its topics."""

    snapshot: ClusterSnapshot
    logged: LoggedState
    topics: Mapping[str, TopicInfo]
    """The topics of the snapshot, each with its incarnation."""

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, logged: LoggedState) -> PlanInput:
        """Identify the topics of a snapshot."""
        return cls(snapshot, logged, identify_topics(snapshot, logged))

    def iter_partitions(self) -> Iterator[tuple[PartitionId, TopicSnapshot, PartitionSnapshot]]:
        """Yield every partition of the snapshot, in order."""
        for name, topic in sorted(self.snapshot.topics.items()):
            for number, partition in enumerate(topic.partitions):
                yield PartitionId(name, self.topics[name].incarnation, number), topic, partition


@dataclass(slots=True)
class CycleBacklog:
    """Records that were seen and are not archived yet. Survives from one cycle to the next."""

    since: dict[PartitionId, int] = field(default_factory=dict)
    """Since when records of a partition wait, in ms."""
    tails: dict[PartitionId, SinkTail] = field(default_factory=dict)
    """Of a sink: what was read and is left in Kafka."""

    def note_read(
        self,
        intent: Intent,
        tails: Mapping[PartitionId, SinkTail],
        moved: Set[PartitionId],
    ) -> None:
        """Take in what the tasks of an intent left; ``moved`` are partitions that advanced."""
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
class Stretch:
    """One partition's part of a cycle: contiguous, read by one or more tasks."""

    partition_id: PartitionId
    topic_id: str
    range: OffsetRange
    leader: int
    est_bytes: int
    reason: str
    closes: Reason | None = None
    """Of a sink: why records that no rule has closed are closed at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """What one cycle reads, and what else it commits."""

    stretches: tuple[Stretch, ...]
    gaps: tuple[Gap, ...]
    topics: tuple[TopicInfo, ...]
    """Topics that are new or have changed since the log last recorded them."""
    positions: Mapping[PartitionId, int]
    """Where partitions begin that are new to the log, or that lost records."""
    spans: Mapping[PartitionId, LogSpan]
    waiting: Mapping[PartitionId, int]
    """Records that are not due yet: since when they wait, in ms."""
    blocked: tuple[PartitionId, ...]
    identified: Mapping[str, TopicInfo] = field(default_factory=dict)
    """All topics of the snapshot."""
    groups: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    """Group offsets of the snapshot."""


def identify_topics(snapshot: ClusterSnapshot, logged: LoggedState) -> dict[str, TopicInfo]:
    """Return each topic with its incarnation: a topic id that the log has not seen is a new one.

    The number of a new incarnation is past all folders of its topic.
    """
    found = {}
    for name, topic in snapshot.topics.items():
        before = logged.latest.get(name)
        if before is None:
            incarnation = 1
        elif before.topic_id != topic.topic_id or before.deleted:
            incarnation = max(before.incarnation, logged.folders.get(name, 0)) + 1
        else:
            incarnation = before.incarnation
        found[name] = TopicInfo(
            topic=name,
            incarnation=incarnation,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            replication_factor=topic.replication_factor,
            configs=dict(topic.configs),
        )
    return found


def first_positions(
    given: PlanInput, *, start_at: str, group: Mapping[tuple[str, int], int]
) -> dict[PartitionId, int]:
    """Return where partitions of topics that are new to the log begin, if not at their start.

    An offset of the group counts unless it lies past the end of the partition. Then it belongs to
    an earlier topic of the same name.
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
    """Return the note of the commit that takes over from a group; empty when none does."""
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

    ``until`` bounds a one-shot backup to the end offsets at its start. ``skip`` names partitions
    whose earlier plan is still open. ``starts`` are the positions of partitions that are new to the
    log. Raises GapError under ``--on-gap fail``, before any write.
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
    """What there is to read, before rules decide whether it is read now."""

    begins: dict[PartitionId, int] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    readable: list[tuple[Stretch, PartitionSnapshot]] = field(default_factory=list)


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
        check_not_cut_back(pid, position or 0, partition.history_end)
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
    readable: Iterable[tuple[Stretch, PartitionSnapshot]],
    backlog: CycleBacklog,
    decide: Callable[[PartitionBacklog], ReadDecision | None],
    at_ms: int,
) -> tuple[list[Stretch], dict[PartitionId, int]]:
    """Return the stretches that are read now, and since when other records wait."""
    chosen: list[Stretch] = []
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
    """Return where reading continues. A first backup begins at the log start: that is no gap."""
    if position is None:
        return partition.span.start, None
    if position < partition.span.start:
        lost = OffsetRange(position, partition.span.start)
        return partition.span.start, Gap(pid, lost, RETENTION, at_ms)
    return position, None


def _stretch(
    pid: PartitionId, topic: TopicSnapshot, partition: PartitionSnapshot, wanted: OffsetRange
) -> Stretch:
    held = partition.span.end - partition.span.start
    if partition.size_bytes is None or held <= 0:
        est = len(wanted) * UNKNOWN_RECORD_BYTES
    else:
        est = max(1, partition.size_bytes * len(wanted) // held)
    return Stretch(
        partition_id=pid,
        topic_id=topic.topic_id,
        range=wanted,
        leader=partition.leader,
        est_bytes=est,
        reason=DueReason.ONCE,
    )


def _decide(backlog: PartitionBacklog, options: BackupOptions) -> ReadDecision | None:
    """Decide about a partition in the segment format, where everything read is closed."""
    if not options.follow:
        return ReadDecision(DueReason.ONCE, Reason.END)
    if backlog.est_bytes >= options.segment_bytes:
        return ReadDecision(DueReason.BYTES, Reason.BYTES)
    if backlog.at_ms - backlog.since_ms >= options.segment_age_ms:
        return ReadDecision(DueReason.AGE, Reason.AGE)
    return None


def _bounded(stretches: list[Stretch], cycle_bytes: int) -> tuple[Stretch, ...]:
    """Cut every stretch by the same share when together they exceed one cycle."""
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
    """Return the error of ``--on-gap fail``, whether a plan or a task met the gaps."""
    named = "; ".join(
        f"{g.partition_id}: offsets {g.range.start} to {g.range.end - 1}" for g in gaps
    )
    return GapError(
        f"gone from Kafka before they were archived: {named}",
        hint="Raise retention.ms or back up more often; without --on-gap fail the gap is recorded.",
    )


def changed_groups(
    groups: Mapping[str, Mapping[tuple[str, int], int]],
    topics: Mapping[str, TopicInfo],
    positions: Mapping[PartitionId, int],
    before: Mapping[str, Mapping[PartitionId, int]],
) -> dict[str, dict[PartitionId, int]]:
    """Return the group offsets that are new to the log, none beyond what is archived.

    A group keeps its offsets on topics that are gone, or are not in this backup. Kafka forgets
    them with the topic, but a restore of that topic needs them.
    """
    seen = {(info.topic, info.incarnation) for info in topics.values()}
    changed = {}
    for group, offsets in groups.items():
        logged = dict(before.get(group, {}))
        found = {pid: at for pid, at in logged.items() if pid[:2] not in seen}
        for (topic, number), offset in offsets.items():
            pid = PartitionId(topic, topics[topic].incarnation, number)
            found[pid] = min(offset, positions.get(pid, 0))
        if found != logged:
            changed[group] = found
    return changed


def is_empty(changes: Changes) -> bool:
    """Return whether ``changes`` hold nothing that is new to the log."""
    return not (
        changes.entries
        or changes.positions
        or changes.gaps
        or changes.topics
        or changes.groups
        or changes.schemas
    )
