"""Plan a cycle: what is due, where it begins and ends, what was lost. Pure.

Where a log begins with partitions it has not met: at a group's offsets, or at an end. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkeep.archive.commit import Changes, Gap, LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
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


def first_positions(
    snapshot: ClusterSnapshot,
    known: LoggedState,
    *,
    start_at: str,
    group: Mapping[tuple[str, int], int],
) -> dict[PartitionId, int]:
    """Return where partitions of topics begin that the log has not met, if not at their start.

    An offset of the group counts unless it lies behind the partition's end: then it is of a topic
    that was there before, under the same name.
    """
    infos = identify_topics(snapshot, known.latest, known.folders)
    return {
        PartitionId(name, infos[name].incarnation, number): at
        for name, topic in snapshot.topics.items()
        if _is_new(name, known.latest)
        for number, partition in enumerate(topic.partitions)
        if (at := _start(group.get((name, number)), partition.span.end, partition.stable, start_at))
        is not None
    }


def _is_new(topic: str, latest: Mapping[str, TopicInfo]) -> bool:
    return topic not in latest


def _start(committed: int | None, end: int, stable: int, start_at: str) -> int | None:
    if committed is not None and committed <= end:
        return committed
    return stable if start_at == LATEST else None


def taken_over(
    group: str, offsets: Mapping[tuple[str, int], int], starts: Mapping[PartitionId, int]
) -> str:
    """Return the note of the commit that takes over from a group; empty when none does."""
    taken = [p for p, at in starts.items() if offsets.get((p.topic, p.partition)) == at]
    if not taken:
        return ""
    return f"positions of {len(taken)} partitions taken over from group {group}"


RETENTION = "deleted from Kafka before it was archived"
UNKNOWN_RECORD_BYTES = 1024


class DueReason(StrEnum):
    """Why a partition is read in this cycle."""

    ONCE = "one-shot backup"
    BYTES = "enough bytes are waiting for a whole object"
    AGE = "records have waited long enough"
    LEFT_OVER = "planned by an earlier cycle"


@dataclass(frozen=True, slots=True)
class LoggedState:
    """What the log already says, as far as planning needs it."""

    positions: Mapping[PartitionId, int]
    latest: Mapping[str, TopicInfo]
    """Topic → its newest incarnation."""
    folders: Mapping[str, int] = field(default_factory=dict)
    """Topic → the highest number its folders bear, where that is not the incarnation's."""


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
    """Of a sink: why what no rule has closed at its end is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """What one cycle reads, and what it tells the log besides."""

    stretches: tuple[Stretch, ...]
    gaps: tuple[Gap, ...]
    topics: tuple[TopicInfo, ...]
    """Topics that are new or have changed since the log last heard of them."""
    positions: Mapping[PartitionId, int]
    """Where partitions begin that the log has not met, or that lost records."""
    spans: Mapping[PartitionId, LogSpan]
    waiting: Mapping[PartitionId, int]
    """Records that are not due yet: since when they wait, in ms."""
    blocked: tuple[PartitionId, ...]


def identify_topics(
    snapshot: ClusterSnapshot,
    latest: Mapping[str, TopicInfo],
    folders: Mapping[str, int] | None = None,
) -> dict[str, TopicInfo]:
    """Tell each topic's incarnation: a topic id the log has not seen is a new one.

    ``folders`` are those of ``LoggedState``: a new incarnation's number is past all of them.
    """
    found = {}
    for name, topic in snapshot.topics.items():
        before = latest.get(name)
        if before is None:
            incarnation = 1
        elif before.topic_id != topic.topic_id or before.deleted:
            incarnation = max(before.incarnation, (folders or {}).get(name, 0)) + 1
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


def plan_cycle(
    snapshot: ClusterSnapshot,
    known: LoggedState,
    options: BackupOptions,
    *,
    waiting: Mapping[PartitionId, int],
    until: Mapping[PartitionId, int] | None = None,
    skip: frozenset[PartitionId] = frozenset(),
    sink: SinkTiming | None = None,
    tails: Mapping[PartitionId, SinkTail] | None = None,
    starts: Mapping[PartitionId, int] | None = None,
) -> CyclePlan:
    """Decide what this cycle reads.

    ``until`` bounds a one-shot backup to the end offsets at its start; ``skip`` names partitions
    whose earlier plan is still open; ``tails`` tells what a sink has read and left; ``starts`` says
    where partitions begin that the log has not met. Raises GapError under ``--on-gap fail``, before
    any write.
    """
    infos = identify_topics(snapshot, known.latest, known.folders)
    positions = {**(starts or {}), **known.positions}
    stretches: list[Stretch] = []
    gaps: list[Gap] = []
    begins: dict[PartitionId, int] = {}
    spans: dict[PartitionId, LogSpan] = {}
    still_waiting: dict[PartitionId, int] = {}
    blocked: list[PartitionId] = []
    for name, topic in sorted(snapshot.topics.items()):
        for number, partition in enumerate(topic.partitions):
            pid = PartitionId(name, infos[name].incarnation, number)
            spans[pid] = partition.span
            if partition.is_blocked:
                blocked.append(pid)
            check_not_cut_back(pid, positions.get(pid, 0), partition.history_end)
            if pid in skip:
                continue
            begin, gap = _begin(pid, partition, positions, snapshot.at_ms)
            if gap is not None:
                gaps.append(gap)
            if known.positions.get(pid) != begin:
                begins[pid] = begin
            end = partition.stable if until is None else min(partition.stable, until.get(pid, 0))
            if begin >= end:
                continue
            stretch = _stretch(pid, topic, partition, OffsetRange(begin, end))
            since = waiting.get(pid, snapshot.at_ms)
            if sink is None:
                due = _due(stretch.est_bytes, snapshot.at_ms - since, options)
            else:
                tail = (tails or {}).get(pid)
                tail = tail if tail is not None and tail.read_to >= begin else None
                due = sink.due(
                    PartitionBacklog(
                        stretch.range,
                        stretch.est_bytes,
                        since,
                        snapshot.at_ms,
                        tail,
                        partition.late_offset,
                    )
                )
            if due is None or due.closes is None:
                still_waiting[pid] = since
            if due is not None:
                stretches.append(replace(stretch, reason=due.why, closes=due.closes))
    if gaps and options.on_gap == "fail":
        raise gap_error(gaps)
    return CyclePlan(
        # A sink's windows end where its rules say; its cycles are bounded by time alone.
        stretches=_bounded(stretches, options.cycle_bytes) if sink is None else tuple(stretches),
        gaps=tuple(gaps),
        topics=tuple(
            info for name, info in sorted(infos.items()) if known.latest.get(name) != info
        ),
        positions=begins,
        spans=spans,
        waiting=still_waiting,
        blocked=tuple(blocked),
    )


def _begin(
    pid: PartitionId, partition: PartitionSnapshot, positions: Mapping[PartitionId, int], at_ms: int
) -> tuple[int, Gap | None]:
    """Where reading goes on. A first backup begins at the log start: that is no gap."""
    position = positions.get(pid)
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


def _due(est_bytes: int, waited_ms: int, options: BackupOptions) -> ReadDecision | None:
    """Decide about a partition in the segment format, where everything read is closed."""
    if not options.follow:
        return ReadDecision(DueReason.ONCE, Reason.END)
    if est_bytes >= options.segment_bytes:
        return ReadDecision(DueReason.BYTES, Reason.BYTES)
    if waited_ms >= options.segment_age_ms:
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
    """Return what ``--on-gap fail`` ends with, whether a plan or a task met the gaps."""
    named = "; ".join(
        f"{g.partition_id}: offsets {g.range.start} to {g.range.end - 1}" for g in gaps
    )
    return GapError(
        f"gone from Kafka before they were archived: {named}",
        hint="Raise retention.ms or back up more often; without --on-gap fail the gap is recorded.",
    )


def changed_groups(
    snapshot: ClusterSnapshot,
    infos: Mapping[str, TopicInfo],
    positions: Mapping[PartitionId, int],
    before: Mapping[str, Mapping[PartitionId, int]],
) -> dict[str, dict[PartitionId, int]]:
    """Group offsets that the log should hear of, none beyond what is archived.

    Of topics that were not looked at, or are gone, a group keeps what is known: Kafka forgets its
    offsets with the topic, and who restores that topic wants them.
    """
    seen = {(info.topic, info.incarnation) for info in infos.values()}
    changed = {}
    for group, offsets in snapshot.groups.items():
        told = dict(before.get(group, {}))
        known = {pid: at for pid, at in told.items() if pid[:2] not in seen}
        for (topic, number), offset in offsets.items():
            pid = PartitionId(topic, infos[topic].incarnation, number)
            known[pid] = min(offset, positions.get(pid, 0))
        if known != told:
            changed[group] = known
    return changed


def is_empty(changes: Changes) -> bool:
    """Whether a commit of ``changes`` would tell the log nothing new."""
    return not (
        changes.entries
        or changes.positions
        or changes.gaps
        or changes.topics
        or changes.groups
        or changes.schemas
    )
