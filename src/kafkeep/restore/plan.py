"""Plan a restore: which entries go into which partition of which topic. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import orjson

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.names import check_topic_name
from kafkeep.archive.packed_entries import NO_ENTRIES, PackedEntries
from kafkeep.errors import NoSuchArchiveError, UsageError
from kafkeep.objects.choose_log import choose_incarnation
from kafkeep.objects.sink.read_windows import with_companions
from kafkeep.options.option import did_you_mean
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.routing.routing import SAME, Routing, routing_of
from kafkeep.restore.selection import ALL_TIMES, PlannedSlices, TimeRange, select_slices


def check_picks(topics: Sequence[TopicPlan], options: RestoreOptions) -> None:
    """Refuse a selection that matches nothing: a typo would restore too little."""
    counts = {topic.source.topic: len(topic.partitions) for topic in topics}
    for name in {name for name, _ in options.incarnations} | {p.topic for p in options.offsets}:
        if name not in counts:
            raise UsageError(f"topic {name} is not among those to restore")
    for pick in options.offsets:
        if pick.partition >= counts[pick.topic]:
            raise UsageError(f"topic {pick.topic} has no partition {pick.partition}")
    for number in options.partitions:
        if number >= max(counts.values(), default=0):
            raise UsageError(f"no topic to restore has a partition {number}")
    if options.partition_map:
        _check_map(topics, dict(options.partition_map))


def _check_map(topics: Sequence[TopicPlan], chosen: Mapping[int, int]) -> None:
    """Refuse a map that lacks a selected partition, or names one that does not exist."""
    for topic in topics:
        wanted = [p.partition for p in topic.partitions if p.ranges != ()]
        for number in wanted:
            if number not in chosen:
                raise UsageError(
                    f"partition-map has no target for {topic.source.topic}-{number}",
                    hint="Name every partition, or leave some out with --partitions.",
                )
    there = {p.partition for topic in topics for p in topic.partitions}
    for number in chosen:
        if number not in there:
            raise UsageError(f"partition-map names {number}, which no topic to restore has")


def check_target(name: str) -> None:
    """Refuse a topic name that Kafka does not allow."""
    try:
        check_topic_name(name)
    except ValueError as error:
        raise UsageError(
            f"{name!r} is not a valid topic name",
            hint="Use at most 249 letters, digits, dots, underscores and dashes.",
        ) from error


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The contents of one target partition, in order."""

    partition: int
    entries: PackedEntries
    """The objects that are read, whole or in part."""
    ranges: tuple[OffsetRange, ...] | None = None
    """The selected offsets; None means all."""
    times: TimeRange = ALL_TIMES
    end: int = 0
    """The end offset in Kafka when the partition was archived; 0 if irrelevant."""
    selected_records: int = 0
    """The records of the slices to read, if there is a selection."""
    selected_bytes: int = 0
    """Their bytes in the store."""

    @property
    def cut(self) -> bool:
        """True if a selection leaves out archived records."""
        return self.ranges is not None or self.times != ALL_TIMES

    @property
    def records(self) -> int:
        """The number of records, each counted once; an upper bound with a selection."""
        return self.selected_records if self.cut else self.entries.sums.records

    @property
    def raw_bytes(self) -> int:
        """Bytes of their record batches; an estimate if there is a selection."""
        _, total, stored = self.entries.sums
        return total * self.read_bytes // stored if self.cut and stored else total

    @property
    def read_bytes(self) -> int:
        """Bytes that are read from the store."""
        return self.selected_bytes if self.cut else self.entries.sums.size_bytes

    def all_slices(self) -> PlannedSlices:
        """Return the slices to read, also without a selection."""
        return PlannedSlices(self.entries, self.ranges, self.times)

    def with_parts(self, parts: Mapping[str, Sequence[Entry]]) -> PartitionPlan:
        """Read only the given parts of damaged objects."""
        if not any(key in parts for key, _ in self.entries.iter_sizes()):
            return self
        kept = [part for entry in self.entries for part in parts.get(entry.key, (entry,))]
        return plan_partition(self.partition, kept, self.ranges, self.times, self.end)


