"""One topic name: the topic in Kafka beside those of the archives. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.topics.logged_topics import LoggedTopic
from kafkeep.kafka.client.metadata import TopicDescription


class TopicFilter(StrEnum):
    """Which topics a list shows."""

    ALL = ""
    UNCOVERED = "uncovered"
    """Live, and in no archive."""
    COVERED = "covered"
    """Live, and in an archive."""
    ARCHIVE_ONLY = "archive-only"
    """No longer in Kafka."""
    GAPS = "gaps"
    RECREATED = "re-created"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOffsets:
    """The offsets of a live topic, read for one page."""

    partitions: Mapping[int, OffsetRange]
    size_bytes: int | None = None
    age_s: float = 0.0
    """How long ago they were read: those of many partitions are kept for a while."""

    @property
    def offsets(self) -> int:
        """How many offsets Kafka has."""
        return sum(len(one) for one in self.partitions.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTopic:
    """One name: the topic in Kafka, and the topics that had the name, in each log."""

    name: str
    live: TopicDescription | None = None
    logged: tuple[LoggedTopic, ...] = ()
    offsets: LiveOffsets | None = None
    """None until they were read."""
    kafka_problem: str = ""
    """Why it is not known whether Kafka has it."""

    @property
    def current(self) -> tuple[LoggedTopic, ...]:
        """The logs that hold the live topic, or, when it is gone, its newest incarnation."""
        if self.live is not None:
            topic_id = self.live.topic_id
            return tuple(
                one for one in self.logged if one.info.topic_id == topic_id and not one.info.deleted
            )
        newest = max((one.info.incarnation for one in self.logged), default=0)
        return tuple(one for one in self.logged if one.info.incarnation == newest)

    @property
    def is_covered(self) -> bool:
        """Whether a log holds the live topic."""
        return self.live is not None and bool(self.current)

    @property
    def is_internal(self) -> bool:
        return self.live is not None and self.live.internal

    @property
    def partition_count(self) -> int:
        """How many partitions it has, in Kafka or else in the archive."""
        if self.live is not None:
            return self.live.partition_count
        return max((one.info.partitions for one in self.current), default=0)

    @property
    def incarnation_count(self) -> int:
        """How many topics of this name are known."""
        known = {one.identity for one in self.logged}
        if self.live is not None and not self.is_covered:
            return len(known) + 1
        return len(known)

    @property
    def records(self) -> int:
        """Archived records of the current topic, in the log that has most."""
        return max((one.records for one in self.current), default=0)

    @property
    def size_bytes(self) -> int:
        """What all its objects take in the archives."""
        return sum(one.size_bytes for one in self.logged)

    @property
    def archived_end(self) -> int | None:
        """The sum of the archived positions of its partitions; None when no log has it."""
        if not self.current:
            return None
        return sum(_furthest(self.current).values())

    @property
    def newest_ms(self) -> int | None:
        """The time of the newest archived record."""
        return max((t for one in self.current if (t := one.newest_ms) is not None), default=None)

    @property
    def lost_offsets(self) -> int:
        """Offsets in gaps, in the log that has fewest."""
        return min((one.lost_offsets for one in self.current), default=0)

    @property
    def lag(self) -> int | None:
        """Offsets in Kafka past the archived positions; None until they were read."""
        if self.offsets is None:
            return None
        positions = _furthest(self.current)
        return sum(
            max(0, live.end - max(live.start, positions.get(number, 0)))
            for number, live in self.offsets.partitions.items()
        )


def _furthest(topics: Iterable[LoggedTopic]) -> dict[int, int]:
    positions: dict[int, int] = {}
    for one in topics:
        for number, offset in one.positions.items():
            positions[number] = max(offset, positions.get(number, 0))
    return positions


def matches(topic: CatalogTopic, show: TopicFilter) -> bool:
    """Return whether a list that shows only some topics has this one."""
    if topic.is_internal or show is TopicFilter.INTERNAL:
        return topic.is_internal and show is TopicFilter.INTERNAL
    return {
        TopicFilter.UNCOVERED: topic.live is not None and not topic.is_covered,
        TopicFilter.COVERED: topic.is_covered,
        TopicFilter.ARCHIVE_ONLY: topic.live is None and not topic.kafka_problem,
        TopicFilter.GAPS: topic.lost_offsets > 0,
        TopicFilter.RECREATED: topic.incarnation_count > 1,
    }.get(show, True)
