"""One look at Kafka: everything a cycle is planned from, read once, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.archive.commit import LogSpan
from kafkeep.config.backup import BackupOptions
from kafkeep.errors import UsageError
from kafkeep.kafka.admin import Admin, OffsetSpec, TopicDescription
from kafkeep.kafka.groups import group_offsets


@dataclass(frozen=True, slots=True)
class PartitionLook:
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
    def is_blocked(self) -> bool:
        """Whether an open transaction holds back records that are already in the log."""
        return self.stable < self.span.end


@dataclass(frozen=True, slots=True)
class TopicLook:
    """One topic as Kafka showed it; partitions are in order, from 0."""

    topic: str
    topic_id: str
    replication_factor: int
    configs: Mapping[str, str]
    partitions: tuple[PartitionLook, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What Kafka held at one moment.

    Group offsets are read before end offsets, so each of them lies inside the data.
    """

    at_ms: int
    topics: Mapping[str, TopicLook]
    groups: Mapping[str, Mapping[tuple[str, int], int]]
    skipped_groups: tuple[str, ...] = ()


def look_at_kafka(
    admin: Admin,
    options: BackupOptions,
    *,
    now_ms: int,
    epochs: Mapping[tuple[str, int], int] | None = None,
    times: Mapping[tuple[str, int], int] | None = None,
    need_all: bool = False,
) -> Look:
    """Read topics, settings, group offsets, then offsets. Runs on the driver.

    ``epochs`` are the leader epochs of the last batches archived, where they are known; ``times``
    asks partitions for their first record at or after a time. UsageError when ``need_all`` and a
    listed topic is not there.
    """
    described = _choose_topics(admin, options, need_all)
    configs = admin.topic_configs(list(described))
    groups = group_offsets(admin, list(described))
    partitions = [(t.name, p) for t in described.values() for p in range(t.partition_count)]
    starts = admin.offsets(partitions, OffsetSpec.EARLIEST)
    # Ends before stables: what a producer adds between the two is not held back by anybody.
    ends = admin.offsets(partitions, OffsetSpec.LATEST)
    stables = admin.offsets(partitions, OffsetSpec.LAST_STABLE)
    sizes = admin.partition_sizes({t.name: range(t.partition_count) for t in described.values()})
    epoch_ends = _epoch_ends(admin, epochs or {}, partitions)
    asked = {key: at for key, at in (times or {}).items() if key in starts}
    late = admin.offsets_for_times(asked)
    topics = {}
    for topic in described.values():
        looks = []
        for number in range(topic.partition_count):
            key = (topic.name, number)
            start = starts[key]
            stable = max(start, stables[key])
            span = LogSpan(start, max(stable, ends[key]))
            looks.append(
                PartitionLook(
                    span,
                    stable,
                    _leader(topic, number),
                    sizes.get(key),
                    epoch_ends.get(key),
                    late.get(key),
                )
            )
        topics[topic.name] = TopicLook(
            topic.name, topic.topic_id, topic.replication_factor, configs[topic.name], tuple(looks)
        )
    return Look(now_ms, topics, groups)


def _epoch_ends(
    admin: Admin, epochs: Mapping[tuple[str, int], int], partitions: list[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    asked = {key: epochs[key] for key in partitions if key in epochs}
    ends = admin.epoch_ends(asked) if asked else {}
    return {key: end.end_offset for key, end in ends.items() if end.end_offset >= 0}


def _leader(topic: TopicDescription, number: int) -> int:
    leader = topic.partitions[number].leader
    return -1 if leader is None else leader


def _choose_topics(
    admin: Admin, options: BackupOptions, need_all: bool
) -> dict[str, TopicDescription]:
    """Pick topics by list or pattern; internal ones only when they are named."""
    if options.topics:
        described = admin.topics(list(options.topics))
        missing = [name for name in options.topics if name not in described]
        if missing and need_all:
            raise UsageError(
                f"no such topic in Kafka: {', '.join(missing)}",
                hint="See the names with kafka-topics --list; names are case-sensitive.",
            )
        return described
    pattern = re.compile(options.topics_regex or "")
    return {
        name: topic
        for name, topic in admin.topics(None).items()
        if not topic.internal and not name.startswith("__") and pattern.fullmatch(name)
    }