def plan_partition(
    partition: int,
    entries: Iterable[Entry],
    ranges: tuple[OffsetRange, ...] | None = None,
    times: TimeRange = ALL_TIMES,
    end: int = 0,
) -> PartitionPlan:
    """Plan one partition: which of its entries are read, and which parts of them."""
    packed = PackedEntries.of(entries)
    if ranges is None and times == ALL_TIMES:
        return PartitionPlan(partition, packed, end=end)
    slices = select_slices(packed, ranges, times)
    read = {entry.key for part in slices for entry in part.window.entries}
    if len(read) < len(packed):
        packed = PackedEntries.of(entry for entry in packed if entry.key in read)
    return PartitionPlan(
        *(partition, packed, ranges, times, end),
        selected_records=sum(part.records for part in slices),
        selected_bytes=sum(part.stored_bytes for part in slices),
    )


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic to restore."""

    source: TopicInfo
    target: str
    partitions: tuple[PartitionPlan, ...]
    """The archived ones."""
    routing: Routing = SAME
    archived_objects: int | None = None
    """The number of its objects in the archive, also of those that are not selected."""

    @property
    def target_count(self) -> int:
        """The number of partitions that the target needs; with a map it may have more."""
        if self.routing.partition_count is not None:
            return self.routing.partition_count
        if not self.routing.partition_map:
            return len(self.partitions)
        used = [self.routing.target_of(partition.partition) for partition in self.partitions]
        return max((target + 1 for target in used if target is not None), default=1)

    def sources(self) -> dict[int, list[PartitionPlan]]:
        """Return, by target partition, the archived partitions whose records may go into it."""
        if self.routing.partition_count is not None:
            every = [p for p in self.partitions if p.ranges != ()]
            return dict.fromkeys(range(self.routing.partition_count), every)
        found: dict[int, list[PartitionPlan]] = {n: [] for n in range(self.target_count)}
        for partition in self.partitions:
            target = self.routing.target_of(partition.partition)
            if target in found:
                found[target].append(partition)
        return found

    @property
    def records(self) -> int:
        """Records archived for the topic."""
        return sum(partition.records for partition in self.partitions)

    @property
    def raw_bytes(self) -> int:
        """Bytes of their record batches."""
        return sum(partition.raw_bytes for partition in self.partitions)

    @property
    def read_bytes(self) -> int:
        """Bytes that are read from the store."""
        return sum(partition.read_bytes for partition in self.partitions)

    @property
    def entries(self) -> Iterator[Entry]:
        """Every entry of the topic, each built when it is reached."""
        return chain.from_iterable(partition.entries for partition in self.partitions)

    @property
    def objects(self) -> int:
        """The number of its entries."""
        return sum(len(partition.entries) for partition in self.partitions)

    @property
    def formats(self) -> frozenset[str]:
        """The formats of its objects."""
        return frozenset().union(*(partition.entries.formats for partition in self.partitions))

    @property
    def oldest_ms(self) -> int | None:
        """The smallest timestamp of its entries; None without any."""
        times = (partition.entries.oldest_ms for partition in self.partitions)
        return min((time for time in times if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Everything one restore writes."""

    id: str
    log: str
    commit: int
    topics: tuple[TopicPlan, ...]
    exact: bool = False
    """True if every record keeps its offset."""
    routing: Routing = SAME

    @property
    def records(self) -> int:
        """Records to write; an upper bound if there is a selection."""
        return sum(topic.records for topic in self.topics)

    @property
    def raw_bytes(self) -> int:
        """Bytes of their record batches."""
        return sum(topic.raw_bytes for topic in self.topics)

    @property
    def read_bytes(self) -> int:
        """Bytes that are read from the store."""
        return sum(topic.read_bytes for topic in self.topics)

    @property
    def cut(self) -> bool:
        """True if a selection leaves out archived records."""
        return any(partition.cut for topic in self.topics for partition in topic.partitions)

    def with_companions(self, keys: frozenset[str]) -> frozenset[str]:
        """Return lost objects, and objects that are unusable without them."""
        if not keys:
            return keys
        return keys.union(
            *(
                with_companions(partition.entries, keys)
                for topic in self.topics
                for partition in topic.partitions
            )
        )

    def without(self, keys: frozenset[str]) -> RestorePlan:
        """Leave out the entries whose objects are missing or damaged."""
        return self.with_parts(dict.fromkeys(keys, ()))

    def with_parts(self, parts: Mapping[str, Sequence[Entry]]) -> RestorePlan:
        """Read only the given parts of damaged objects; an object may have none."""
        if not parts:
            return self
        topics = (
            replace(topic, partitions=tuple(p.with_parts(parts) for p in topic.partitions))
            for topic in self.topics
        )
        return replace(self, topics=tuple(topics))


