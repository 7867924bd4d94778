"""The contents of an archive: totals of each log, topic and partition, and of its schemas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kafkeep.archive.commit import Gap, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.schemas import load_schemas
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.errors import DamagedError
from kafkeep.objects.choose_log import check_topics, what_is_missing
from kafkeep.objects.sink.read_windows import SEGMENT, formats_of
from kafkeep.objects.sink.spec import ReadOptions, load_read_options


def count_schemas(store: ObjectStore, view: ArchiveView) -> dict[str, Any] | None:
    """Count the archived subjects and versions; an unreadable document is left to verify."""
    if not view.schemas:
        return None
    counts: dict[str, Any] = {"document": view.schemas, "subjects": None, "versions": None}
    try:
        found = load_schemas(store, view.name, view.schemas)
    except DamagedError:
        return counts
    return {**counts, "subjects": len(found.subjects), "versions": len(found.versions())}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """One partition: archived offsets are ``start <= offset < end``."""

    partition: int
    start: int
    end: int
    entries: tuple[Entry, ...]
    gaps: tuple[Gap, ...]

    @property
    def records(self) -> int:
        """Records archived, each counted once."""
        return sum(entry.own_records for entry in self.entries)

    @property
    def gap_offsets(self) -> int:
        """Offsets that were never archived."""
        return sum(len(gap.range) for gap in self.gaps)

    @property
    def holes(self) -> int:
        """Archived offsets without a record: aborted, compacted away, or markers."""
        return self.end - self.start - self.records - self.gap_offsets

    @property
    def objects(self) -> int:
        """The number of objects."""
        return len(self.entries)

    @property
    def raw_bytes(self) -> int:
        """Bytes of the record batches."""
        return sum(entry.raw_bytes for entry in self.entries)

    @property
    def stored_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def first_ms(self) -> int | None:
        """The smallest record time."""
        return min((e.min_timestamp for e in self.entries if e.records), default=None)

    @property
    def last_ms(self) -> int | None:
        """The largest record time."""
        return max((e.max_timestamp for e in self.entries if e.records), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``info --output json``."""
        return {
            "partition": self.partition,
            "start": self.start,
            "end": self.end,
            "records": self.records,
            "holes": self.holes,
            "objects": self.objects,
            "raw_bytes": self.raw_bytes,
            "stored_bytes": self.stored_bytes,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "gaps": [
                {"start": g.range.start, "end": g.range.end, "reason": g.reason, "at_ms": g.at_ms}
                for g in self.gaps
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """One incarnation of a topic."""

    info: TopicInfo
    partitions: tuple[PartitionSummary, ...]
    missing: tuple[str, ...] = ()
    """What the objects do not hold of their records."""

    @property
    def folder(self) -> str:
        """The topic's name, with ``~2`` and so on when it was re-created."""
        return PartitionId(self.info.topic, self.info.incarnation, 0).folder

    @property
    def topic_id(self) -> str:
        return self.info.topic_id

    @property
    def deleted(self) -> bool:
        """True if the topic was gone from Kafka at the last snapshot."""
        return self.info.deleted

    @property
    def configs(self) -> Mapping[str, str]:
        """Settings that differ from the broker's defaults."""
        return self.info.configs

    @property
    def partition_count(self) -> int:
        """The number of partitions, including those without records."""
        return self.info.partitions

    @property
    def records(self) -> int:
        """Records archived."""
        return sum(p.records for p in self.partitions)

    @property
    def holes(self) -> int:
        """Archived offsets without a record."""
        return sum(p.holes for p in self.partitions)

    @property
    def gap_offsets(self) -> int:
        """Offsets that were never archived."""
        return sum(p.gap_offsets for p in self.partitions)

    @property
    def objects(self) -> int:
        """The number of objects."""
        return sum(p.objects for p in self.partitions)

    @property
    def formats(self) -> tuple[str, ...]:
        return formats_of(entry for p in self.partitions for entry in p.entries)

    @property
    def raw_bytes(self) -> int:
        """Bytes of the record batches."""
        return sum(p.raw_bytes for p in self.partitions)

    @property
    def stored_bytes(self) -> int:
        return sum(p.stored_bytes for p in self.partitions)

    @property
    def first_ms(self) -> int | None:
        """The smallest record time."""
        return min((p.first_ms for p in self.partitions if p.first_ms is not None), default=None)

    @property
    def last_ms(self) -> int | None:
        """The largest record time."""
        return max((p.last_ms for p in self.partitions if p.last_ms is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``info --output json``."""
        return {
            "topic": self.info.topic,
            "incarnation": self.info.incarnation,
            "topic_id": self.topic_id,
            "deleted": self.deleted,
            "partition_count": self.partition_count,
            "replication_factor": self.info.replication_factor,
            "configs": dict(sorted(self.configs.items())),
            "records": self.records,
            "holes": self.holes,
            "gap_offsets": self.gap_offsets,
            "objects": self.objects,
            "raw_bytes": self.raw_bytes,
            "stored_bytes": self.stored_bytes,
            "formats": list(self.formats),
            "missing": list(self.missing),
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "partitions": [partition.to_json() for partition in self.partitions],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInfo:
    """One log at its last commit."""

    name: str
    commits: int
    commit: int
    at_ms: int
    writer: str
    epoch: int
    intent_open: bool
    topics: tuple[TopicSummary, ...]
    groups: Mapping[str, Mapping[PartitionId, int]]
    schemas: Mapping[str, Any] | None = None
    """The schema document and its counts; None without a registry."""

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``info --output json``; scripts may rely on it."""
        return {
            "log": self.name,
            "commits": self.commits,
            "commit": self.commit,
            "at_ms": self.at_ms,
            "writer": self.writer,
            "epoch": self.epoch,
            "intent_open": self.intent_open,
            "topics": [topic.to_json() for topic in self.topics],
            "groups": {
                group: [
                    {
                        "topic": pid.topic,
                        "incarnation": pid.incarnation,
                        "partition": pid.partition,
                        "offset": offset,
                    }
                    for pid, offset in offsets.items()
                ]
                for group, offsets in self.groups.items()
            },
            "schemas": self.schemas,
        }


def load_info(
    store: ObjectStore, names: Sequence[str], *, topics: Collection[str] | None = None
) -> list[LogInfo]:
    """Describe the named logs, with all topics or only the given ones."""
    views = [load_view(store, name) for name in names]
    check_topics(views, topics)
    found = [describe(view, topics, lambda v=view: load_read_options(store, v)) for view in views]  # type: ignore[misc]
    return [
        replace(log, schemas=count_schemas(store, v)) for log, v in zip(found, views, strict=True)
    ]


def describe(
    view: ArchiveView,
    topics: Collection[str] | None = None,
    load_options: Callable[[], ReadOptions] = ReadOptions,
) -> LogInfo:
    """Describe one log; reads its tables of entries.

    ``load_options`` is called at most once, and only if the log has objects of a sink.
    """
    state, ask = view.state, cache(load_options)
    wanted = [info for (topic, _), info in view.topics.items() if topics is None or topic in topics]
    gaps: dict[PartitionId, list[Gap]] = defaultdict(list)
    for gap in view.gaps:
        gaps[gap.partition_id].append(gap)
    return LogInfo(
        name=view.name,
        commits=view.commits,
        commit=view.commit,
        at_ms=view.at_ms,
        writer=state.writer,
        epoch=state.epoch,
        intent_open=view.intent is not None,
        topics=tuple(_topic(view, info, gaps, ask) for info in wanted),
        groups=_groups(view, topics),
    )


def _topic(
    view: ArchiveView,
    info: TopicInfo,
    gaps: Mapping[PartitionId, Sequence[Gap]],
    load_options: Callable[[], ReadOptions],
) -> TopicSummary:
    entries: dict[int, list[Entry]] = defaultdict(list)
    of_sink: list[Entry] = []
    for entry in view.entries(info.topic, info.incarnation):
        entries[entry.partition_id.partition].append(entry)
        if entry.format != SEGMENT:
            of_sink.append(entry)
    partitions = []
    for pid, position in sorted(view.positions.items()):
        if (pid.topic, pid.incarnation) == (info.topic, info.incarnation):
            mine, lost = entries[pid.partition], tuple(gaps.get(pid, ()))
            starts = [e.range.start for e in mine] + [g.range.start for g in lost]
            partitions.append(
                PartitionSummary(
                    partition=pid.partition,
                    start=min(starts, default=position),
                    end=position,
                    entries=tuple(mine),
                    gaps=lost,
                )
            )
    missing = what_is_missing(of_sink, load_options()) if of_sink else ()
    return TopicSummary(info=info, partitions=tuple(partitions), missing=missing)


def _groups(view: ArchiveView, topics: Collection[str] | None) -> dict[str, dict[PartitionId, int]]:
    found = {
        group: {
            pid: offset
            for pid, offset in sorted(offsets.items())
            if topics is None or pid.topic in topics
        }
        for group, offsets in sorted(view.groups.items())
    }
    return {group: offsets for group, offsets in found.items() if offsets}
