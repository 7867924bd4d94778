"""A snapshot of the cluster: all that a cycle is planned from, read once. On the driver.

A snapshot also detects a log that Kafka cut back under the same topic id. An unclean leader
election loses records and gives their offsets to others. The leader epoch of the last archived
batch reveals that: in the new log it ends before the archived position.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace

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
"""Timeout for groups that Kafka does not list; records wait as long."""


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition.

    ``stable`` is the last stable offset: what read-committed readers may see. ``size_bytes`` is
    None where Kafka does not report it.
    """

    span: LogSpan
    stable: int
    leader: int
    size_bytes: int | None
    epoch_end: int | None = None
    """Where the leader epoch of the last archived batch ends; None when that is not known."""
    late_offset: int | None = None
    """First offset at or after the time that was asked for; None when there is none."""

    @property
    def history_end(self) -> int:
        """Where the log ends whose records were archived: another may have taken its place."""
        return self.span.end if self.epoch_end is None else self.epoch_end

    @property
    def is_blocked(self) -> bool:
        """Whether an open transaction holds back records that are already in the log."""
        return self.stable < self.span.end


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """One topic; its partitions are in order, from 0."""

    topic: str
    topic_id: str
    replication_factor: int
    configs: Mapping[str, str]
    partitions: tuple[PartitionSnapshot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetails:
    """What seldom changes or is expensive to read; frequent snapshots share it for a while."""

    at_ms: int
    topic_ids: Mapping[str, str]
    """The topics it describes. It is void when a topic comes, goes or is re-created."""
    configs: Mapping[str, Mapping[str, str]]
    groups: GroupOffsets
    bytes_per_offset: Mapping[TopicPartition, float]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The topics and group offsets of a cluster at one moment.

    Listed groups are read before end offsets, so that their offsets lie inside the data.
    """

    at_ms: int
    topics: Mapping[str, TopicSnapshot]
    groups: Mapping[str, Mapping[TopicPartition, int]]
    """Empty for a group that the log knows and that has no offsets left."""
    skipped_groups: tuple[str, ...] = ()
    """Groups that may not be read."""
    details: ClusterDetails | None = None
    """What the next snapshot may use again."""

    @property
    def stables(self) -> dict[TopicPartition, int]:
        """The last stable offset of every partition."""
        return {
            (name, number): partition.stable
            for name, topic in self.topics.items()
            for number, partition in enumerate(topic.partitions)
        }


def describe_topics(admin: Admin, options: BackupOptions) -> dict[str, TopicDescription]:
    """Describe the topics of a backup, by list or pattern; internal ones only when listed.

    Listed topics that do not exist are left out.
    """
    if options.topics:
        return admin.topics(list(options.topics))
    pattern = compile_java_regex(options.topics_regex or "")
    topics = admin.topics(None)
    ordinary = (n for n, topic in topics.items() if not topic.internal and not n.startswith("__"))
    return {name: topics[name] for name in pattern.select(ordinary)}


def require_topics(described: Mapping[str, TopicDescription], options: BackupOptions) -> None:
    """Raise UsageError when a listed topic is not there, or no topic matches the pattern.

    For a backup that is about to take a log and does not wait for topics to be created.
    """
    if not options.topics and not described:
        raise UsageError(
            f"no topic in Kafka matches {options.topics_regex}",
            hint="The whole name must match; those that begin with __ are taken by --topics alone.",
        )
    missing = [name for name in options.topics if name not in described]
    if missing:
        raise UsageError(
            f"no such topic in Kafka: {', '.join(missing)}",
            hint="See the names with kafka-topics --list; names are case-sensitive.",
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
    """Read topics, settings, group offsets, then offsets. Runs on the driver.

    ``described`` are the topics, if they were asked for already. ``details`` of an earlier snapshot
    are used again if they describe the same topics. For the others see ``complete_snapshot``.
    """
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
    )
    topics = {
        name: TopicSnapshot(
            name,
            topic.topic_id,
            topic.replication_factor,
            configs[name],
            tuple(partitions[name, number] for number in range(topic.partition_count)),
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
    """Add to a snapshot what only someone who has opened the log can ask for.

    ``epochs`` are the leader epochs of the last archived batches, where they are known. ``times``
    asks partitions for their first record at or after a time. ``known_groups`` are the groups of
    the log, with the topics they have offsets on.
    """
    there = snapshot.stables
    epoch_ends = load_epoch_ends(admin, {k: e for k, e in (epochs or {}).items() if k in there})
    late = admin.offsets_for_times({k: at for k, at in (times or {}).items() if k in there})
    topics = {
        name: replace(
            topic,
            partitions=tuple(
                replace(
                    partition,
                    epoch_end=epoch_ends.get((name, number)),
                    late_offset=late.get((name, number)),
                )
                for number, partition in enumerate(topic.partitions)
            ),
        )
        for name, topic in snapshot.topics.items()
    }
    whole = replace(snapshot, topics=topics)
    return _with_unlisted_groups(admin, options, whole, known_groups or {})


def is_unchanged(admin: Admin, before: ClusterSnapshot) -> bool:
    """Return whether no partition has grown since ``before``: one request to each leader.

    A topic that was re-created under its name is noticed by the next snapshot at the latest.
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
    keys = [(t.name, number) for t in described.values() for number in range(t.partition_count)]
    starts = admin.offsets(keys, OffsetSpec.EARLIEST)
    # Ends before stables: what a producer adds between the two is not held back by a transaction.
    ends = admin.offsets(keys, OffsetSpec.LATEST)
    stables = admin.offsets(keys, OffsetSpec.LAST_STABLE)
    spans = {key: LogSpan(starts[key], max(starts[key], stables[key], ends[key])) for key in keys}
    sizes = _sizes(admin, spans, details)
    return {
        key: PartitionSnapshot(
            spans[key],
            max(starts[key], stables[key]),
            _leader(described[key[0]], key[1]),
            sizes.get(key),
        )
        for key in keys
    }


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


def _leader(topic: TopicDescription, number: int) -> int:
    leader = topic.partitions[number].leader
    return -1 if leader is None else leader


def _load_groups(admin: Admin, options: BackupOptions, topics: list[str]) -> GroupOffsets:
    """Read the offsets of all listed groups but the writer's own, which only repeats the log."""
    found = load_group_offsets(admin, topics)
    found.offsets.pop(options.group or "", None)
    return found


def _with_unlisted_groups(
    admin: Admin,
    options: BackupOptions,
    snapshot: ClusterSnapshot,
    known: Mapping[str, Set[str]],
) -> ClusterSnapshot:
    """Ask by name for groups that the log knows and Kafka does not list.

    The broker of such a group may be away. Only an answer proves that it has no offsets left.
    """
    topics = set(snapshot.topics)
    met = {*snapshot.groups, *snapshot.skipped_groups, options.group}
    unlisted = [group for group, on in known.items() if group not in met and on & topics]
    if not unlisted:
        return snapshot
    with suppress(TransientError):
        quick = Admin(admin.wire, timeout_ms=UNLISTED_MS)
        asked = load_group_offsets(quick, list(topics), unlisted)
        denied = sorted([*snapshot.skipped_groups, *asked.denied])
        left = {g: asked.offsets.get(g, {}) for g in unlisted if g not in asked.denied}
        offsets = {group: dict(at) for group, at in snapshot.groups.items()} | left
        groups = GroupOffsets(offsets, denied)
        details = snapshot.details and replace(snapshot.details, groups=groups)
        return replace(snapshot, groups=offsets, skipped_groups=tuple(denied), details=details)
    return snapshot


def load_epoch_ends(
    admin: Admin, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return where leader epochs end in Kafka's logs, where Kafka knows that."""
    ends = admin.epoch_ends(epochs) if epochs else {}
    return {key: end.end_offset for key, end in ends.items() if end.end_offset >= 0}


def check_not_cut_back(pid: PartitionId, position: int, end: int) -> None:
    """Raise KafkeepError when Kafka's log of that time ends before what was archived of it."""
    if position > end:
        raise KafkeepError(
            f"{pid}: archived up to offset {position}, but Kafka's log of that time ends at "
            f"{end}: it was cut back under the same topic id",
            hint="Records were lost in Kafka (unclean leader election?); "
            "back up under another --name to keep both histories.",
        )


def check_intent(admin: Admin, intent: Intent, state: LogState) -> None:
    """Raise KafkeepError when a partition of a dead writer's intent was cut back since.

    A partition whose topic is gone or re-created is left to the tasks, which notice that.
    """
    topics = admin.topics(sorted({planned.partition_id.topic for planned in intent.ranges}))
    met: dict[TopicPartition, PartitionId] = {}
    for planned in intent.ranges:
        pid = planned.partition_id
        if pid.topic in topics and topics[pid.topic].topic_id == planned.topic_id:
            met[pid.topic, pid.partition] = pid
    epochs = {key: e for key, pid in met.items() if (e := state.leader_epochs.get(pid)) is not None}
    for key, end in load_epoch_ends(admin, epochs).items():
        check_not_cut_back(met[key], state.positions[met[key]], end)