def replicas_of(topic: TopicPlan, options: RestoreOptions) -> int:
    """Return the number of replicas of a topic that the restore creates."""
    return options.replication_factor or topic.source.replication_factor


def fewer_replicas(topic: TopicPlan, options: RestoreOptions) -> int | None:
    """Return the number of replicas of a topic if it had more before; else None."""
    replicas = replicas_of(topic, options)
    return replicas if replicas < topic.source.replication_factor else None


def restore_id(archive: str, log: str, options: RestoreOptions, cluster_id: str) -> str:
    """Derive a restore's id from its options: the same command finds its document again."""
    selection = {
        "archive": archive,
        "log": log,
        "commit": options.commit,
        "at": options.at_ms,
        "topics": options.topics,
        "aborted": options.restore_aborted,
        "missing": False,  # a restore that stopped at damage resumes with --allow-missing
        "cluster": cluster_id,
        **options.selection(),
    }
    body = orjson.dumps(selection, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(body).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """The archived entries of one selected topic."""

    info: TopicInfo
    target: str
    entries: Mapping[int, PackedEntries]
    """By partition, of those that have any."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """The end offset of each partition in Kafka when it was archived."""


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """The archived entries of the selected topics at one commit."""

    log: str
    commit: int
    topics: tuple[ArchivedTopic, ...]


def choose_topics(
    archived: Mapping[tuple[str, int], TopicInfo], options: RestoreOptions
) -> list[tuple[TopicInfo, str]]:
    """Return the selected topics and their target names.

    Each topic in its newest incarnation, or in the one that the options name.
    """
    known = {name for name, _ in archived}
    chosen = []
    for source, target in _selected(known, options):
        if source not in known:
            raise NoSuchArchiveError(
                f"topic {source} is not in the archive",
                hint=did_you_mean(source, known) or f"It holds: {', '.join(sorted(known))}.",
            )
        check_target(target)
        info = choose_incarnation(archived, source, dict(options.incarnations).get(source))
        chosen.append((info, target))
    return chosen


def plan_restore(archive: ArchiveContents, options: RestoreOptions, *, id: str) -> RestorePlan:
    """Plan what goes into each partition of each target topic."""
    topics = [_plan_topic(topic, options) for topic in archive.topics]
    check_picks(topics, options)
    return RestorePlan(
        id, archive.log, archive.commit, tuple(topics), options.exact_offsets, routing_of(options)
    )


def _selected(known: Collection[str], options: RestoreOptions) -> Sequence[tuple[str, str]]:
    if options.topics_regex is None:
        return options.topics or [(name, name) for name in sorted(known)]
    found = [(name, name) for name in sorted(known) if options.wants(name)]
    if not found:
        raise NoSuchArchiveError(
            f"no topic matches {options.topics_regex}",
            hint=f"The archive holds: {', '.join(sorted(known))}.",
        )
    return found


def _plan_topic(topic: ArchivedTopic, options: RestoreOptions) -> TopicPlan:
    info = topic.info
    times = TimeRange(options.from_ms, options.until_ms)
    partitions = []
    for number in sorted({*range(info.partitions), *topic.entries}):
        entries = topic.entries.get(number, NO_ENTRIES)
        ranges = _picked(info.topic, number, options)
        end = topic.ends.get(number, 0)
        partitions.append(plan_partition(number, entries, ranges, times, end))
    routing = routing_of(options, chain.from_iterable(part.entries for part in partitions))
    archived = sum(map(len, topic.entries.values()))
    return TopicPlan(info, topic.target, tuple(partitions), routing, archived)


def _picked(topic: str, partition: int, options: RestoreOptions) -> tuple[OffsetRange, ...] | None:
    """Return the selected offsets of a partition; None means all, empty means none."""
    if options.partitions and partition not in options.partitions:
        return ()
    mine = [pick for pick in options.offsets if pick.topic == topic]
    if not mine:
        return None
    return tuple(pick.range for pick in mine if pick.partition == partition)
