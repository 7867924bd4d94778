"""Which entries, frames and records a query reads. On the driver.

A query reads one log and one incarnation of each topic. The filters that Spark pushes down are
applied to entries, frames and times.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.archive.expiry import Expiry
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.errors import NoSuchArchiveError
from kafkeep.objects.choose_log import choose_best

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter  # since Spark 4.1

logger = logging.getLogger(__name__)


def check_topics(asked: Collection[str], views: Iterable[ArchiveView]) -> None:
    """NoSuchArchiveError for topics that no log has."""
    there = {topic for view in views for topic, _ in view.topics}
    if missing := sorted(set(asked) - there):
        held = ", ".join(sorted(there)) or "none"
        raise NoSuchArchiveError(
            f"the archive holds no topic {', '.join(missing)}; it holds: {held}"
        )


def without_expired(
    store: ObjectStore, view: ArchiveView, entries: Sequence[Entry], now_ms: int
) -> list[Entry]:
    """Return the entries to read: without windows of which a rule has deleted an object.

    What is gone and no rule explains stays, and is damage to whoever reads it. Without rules
    nothing is listed.
    """
    expiry = Expiry(store, view, now_ms)
    old = {entry.key: reason for entry in entries if (reason := expiry.reason(entry))}
    if not old:
        return list(entries)
    folder = os.path.commonpath([os.path.dirname(key) for key in old])
    there = {info.key for info in store.list(f"{folder}/" if folder else "")}
    gone = {
        (entry.partition_id, entry.range): old[entry.key]
        for entry in entries
        if entry.key in old and entry.key not in there
    }
    for (pid, range), reason in sorted(gone.items(), key=lambda one: (one[0][0], one[0][1].start)):
        logger.warning("%s offsets %d..%d: %s", pid, range.start, range.end, reason)
    return [entry for entry in entries if (entry.partition_id, entry.range) not in gone]


def choose_entries(
    views: Sequence[ArchiveView], wanted: PushedFilters, incarnation: int | None = None
) -> dict[str, tuple[ArchiveView, list[Entry]]]:
    """Return what to read: for each topic one log, and the entries of one incarnation.

    The log that holds most of each record is taken, and the newest incarnation unless one is
    named. PreflightError when two logs hold as much of a topic.
    """
    topics = sorted({topic for view in views for topic, _ in view.topics})
    chosen = {}
    for topic in topics:
        if wanted.topics is None or topic in wanted.topics:
            found = _one_log(topic, views, incarnation)
            if found is not None:
                chosen[topic] = found
    return chosen


def _one_log(
    topic: str, views: Sequence[ArchiveView], incarnation: int | None
) -> tuple[ArchiveView, list[Entry]] | None:
    candidates: dict[str, tuple[ArchiveView, list[Entry]]] = {}
    for view in views:
        newest = max((number for name, number in view.topics if name == topic), default=None)
        if newest is None:
            continue
        entries = view.entries(topic, incarnation or newest)
        if entries:
            candidates[view.name] = (view, entries)
    if not candidates:
        return None
    entries_of = {name: entries for name, (_, entries) in candidates.items()}
    return candidates[choose_best(entries_of, f"{topic} is", "Set the option name to one of them.")]


_LAST = (1 << 63) - 1
_FIRST = -(1 << 63)


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """Topics, partitions, offsets and times that may be wanted; half-open like everything.

    It only leaves out what cannot match: Spark looks at each row again.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = _LAST
    from_ms: int = _FIRST
    until_ms: int = _LAST

    def narrowed(self, filters: Iterable[Filter]) -> PushedFilters:
        """Return what is left when all of the filters hold; those not understood change nothing."""
        wanted = self
        for one in filters:
            wanted = wanted._narrow(one)
        return wanted

    def wants(self, entry: Entry) -> bool:
        """Whether an object may hold wanted records."""
        topic, _, partition = entry.partition_id
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and self.offsets(entry.range) is not None
            and self.wants_times(entry.min_timestamp, entry.max_timestamp)
        )

    def wants_point(self, point: IndexPoint) -> bool:
        """Whether a frame's times may be wanted."""
        return self.wants_times(point.min_timestamp, point.max_timestamp)

    def wants_times(self, low: int, high: int) -> bool:
        """Whether some time in ``[low, high]`` is wanted."""
        return high >= self.from_ms and low < self.until_ms

    def offsets(self, range: OffsetRange) -> OffsetRange | None:
        """Return the wanted part of ``range``."""
        if self.start >= self.end:
            return None
        return range.overlap(OffsetRange(self.start, self.end))

    def _narrow(self, one: Filter) -> PushedFilters:
        column: tuple[str, ...] = getattr(one, "attribute", ())
        value = getattr(one, "value", None)
        if len(column) != 1 or value is None:
            return self
        name = column[0].lower()
        match type(one).__name__:
            case "EqualTo" | "EqualNullSafe":
                return self._among(name, (value,))
            case "In":
                return self._among(name, value)
            case "GreaterThan" | "GreaterThanOrEqual" as kind:
                return self._at_least(name, value, 1 if kind == "GreaterThan" else 0)
            case "LessThan" | "LessThanOrEqual" as kind:
                return self._below(name, value, 0 if kind == "LessThan" else 1)
        return self

    def _among(self, name: str, values: Iterable[Any]) -> PushedFilters:
        found = frozenset(value for value in values if value is not None)
        if name == "topic":
            topics = found if self.topics is None else self.topics & found
            return replace(self, topics=topics)
        if name == "partition":
            partitions = found if self.partitions is None else self.partitions & found
            return replace(self, partitions=partitions)
        if not found:
            return self
        return self._at_least(name, min(found), 0)._below(name, max(found), 1)

    def _at_least(self, name: str, value: Any, more: int) -> PushedFilters:
        if name == "offset":
            return replace(self, start=max(self.start, value + more))
        if name == "timestamp":
            # A record's time has whole milliseconds; one that is equal stays in, Spark decides.
            return replace(self, from_ms=max(self.from_ms, to_ms(value)))
        if name == "timestampms":
            return replace(self, from_ms=max(self.from_ms, value + more))
        return self

    def _below(self, name: str, value: Any, more: int) -> PushedFilters:
        if name == "offset":
            return replace(self, end=min(self.end, value + more))
        if name == "timestamp":
            return replace(self, until_ms=min(self.until_ms, to_ms(value) + 1))
        if name == "timestampms":
            return replace(self, until_ms=min(self.until_ms, value + more))
        return self


def to_ms(time: datetime) -> int:
    """Return Kafka's ms of a time, rounded down; one without zone is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400_000) + since.seconds * 1000 + since.microseconds // 1000
