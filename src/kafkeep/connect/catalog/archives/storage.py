"""How much an archive stores, by topic, partition and day. Pure: sums over the index of entries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.codec import LAST_MS
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.names import parse_folder
from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.model import RestError
from kafkeep.maintenance.inspect.commit_summary import StorageSums

_DAY_MS = 86_400_000
_LAST_INCARNATION = 2**31 - 1
_SUMS = (
    ("key", "count"),
    ("own_records", "sum"),
    ("size_bytes", "sum"),
    ("raw_bytes", "sum"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStorage:
    """What one log stores of one incarnation of a topic."""

    log: str
    topic: str
    incarnation: int
    partitions: int
    sums: StorageSums
    newest_ms: int | None
    """The largest record time; None when no record has a usable time."""

    @property
    def folder(self) -> str:
        """The topic's name, with ``~2`` and so on when it was re-created."""
        return PartitionId(self.topic, self.incarnation, 0).folder


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStorage:
    """What one log stores of one partition: archived offsets lie in ``[start, end)``."""

    partition: int
    start: int
    end: int
    sums: StorageSums
    newest_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DayStorage:
    """The objects whose newest record is of one day in UTC; None: without a usable time."""

    day: date | None
    sums: StorageSums

    @property
    def at_ms(self) -> int:
        """When the day begins."""
        return 0 if self.day is None else (self.day - date(1970, 1, 1)).days * _DAY_MS


def sum_entries(entries: pa.Table) -> StorageSums:
    """Return the sums of all entries."""
    rows = _grouped(entries, [])
    return _sums(rows[0]) if rows else StorageSums()


def sum_topics(log: ArchiveLog) -> list[TopicStorage]:
    """Return the sums of each topic, by name and incarnation."""
    rows = _grouped(
        log.entries,
        ["topic", "incarnation"],
        ("partition", "count_distinct"),
        ("max_timestamp", "max"),
    )
    found = [
        TopicStorage(
            log=log.name,
            topic=row["topic"],
            incarnation=row["incarnation"],
            partitions=row["partition_count_distinct"],
            sums=_sums(row),
            newest_ms=_time(row["max_timestamp_max"]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: (one.topic, one.incarnation))


def sum_partitions(log: ArchiveLog, topic: str, incarnation: int) -> list[PartitionStorage]:
    """Return the sums of each partition of a topic, by number."""
    rows = _grouped(
        of_topic(log.entries, topic, incarnation),
        ["partition"],
        ("start", "min"),
        ("end", "max"),
        ("max_timestamp", "max"),
    )
    found = [
        PartitionStorage(
            partition=row["partition"],
            start=row["start_min"],
            end=row["end_max"],
            sums=_sums(row),
            newest_ms=_time(row["max_timestamp_max"]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda one: one.partition)


def sum_days(entries: pa.Table) -> list[DayStorage]:
    """Return the sums of each day that has objects, the newest first; without a time at the end."""
    times = entries["max_timestamp"]
    is_usable = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, LAST_MS))
    day = pc.if_else(is_usable, pc.divide(times, _DAY_MS), -1)
    rows = _grouped(entries.append_column("day", day), ["day"])
    rows.sort(key=lambda row: -int(row["day"]))
    return [
        DayStorage(
            day=None
            if row["day"] < 0
            else datetime.fromtimestamp(row["day"] * (_DAY_MS // 1000), UTC).date(),
            sums=_sums(row),
        )
        for row in rows
    ]


def topic_of_folder(folder: str) -> tuple[str, int]:
    """Return topic and incarnation of a topic's folder; RestError 404 for no folder."""
    try:
        topic, incarnation = parse_folder(folder)
    except ValueError:
        raise RestError(404, f"There is no topic {folder[:260]!r}") from None
    return topic, min(incarnation, _LAST_INCARNATION)


def of_topic(entries: pa.Table, topic: str, incarnation: int) -> pa.Table:
    """Return the entries of one incarnation of a topic."""
    return entries.filter(
        pc.and_(pc.equal(entries["topic"], topic), pc.equal(entries["incarnation"], incarnation))
    )


def _grouped(entries: pa.Table, by: list[str], *more: tuple[str, str]) -> list[dict[str, Any]]:
    is_value = pc.is_in(entries["view"], pa.array(["value", "tombstones"]))
    own = pc.if_else(is_value, entries["records"], 0)
    table = entries.append_column("own_records", own)
    found: list[dict[str, Any]] = table.group_by(by).aggregate([*_SUMS, *more]).to_pylist()
    return found


def _sums(row: dict[str, Any]) -> StorageSums:
    return StorageSums(
        objects=row["key_count"],
        records=row["own_records_sum"] or 0,
        size_bytes=row["size_bytes_sum"] or 0,
        raw_bytes=row["raw_bytes_sum"] or 0,
    )


def _time(at_ms: int) -> int | None:
    return at_ms if 0 <= at_ms <= LAST_MS else None
