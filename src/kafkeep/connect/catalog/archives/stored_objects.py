"""The objects of a log, one page at a time. Pure: reads the index of entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import pyarrow.compute as pc

from kafkeep.archive.codec import LAST_MS
from kafkeep.archive.entry import PartitionId
from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.catalog.archives.storage import of_topic
from kafkeep.connect.model import RestError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOf(Generic[T]):
    """One page of a list of ``count`` items; pages count from 1."""

    items: tuple[T, ...]
    number: int
    size: int
    count: int

    @property
    def last(self) -> int:
        """The number of the last page."""
        return max(1, -(-self.count // self.size))

    @property
    def start(self) -> int:
        """How many items come before the page."""
        return (self.number - 1) * self.size

    @property
    def end(self) -> int:
        """The number of its last item, counted from 1."""
        return self.start + len(self.items)


def paged(items: Sequence[T], number: int, size: int) -> PageOf[T]:
    """Return one page of a list; the last page when it has fewer."""
    number = min(max(1, number), max(1, -(-len(items) // size)))
    begin = (number - 1) * size
    chosen = tuple(items[begin : begin + size])
    return PageOf(items=chosen, number=number, size=size, count=len(items))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One data object as its log describes it; offsets ``[start, end)``."""

    key: str
    partition_id: PartitionId
    start: int
    end: int
    records: int
    size_bytes: int
    raw_bytes: int
    oldest_ms: int | None
    newest_ms: int | None
    """The largest record time; None when no record has a usable time."""
    format: str
    codec: str
    view: str
    """The part of the records it holds: ``value``, ``keys``, ``headers`` or ``tombstones``."""
    sha256: str
    closed_by: str
    first_commit: int
    last_commit: int
    """It was committed between these two."""
    committed_ms: int | None = None
    """None while it is not read, or if a checkpoint has merged the commit with others."""
    archive: str = ""
    """The id of its archive, and its log; only where the objects of a connector are listed."""
    log: str = ""

    @property
    def holes(self) -> int:
        """Offsets in its range without a record: aborted, compacted or control records."""
        return max(0, self.end - self.start - self.records)


def find_objects(
    log: ArchiveLog,
    topic: str,
    incarnation: int,
    partition: int,
    *,
    offset: int = 0,
    page: int = 1,
    size: int = 50,
) -> PageOf[StoredObject]:
    """Return the objects of a partition that hold ``offset`` or later ones, in offset order."""
    entries = of_topic(log.entries, topic, incarnation)
    wanted = pc.and_(pc.equal(entries["partition"], partition), pc.greater(entries["end"], offset))
    entries = entries.filter(wanted)
    order = pc.sort_indices(
        entries.select(["start", "view", "key"]),
        sort_keys=[("start", "ascending"), ("view", "ascending"), ("key", "ascending")],
    )
    chosen = paged(range(len(order)), page, size)
    rows = entries.take(order.slice(chosen.items[0], len(chosen.items))) if chosen.items else None
    items = () if rows is None else tuple(map(_object, rows.to_pylist()))
    return PageOf(items=items, number=chosen.number, size=size, count=chosen.count)


def find_object(log: ArchiveLog, key: str) -> StoredObject:
    """Return one object; 404 when the log does not name it."""
    rows = log.entries.filter(pc.equal(log.entries["key"], key)).to_pylist()
    if not rows:
        raise RestError(404, f"The log {log.name} names no object {key!r}")
    return _object(rows[0])


def newest_objects(log: ArchiveLog, limit: int) -> tuple[StoredObject, ...]:
    """Return the newest objects of the log, the newest first, with the times of their commits."""
    order = [("last_commit", "descending"), ("max_timestamp", "descending")]
    chosen = pc.select_k_unstable(log.entries, k=limit, sort_keys=order)
    made_ms = {commit.number: commit.at_ms for commit in log.loaded.tail}
    found = map(_object, log.entries.take(chosen).to_pylist())
    return tuple(
        replace(one, committed_ms=made_ms.get(one.last_commit), archive=log.place.id, log=log.name)
        for one in found
    )


def _object(row: dict[str, Any]) -> StoredObject:
    low, high = row["min_timestamp"], row["max_timestamp"]
    return StoredObject(
        key=row["key"],
        partition_id=PartitionId(row["topic"], row["incarnation"], row["partition"]),
        start=row["start"],
        end=row["end"],
        records=row["records"],
        size_bytes=row["size_bytes"],
        raw_bytes=row["raw_bytes"],
        oldest_ms=low if 0 <= low <= LAST_MS else None,
        newest_ms=high if 0 <= high <= LAST_MS else None,
        format=row["format"],
        codec=row["codec"],
        view=row["view"],
        sha256=row["sha256"],
        closed_by=row["closed_by"],
        first_commit=row["first_commit"],
        last_commit=row["last_commit"],
    )
