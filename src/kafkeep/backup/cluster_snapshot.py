"""A snapshot of the cluster, from which a cycle is planned. Runs on the driver.

A snapshot also detects a log that Kafka truncated under the same topic id. After an unclean leader
election, other records may have the offsets of lost ones. The leader epoch of the last archived
batch shows this: in the new log, the epoch ends before the archived position.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from typing import NamedTuple

from kafkeep.archive.commit import Intent, LogSpan
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.state import LogState
from kafkeep.errors import KafkeepError, PreflightError, TransientError, UsageError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec, TopicDescription
from kafkeep.kafka.admin.groups import GroupOffsets, load_group_offsets
from kafkeep.options.backup import BackupOptions
from kafkeep.options.java_regex import compile_java_regex

TopicPartition = tuple[str, int]
UNLISTED_MS = 5_000
"""Timeout for groups that Kafka does not list. No records are read in the meantime."""


class PartitionSnapshot(NamedTuple):
    """One partition. A tuple, because a large cluster has tens of thousands in each snapshot.

    ``stable`` is the last stable offset, up to which read-committed consumers read.
    ``size_bytes`` is None if Kafka does not report it.
    """

    span: LogSpan
    stable: int
    leader: int
    size_bytes: int | None
    epoch_end: int | None = None
    """End offset of the leader epoch of the last archived batch; None if unknown."""
    late_offset: int | None = None
    """First offset at or after the requested time; None if there is none."""

    @property
    def history_end(self) -> int:
        """End of the log whose records were archived; a truncated log may have replaced it."""
        return self.span.end if self.epoch_end is None else self.epoch_end

    @property
    def is_blocked(self) -> bool:
        """True if an open transaction holds back records that are already in the log."""
        return self.stable < self.span.end


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """One topic, with its partitions in order from 0."""

    topic: str
    topic_id: str
    replication_factor: int
    configs: Mapping[str, str]
    partitions: tuple[PartitionSnapshot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetails:
    """Data that seldom changes or is expensive to read. Frequent snapshots share it for a while."""

    at_ms: int
    topic_ids: Mapping[str, str]
    """The topics it describes. It is invalid once a topic is created, deleted or re-created."""
    configs: Mapping[str, Mapping[str, str]]
    groups: GroupOffsets
    bytes_per_offset: Mapping[TopicPartition, float]
    took_ms: int = 0
    """How long it took to read them, with the offsets."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The topics and group offsets of a cluster at one moment.

    Listed groups are read before end offsets, so that no group offset exceeds an end offset.
    """

    at_ms: int
    topics: Mapping[str, TopicSnapshot]
    groups: Mapping[str, Mapping[TopicPartition, int]]
    """Empty for a group of the log that has no offsets any more."""
    skipped_groups: tuple[str, ...] = ()
    """Groups that this client is not allowed to read."""
    details: ClusterDetails | None = None
    """Details that the next snapshot may reuse."""

    @property
    def stables(self) -> dict[TopicPartition, int]:
        """The last stable offset of every partition."""
        return {
            (name, number): partition.stable
            for name, topic in self.topics.items()
            for number, partition in enumerate(topic.partitions)
        }


def describe_topics(admin: Admin, options: BackupOptions) -> dict[str, TopicDescription]:
    """Describe the topics of a backup, by list or by pattern.

    A pattern does not select internal topics. Listed topics that do not exist are omitted.
    """
    if options.topics:
        return admin.topics(list(options.topics))
    pattern = compile_java_regex(options.topics_regex or "")
    topics = admin.topics(None)
    ordinary = (n for n, topic in topics.items() if not topic.internal and not n.startswith("__"))
    return {name: topics[name] for name in pattern.select(ordinary)}


def require_topics(described: Mapping[str, TopicDescription], options: BackupOptions) -> None:
    """Raise UsageError if a listed topic does not exist, or if no topic matches the pattern.

    Called before a backup opens its log, unless it waits for topics to be created.
    """
    if not options.topics and not described:
        raise UsageError(
            f"no topic in Kafka matches {options.topics_regex}",
            hint="The pattern must match the whole name. --topics can name __ topics.",
        )
    missing = [name for name in options.topics if name not in described]
    if missing:
        raise UsageError(
            f"no such topic in Kafka: {', '.join(missing)}",
            hint="List the topics with kafka-topics --list. Names are case-sensitive.",
        )


def take_snapshot(
    admin: Admin,
    options: BackupOptions,
    *,
    now_ms: int,
    described: Mapping[str, TopicDescription] | None = None,
    epochs: Mapping[TopicPartition, int] | None = None,
    times: Mapping[TopicPartition, int] | None = None,
    details: ClusterDetails | None = None,
    known_groups: Mapping[str, Set[str]] | None = None,
) -> ClusterSnapshot:
    """Read topics, settings and group offsets, and then the offsets. Runs on the driver.

    ``described`` holds the topics if they are already described. ``details`` of an earlier snapshot
    are reused if they describe the same topics. ``complete_snapshot`` explains the other arguments.
    """
    began = time.monotonic()
    if described is None:
        described = describe_topics(admin, options)
    ids = {name: topic.topic_id for name, topic in described.items()}
    used = details if details is not None and details.topic_ids == ids else None
    configs = used.configs if used else admin.topic_configs(list(described))
    groups = used.groups if used else _load_groups(admin, options, list(described))
    partitions = _read_partitions(admin, described, used)
    kept = used or ClusterDetails(
        at_ms=now_ms,
        topic_ids=ids,
        configs=configs,
        groups=groups,
        bytes_per_offset=_bytes_per_offset(partitions),
        took_ms=int((time.monotonic() - began) * 1000),
    )
    topics = {
        name: TopicSnapshot(
            name,
            topic.topic_id,
            topic.replication_factor,
            configs[name],
            tuple(map(partitions.__getitem__, _keys(topic))),
        )
        for name, topic in described.items()
    }
    snapshot = ClusterSnapshot(now_ms, topics, groups.offsets, tuple(groups.denied), details=kept)
    return complete_snapshot(
        admin,
        options,
        snapshot,
        epochs=epochs,
        times=times,
        known_groups=None if used else known_groups,
    )


def complete_snapshot(
    admin: Admin,
    options: BackupOptions,
    snapshot: ClusterSnapshot,
    *,
    epochs: Mapping[TopicPartition, int] | None = None,
    times: Mapping[TopicPartition, int] | None = None,
    known_groups: Mapping[str, Set[str]] | None = None,
) -> ClusterSnapshot:
    """Add the parts of a snapshot that depend on the log.

    ``epochs`` holds the known leader epochs of the last archived batches. For each partition in
    ``times``, the offset of the first record at or after that time is read. ``known_groups`` holds
    the groups of the log, with the topics on which they have offsets.
    """
    there = snapshot.stables
    epoch_ends = load_epoch_ends(admin, {k: e for k, e in (epochs or {}).items() if k in there})
    late = admin.offsets_for_times({k: at for k, at in (times or {}).items() if k in there})
    topics = {
        name: replace(topic, partitions=_completed(topic, epoch_ends, late))
        for name, topic in snapshot.topics.items()
    }
    whole = replace(snapshot, topics=topics)
    return _with_unlisted_groups(admin, options, whole, known_groups or {})


def _completed(
    topic: TopicSnapshot,
    epoch_ends: Mapping[TopicPartition, int],
    late: Mapping[TopicPartition, int | None],
) -> tuple[PartitionSnapshot, ...]:
    keys = list(zip(repeat(topic.topic), range(len(topic.partitions))))
    return tuple(
        partition._replace(epoch_end=end, late_offset=at)
        if (end, at) != (None, None)
        else partition
        for partition, end, at in zip(
            topic.partitions, map(epoch_ends.get, keys), map(late.get, keys), strict=True
        )
    )


def is_unchanged(admin: Admin, before: ClusterSnapshot) -> bool:
    """Return True if no partition has grown since ``before``. Sends one request to each leader.

    Only a snapshot reliably detects a topic that was deleted and created again.
    """
    stables = before.stables
    try:
        found = admin.offsets(list(stables), OffsetSpec.LAST_STABLE)
    except PreflightError:  # a topic is gone
        return False
    return found == stables


def _read_partitions(
    admin: Admin, described: Mapping[str, TopicDescription], details: ClusterDetails | None
) -> dict[TopicPartition, PartitionSnapshot]:
    keys = [key for topic in described.values() for key in _keys(topic)]
    starts = _in_order(admin.offsets(keys, OffsetSpec.EARLIEST), keys)
    # Read ends before stable offsets. Otherwise records produced between the two requests would
    # look as if a transaction held them back.
    ends = _in_order(admin.offsets(keys, OffsetSpec.LATEST), keys)
    stables = list(map(max, starts, _in_order(admin.offsets(keys, OffsetSpec.LAST_STABLE), keys)))
    spans = list(map(LogSpan, starts, map(max, stables, ends)))
    sizes = _sizes(admin, dict(zip(keys, spans, strict=True)), details)
    leaders = [
        -1 if (leader := topic.partitions[number].leader) is None else leader
        for topic in described.values()
        for number in range(topic.partition_count)
    ]
    found = map(
        PartitionSnapshot._make,
        zip(spans, stables, leaders, map(sizes.get, keys), repeat(None), repeat(None)),
    )
    return dict(zip(keys, found, strict=True))


def _keys(topic: TopicDescription) -> list[TopicPartition]:
    return [(topic.name, number) for number in range(topic.partition_count)]


def _in_order(offsets: Mapping[TopicPartition, int], keys: list[TopicPartition]) -> list[int]:
    return [offsets[key] for key in keys]


def _sizes(
    admin: Admin, spans: Mapping[TopicPartition, LogSpan], details: ClusterDetails | None
) -> dict[TopicPartition, int]:
    if details is not None:
        ratios = details.bytes_per_offset
        return {k: int(ratios[k] * (s.end - s.start)) for k, s in spans.items() if k in ratios}
    partitions: dict[str, list[int]] = {}
    for topic, number in spans:
        partitions.setdefault(topic, []).append(number)
    return admin.partition_sizes(partitions)


def _bytes_per_offset(
    partitions: Mapping[TopicPartition, PartitionSnapshot],
) -> dict[TopicPartition, float]:
    return {
        key: partition.size_bytes / (partition.span.end - partition.span.start)
        for key, partition in partitions.items()
        if partition.size_bytes and partition.span.end > partition.span.start
    }


def _load_groups(admin: Admin, options: BackupOptions, topics: list[str]) -> GroupOffsets:
    """Read the offsets of all listed groups except the writer's own, which mirrors the log."""
    found = load_group_offsets(admin, topics)
    found.offsets.pop(options.group or "", None)
    return found


