"""What the names and sizes of objects tell, topic by topic: nothing is read for it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kafkeep.care.usage import TopicUsage, Usage
from kafkeep.contents.foreign.listing import Listed, Listing
from kafkeep.errors import NoSuchArchiveError

NOTE = (
    "there is no log: this is what the names of objects tell; kafkeep verify reads them and counts "
    "their records"
)


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """The objects of one partition."""

    partition: int
    objects: tuple[Listed, ...]

    @property
    def start(self) -> int:
        """The lowest offset in a name: the first record's."""
        return min(one.name.start for one in self.objects)

    @property
    def last_start(self) -> int:
        """The highest offset in a name: there the last object begins; no name tells its end."""
        return max(one.name.start for one in self.objects)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the objects."""
        return sum(one.size_bytes for one in self.objects)

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``info --output json``."""
        return {
            "partition": self.partition,
            "start": self.start,
            "last_start": self.last_start,
            "objects": len(self.objects),
            "stored_bytes": self.stored_bytes,
        }


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """The objects of one topic."""

    topic: str
    partitions: tuple[NamedPartition, ...]

    @property
    def objects(self) -> list[Listed]:
        """All of them."""
        return [one for partition in self.partitions for one in partition.objects]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the objects."""
        return sum(partition.stored_bytes for partition in self.partitions)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that values are in."""
        values = [one.name for one in self.objects if one.name.view == "value"]
        return tuple(sorted({name.format.value for name in values}))

    @property
    def beside(self) -> tuple[str, ...]:
        """What is stored beside values: keys, headers, tombstones."""
        names = [one.name for one in self.objects]
        views = {name.view for name in names if not name.tombstones} - {"value"}
        return (*sorted(views), *(["tombstones"] if any(n.tombstones for n in names) else []))

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``info --output json``."""
        return {
            "topic": self.topic,
            "objects": len(self.objects),
            "stored_bytes": self.stored_bytes,
            "formats": list(self.formats),
            "beside": list(self.beside),
            "partitions": [partition.to_json() for partition in self.partitions],
        }


def sort_by_topic(listing: Listing, topics: Collection[str] | None = None) -> list[NamedTopic]:
    """Return the topics, or those asked for; NoSuchArchiveError when one has no object."""
    there = listing.topics
    missing = sorted(set(topics or ()) - there)
    if missing:
        raise NoSuchArchiveError(
            f"there are no objects of topic {', '.join(missing)}",
            hint=f"There are of: {', '.join(sorted(there))}.",
        )
    wanted = [one for one in listing.objects if not topics or one.name.topic in topics]
    return [
        NamedTopic(topic, tuple(_partitions(mine)))
        for topic, mine in groupby(wanted, key=lambda one: one.name.topic)
    ]


def _partitions(objects: Iterable[Listed]) -> Iterable[NamedPartition]:
    for partition, mine in groupby(objects, key=lambda one: one.name.partition):
        yield NamedPartition(partition, tuple(mine))


def describe_object(one: Listed) -> dict[str, Any]:
    """Return the form printed by ``ls --output json``; what a log would tell is null."""
    name = one.name
    return {
        "log": None,
        "key": name.key,
        "topic": name.topic,
        "partition": name.partition,
        "start": name.start,
        "view": "tombstones" if name.tombstones else name.view,
        "format": name.format.value,
        "codec": name.compression.value,
        "size_bytes": one.size_bytes,
    }


def usage_of(archive: str, listing: Listing, topics: Sequence[NamedTopic]) -> Usage:
    """Return what objects take up; those whose names do not fit are left-overs."""
    return Usage(
        archive=archive,
        topics=tuple(
            TopicUsage(
                log="",
                folder=topic.topic,
                objects=len(topic.objects),
                records=None,
                raw_bytes=None,
                stored_bytes=topic.stored_bytes,
                formats=topic.formats,
            )
            for topic in topics
        ),
        log_objects=0,
        log_bytes=0,
        orphans=listing.odd_count,
        orphan_bytes=listing.odd_bytes,
    )
