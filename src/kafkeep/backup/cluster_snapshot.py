"""One look at Kafka: everything a cycle is planned from, read once, as values.

A log that Kafka cut back under its topic id: never mixed with what was archived. On the driver.

An unclean leader election loses records and lets others take their offsets. The leader epoch of the
last archived batch tells: in the new log it ends before the position.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass

from kafkeep.archive.commit import Intent, LogSpan
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.state import LogState
from kafkeep.errors import KafkeepError, PreflightError, TransientError, UsageError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec, TopicDescription
from kafkeep.kafka.admin.groups import GroupOffsets, load_group_offsets
from kafkeep.options.backup import BackupOptions
from kafkeep.options.java_regex import compile_java_regex

TopicPartition = tuple[str, int]


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

    Partitions whose topic is gone, or another by now, are left to the tasks, which see it.
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


def load_epoch_ends(
    admin: Admin, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return where leader epochs end in Kafka's logs, where Kafka knows that."""
    ends = admin.epoch_ends(epochs) if epochs else {}
    return {key: end.end_offset for key, end in ends.items() if end.end_offset >= 0}


UNLISTED_MS = 5_000
"""How long a look waits for groups that Kafka does not list: records wait as long."""


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition as Kafka showed it.

    ``stable`` is the last stable offset: what read-committed readers may see. ``size_bytes`` is
    None where Kafka would not tell.
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
    """One topic as Kafka showed it; partitions are in order, from 0."""

    topic: str
    topic_id: str
    replication_factor: int
    configs: Mapping[str, str]
    partitions: tuple[PartitionSnapshot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDetails:
    """What seldom changes or costs much to ask; who looks often believes it for a while."""

    at_ms: int
    topic_ids: Mapping[str, str]
    """Topics it speaks of; of any other, or another one under the same name, it knows nothing."""
    configs: Mapping[str, Mapping[str, str]]
    groups: GroupOffsets
    bytes_per_offset: Mapping[tuple[str, int], float]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What Kafka held at one moment.

    Group offsets are read before end offsets, so each of them lies inside the data.
    """

    at_ms: int
    topics: Mapping[str, TopicSnapshot]
    groups: Mapping[str, Mapping[tuple[str, int], int]]
    """Empty for a group that the log knows and that has none left."""
    skipped_groups: tuple[str, ...] = ()
    """Those that we may not read."""
    details: ClusterDetails | None = None
    """What the next look may use again."""

    @property
    def stables(self) -> dict[tuple[str, int], int]:
        """The last stable offset of every partition."""
        return {
            (name, number): partition.stable
            for name, topic in self.topics.items()
            for number, partition in enumerate(topic.partitions)
        }


def take_snapshot(
    admin: Admin,
    options: BackupOptions,
    *,
    now_ms: int,
    epochs: Mapping[tuple[str, int], int] | None = None,
    times: Mapping[tuple[str, int], int] | None = None,
    details: ClusterDetails | None = None,
    known_groups: Mapping[str, Set[str]] | None = None,
) -> ClusterSnapshot:
    """Read topics, settings, group offsets, then offsets. Runs on the driver.

    ``epochs`` are the leader epochs of the last batches archived, where they are known; ``times``
    asks partitions for their first record at or after a time. ``details`` of an earlier look are
    used again if they speak of the same topics. ``known_groups`` are those of the log, with the
    topics they have offsets on. Listed topics that are not there are left out.
    """
    described = _choose_topics(admin, options)
    ids = {name: topic.topic_id for name, topic in described.items()}
    used = details if details is not None and details.topic_ids == ids else None
    configs = used.configs if used else admin.topic_configs(list(described))
    groups = used.groups if used else _groups(admin, options, list(described), known_groups or {})
    partitions = [(t.name, p) for t in described.values() for p in range(t.partition_count)]
    starts = admin.offsets(partitions, OffsetSpec.EARLIEST)
    # Ends before stables: what a producer adds between the two is not held back by anybody.
    ends = admin.offsets(partitions, OffsetSpec.LATEST)
    stables = admin.offsets(partitions, OffsetSpec.LAST_STABLE)
    spans = {
        key: LogSpan(starts[key], max(starts[key], stables[key], ends[key])) for key in partitions
    }
    sizes = _sizes(admin, spans, used)
    epoch_ends = load_epoch_ends(admin, {k: e for k, e in (epochs or {}).items() if k in starts})
    late = admin.offsets_for_times({k: at for k, at in (times or {}).items() if k in starts})
    topics = {
        topic.name: TopicSnapshot(
            topic.name,
            topic.topic_id,
            topic.replication_factor,
            configs[topic.name],
            tuple(
                PartitionSnapshot(
                    spans[key],
                    max(starts[key], stables[key]),
                    _leader(topic, key[1]),
                    sizes.get(key),
                    epoch_ends.get(key),
                    late.get(key),
                )
                for key in ((topic.name, number) for number in range(topic.partition_count))
            ),
        )
        for topic in described.values()
    }
    ratios = {
        k: sizes[k] / (s.end - s.start)
        for k, s in spans.items()
        if sizes.get(k) and s.end > s.start
    }
    kept = used or ClusterDetails(
        at_ms=now_ms, topic_ids=ids, configs=configs, groups=groups, bytes_per_offset=ratios
    )
    return ClusterSnapshot(now_ms, topics, groups.offsets, tuple(groups.denied), details=kept)


def require_topics(admin: Admin, options: BackupOptions) -> None:
    """Raise UsageError when a listed topic is not there, or no topic matches the pattern.

    For who is about to take a log, and will not wait for topics to come.
    """
    there = _choose_topics(admin, options)
    if not options.topics and not there:
        raise UsageError(
            f"no topic in Kafka matches {options.topics_regex}",
            hint="The whole name must match; those that begin with __ are taken by --topics alone.",
        )
    missing = [name for name in options.topics if name not in there]
    if missing:
        raise UsageError(
            f"no such topic in Kafka: {', '.join(missing)}",
            hint="See the names with kafka-topics --list; names are case-sensitive.",
        )


def is_unchanged(admin: Admin, before: ClusterSnapshot) -> bool:
    """Tell, by one question to each leader, whether no partition has grown since ``before``.

    Another topic under the same name is noticed by the next look at the latest.
    """
    stables = before.stables
    try:
        found = admin.offsets(list(stables), OffsetSpec.LAST_STABLE)
    except PreflightError:  # a topic is gone
        return False
    return found == stables


def _groups(
    admin: Admin, options: BackupOptions, topics: list[str], known: Mapping[str, Set[str]]
) -> GroupOffsets:
    """Read all groups' offsets, less those that only repeat what the log says itself.

    A known group that is not listed is asked for by name: its broker may be away, and only an
    answer tells that it has no offsets left.
    """
    found = load_group_offsets(admin, topics)
    met = {*found.offsets, *found.denied}
    unlisted = [group for group, on in known.items() if group not in met and on & set(topics)]
    if unlisted:
        with suppress(TransientError):
            quick = Admin(admin.wire, timeout_ms=UNLISTED_MS)
            asked = load_group_offsets(quick, topics, unlisted)
            found.denied = sorted([*found.denied, *asked.denied])
            left = {group: asked.offsets.get(group, {}) for group in unlisted}
            found.offsets |= {g: at for g, at in left.items() if g not in asked.denied}
    found.offsets.pop(options.group or "", None)
    return found


def _sizes(
    admin: Admin, spans: Mapping[tuple[str, int], LogSpan], details: ClusterDetails | None
) -> dict[tuple[str, int], int]:
    if details is not None:
        ratios = details.bytes_per_offset
        return {k: int(ratios[k] * (s.end - s.start)) for k, s in spans.items() if k in ratios}
    partitions: dict[str, list[int]] = {}
    for topic, number in spans:
        partitions.setdefault(topic, []).append(number)
    return admin.partition_sizes(partitions)


def _leader(topic: TopicDescription, number: int) -> int:
    leader = topic.partitions[number].leader
    return -1 if leader is None else leader


def _choose_topics(admin: Admin, options: BackupOptions) -> dict[str, TopicDescription]:
    """Pick topics by list or pattern; internal ones only when they are named."""
    if options.topics:
        return admin.topics(list(options.topics))
    pattern = compile_java_regex(options.topics_regex or "")
    topics = admin.topics(None)
    ordinary = (n for n, topic in topics.items() if not topic.internal and not n.startswith("__"))
    return {name: topics[name] for name in pattern.select(ordinary)}