def _with_unlisted_groups(
    admin: Admin,
    options: BackupOptions,
    snapshot: ClusterSnapshot,
    known: Mapping[str, Set[str]],
) -> ClusterSnapshot:
    """Read, by name, the groups that the log holds and Kafka does not list.

    The coordinator of such a group may be unavailable. Only an answer proves that the group has no
    offsets any more.
    """
    topics = set(snapshot.topics)
    handled = {*snapshot.groups, *snapshot.skipped_groups, options.group}
    unlisted = [group for group, on in known.items() if group not in handled and on & topics]
    if not unlisted:
        return snapshot
    with suppress(TransientError):
        quick = Admin(admin.wire, timeout_ms=UNLISTED_MS)
        found = load_group_offsets(quick, list(topics), unlisted)
        denied = sorted([*snapshot.skipped_groups, *found.denied])
        answered = {g: found.offsets.get(g, {}) for g in unlisted if g not in found.denied}
        offsets = {group: dict(at) for group, at in snapshot.groups.items()} | answered
        groups = GroupOffsets(offsets, denied)
        details = snapshot.details and replace(snapshot.details, groups=groups)
        return replace(snapshot, groups=offsets, skipped_groups=tuple(denied), details=details)
    return snapshot


def load_epoch_ends(
    admin: Admin, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the end offsets of leader epochs in Kafka's logs, omitting unknown ones."""
    ends = admin.epoch_ends(epochs) if epochs else {}
    return {key: end.end_offset for key, end in ends.items() if end.end_offset >= 0}


def check_not_truncated(pid: PartitionId, position: int, end: int) -> None:
    """Raise KafkeepError if Kafka truncated the log to an offset below the archived position."""
    if position > end:
        raise KafkeepError(
            f"{pid}: archived up to offset {position}, but Kafka truncated its log to offset {end} "
            "under the same topic id",
            hint="Kafka lost records, for example in an unclean leader election. "
            "Back up under another --name to keep both histories.",
        )


def check_intent(admin: Admin, intent: Intent, state: LogState) -> None:
    """Raise KafkeepError if Kafka has truncated a partition of a dead writer's intent.

    Partitions of deleted and re-created topics are not checked: the tasks detect them.
    """
    topics = admin.topics(sorted({planned.partition_id.topic for planned in intent.ranges}))
    planned_ids: dict[TopicPartition, PartitionId] = {}
    for planned in intent.ranges:
        pid = planned.partition_id
        if pid.topic in topics and topics[pid.topic].topic_id == planned.topic_id:
            planned_ids[pid.topic, pid.partition] = pid
    epochs = {
        key: epoch
        for key, pid in planned_ids.items()
        if (epoch := state.leader_epochs.get(pid)) is not None
    }
    for key, end in load_epoch_ends(admin, epochs).items():
        check_not_truncated(planned_ids[key], state.positions[planned_ids[key]], end)
