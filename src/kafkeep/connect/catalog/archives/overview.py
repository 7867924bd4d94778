"""What an archive holds at a glance, and what in it needs attention. Reads logs, lists no data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.entry import PartitionId
from kafkeep.connect.catalog.archives.archives import ArchiveLog, ArchivePlace, Archives
from kafkeep.connect.catalog.archives.storage import sum_entries
from kafkeep.errors import KafkeepError, NoSuchArchiveError
from kafkeep.maintenance.inspect.commit_summary import StorageSums
from kafkeep.maintenance.verify.last_verified import last_verified_ms

SMALL_BYTES = 1 << 20
"""A smaller object costs more in requests than in storage."""
MANY_OBJECTS = 100
"""Fewer small objects of a topic are not worth a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOverview:
    """One log of an archive; ``problem`` says why it cannot be read, then the rest is empty."""

    name: str
    commits: int = 0
    at_ms: int | None = None
    """The time of its newest commit."""
    topics: int = 0
    partitions: int = 0
    sums: StorageSums = field(default_factory=StorageSums)
    gaps: int = 0
    lost_offsets: int = 0
    verified_ms: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOverview:
    """One archive; ``problem`` says why it cannot be read."""

    place: ArchivePlace
    logs: tuple[LogOverview, ...] = ()
    problem: str = ""

    @property
    def sums(self) -> StorageSums:
        """What all of its logs store."""
        return reduce(add, (log.sums for log in self.logs), StorageSums())

    @property
    def gaps(self) -> int:
        """The gaps of all logs."""
        return sum(log.gaps for log in self.logs)

    @property
    def at_ms(self) -> int | None:
        """The time of the newest commit."""
        return max((log.at_ms for log in self.logs if log.at_ms is not None), default=None)

    @property
    def verified_ms(self) -> int | None:
        """When the log that was verified the longest ago was verified; None: not all were."""
        times = [log.verified_ms for log in self.logs]
        known = [at_ms for at_ms in times if at_ms is not None]
        return min(known) if known and len(known) == len(times) else None

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it, or logs of it, cannot be read."""
        texts = (self.problem, *(log.problem for log in self.logs))
        return tuple(text for text in texts if text)


def describe_archive(archives: Archives, place: ArchivePlace) -> ArchiveOverview:
    """Return an archive with its logs; one without a commit has none."""
    try:
        names = archives.log_names(place)
    except NoSuchArchiveError:
        return ArchiveOverview(place=place)
    except KafkeepError as error:
        return ArchiveOverview(place=place, problem=error.message)
    return ArchiveOverview(place=place, logs=tuple(_log(archives, place, name) for name in names))


def _log(archives: Archives, place: ArchivePlace, name: str) -> LogOverview:
    try:
        log = archives.log(place, name)
        verified_ms = last_verified_ms(log.store, name)
    except KafkeepError as error:
        return LogOverview(name=name, problem=error.message)
    return LogOverview(
        name=name,
        commits=log.view.commits,
        at_ms=log.view.at_ms,
        topics=len(log.view.state.topics),
        partitions=len(log.view.positions),
        sums=sum_entries(log.entries),
        gaps=len(log.gaps),
        lost_offsets=sum(len(gap.range) for gap in log.gaps),
        verified_ms=verified_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallObjects:
    """The objects of a topic under ``SMALL_BYTES``, and why most of them were closed."""

    log: str
    folder: str
    small: int
    objects: int
    size_bytes: int
    """The size of the small ones together."""
    closed_by: str
    """The most frequent reason; empty when the log does not say."""

    @property
    def average_bytes(self) -> float:
        """The average size of the small ones."""
        return self.size_bytes / self.small


def find_small_objects(logs: Iterable[ArchiveLog]) -> list[SmallObjects]:
    """Return the topics with many small objects, those with the most first."""
    found = [one for log in logs for one in _small_of(log)]
    return sorted(found, key=lambda one: (-one.small, one.log, one.folder))


def recent_small_objects(archives: Archives, logs: Iterable[ArchiveLog]) -> list[SmallObjects]:
    """Return the same for a page: of a large log, as it was a moment ago."""
    found = [
        one
        for log in logs
        for one in archives.readings.get(
            ("small objects", log.place.id, log.name),
            lambda log=log: (find_small_objects([log]), len(log.entries)),  # type: ignore[misc]
        ).value
    ]
    return sorted(found, key=lambda one: (-one.small, one.log, one.folder))


def _small_of(log: ArchiveLog) -> Iterable[SmallObjects]:
    reasons: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in _count_by_reason(log.entries):
        reasons.setdefault((row["topic"], row["incarnation"]), []).append(row)
    for place, rows in reasons.items():
        small = sum(row["small_sum"] for row in rows)
        if small < MANY_OBJECTS:
            continue
        most = max(rows, key=lambda row: (row["small_sum"], row["closed_by"]))
        yield SmallObjects(
            log=log.name,
            folder=PartitionId(*place, 0).folder,
            small=small,
            objects=sum(row["small_count"] for row in rows),
            size_bytes=sum(row["small_bytes_sum"] for row in rows),
            closed_by=most["closed_by"],
        )


def _count_by_reason(entries: pa.Table) -> list[dict[str, Any]]:
    """Return the objects, the small ones and their size, by topic and why they were closed."""
    small = pc.less(entries["size_bytes"], SMALL_BYTES)
    by = ["topic", "incarnation", "closed_by"]
    counted = entries.select(by).append_column("small", small)
    counted = counted.append_column("small_bytes", pc.if_else(small, entries["size_bytes"], 0))
    sums = [("small", "count"), ("small", "sum"), ("small_bytes", "sum")]
    found: list[dict[str, Any]] = counted.group_by(by).aggregate(sums).to_pylist()
    return found
