"""Plan a restore: which entries go into which partition of which topic. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry
from kafkeep.archive.names import check_topic_name
from kafkeep.archive.reader import ArchiveView
from kafkeep.config.choose import did_you_mean
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.windows import with_companions
from kafkeep.errors import UsageError


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What goes into one target partition, in order."""

    partition: int
    entries: tuple[Entry, ...]

    @property
    def records(self) -> int:
        """Records archived for it, each counted once."""
        return sum(entry.own_records for entry in self.entries)

    @property
    def raw_bytes(self) -> int:
        """Bytes of their record batches."""
        return sum(entry.raw_bytes for entry in self.entries)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic to restore."""

    source: TopicInfo
    target: str
    partitions: tuple[PartitionPlan, ...]

    @property
    def records(self) -> int:
        """Records archived for the topic."""
        return sum(partition.records for partition in self.partitions)

    @property
    def raw_bytes(self) -> int:
        """Bytes of their record batches."""
        return sum(partition.raw_bytes for partition in self.partitions)

    @property
    def entries(self) -> list[Entry]:
        """Every entry of the topic."""
        return [entry for partition in self.partitions for entry in partition.entries]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Everything one restore writes."""

    id: str
    log: str
    commit: int
    topics: tuple[TopicPlan, ...]

    @property
    def records(self) -> int:
        """Records to write."""
        return sum(topic.records for topic in self.topics)

    @property
    def raw_bytes(self) -> int:
        """Bytes of their record batches."""
        return sum(topic.raw_bytes for topic in self.topics)

    def with_companions(self, keys: frozenset[str]) -> frozenset[str]:
        """Return objects that are lost, and those that are of no use without them."""
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
        topics = tuple(
            TopicPlan(
                topic.source,
                topic.target,
                tuple(
                    PartitionPlan(p.partition, tuple(e for e in p.entries if e.key not in keys))
                    for p in topic.partitions
                ),
            )
            for topic in self.topics
        )
        return RestorePlan(self.id, self.log, self.commit, topics)


def restore_id(archive: str, log: str, options: RestoreOptions, cluster_id: str) -> str:
    """Name a restore by what was asked for: the same command finds its document again."""
    asked = {
        "archive": archive,
        "log": log,
        "commit": options.commit,
        "at": options.at_ms,
        "topics": options.topics,
        "aborted": options.restore_aborted,
        "missing": options.allow_missing,
        "cluster": cluster_id,
    }
    body = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(body).hexdigest()[:32]


def plan_restore(view: ArchiveView, options: RestoreOptions, *, id: str) -> RestorePlan:
    """Choose topics (the newest incarnation of each) and their entries."""
    newest: dict[str, TopicInfo] = {}
    for (name, _), info in sorted(view.topics.items()):
        newest[name] = info
    chosen = options.topics or tuple((name, name) for name in sorted(newest))
    topics = []
    for source, target in chosen:
        if source not in newest:
            raise UsageError(
                f"topic {source} is not in the archive",
                hint=did_you_mean(source, newest) or f"It holds: {', '.join(sorted(newest))}.",
            )
        _check_target(target)
        topics.append(_plan_topic(view, newest[source], target))
    return RestorePlan(id, view.name, view.commit, tuple(topics))


def _check_target(name: str) -> None:
    try:
        check_topic_name(name)
    except ValueError as error:
        raise UsageError(
            f"{name!r} cannot be a topic's name",
            hint="Kafka takes letters, digits, dots, underscores and dashes, 249 at most.",
        ) from error


def _plan_topic(view: ArchiveView, info: TopicInfo, target: str) -> TopicPlan:
    by_partition: dict[int, list[Entry]] = {number: [] for number in range(info.partitions)}
    for entry in view.entries(info.topic, info.incarnation):
        by_partition.setdefault(entry.partition_id.partition, []).append(entry)
    partitions = tuple(
        PartitionPlan(number, tuple(sorted(entries, key=lambda entry: entry.range)))
        for number, entries in sorted(by_partition.items())
    )
    return TopicPlan(info, target, partitions)
