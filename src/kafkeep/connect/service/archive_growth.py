"""What a sink's log says of its archive: how it grew, and its newest objects. Reads the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from kafkeep.archive.checkpoint import LoadedLog, load_log, load_rows
from kafkeep.archive.commit import Commit
from kafkeep.archive.entry import Entry
from kafkeep.archive.entry_tables import TableInfo
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import decode_stored, read_stored_commit
from kafkeep.connect.connectors.families import find_family
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.sink import read_sink
from kafkeep.connect.service.overview import ArchivedObject, GrowthPoint, downsample
from kafkeep.errors import NoSuchArchiveError
from kafkeep.store.open import open_store

_TABLES_KEPT = 1000


class ArchiveGrowth:
    """Reads logs; remembers the sums of tables, which never change. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, GrowthPoint] = {}
        """By the digest of the table: what it adds, at the time of its last commit."""

    def points(
        self, name: str, config: Mapping[str, str], context: JobContext
    ) -> tuple[GrowthPoint, ...]:
        """Return what the log had gained by each commit; a source has no log of its own.

        Commits that a checkpoint's table sums up are one point.
        """
        opened = _open(name, config, context)
        return () if opened is None else downsample(list(self._points(*opened)))

    def _points(self, store: ObjectStore, log: LoadedLog) -> Iterator[GrowthPoint]:
        objects = records = size = 0
        for table in sorted(log.base.tables, key=lambda one: one.last):
            step = self._table(store, log.state.name, table)
            objects, records, size = (
                objects + step.objects,
                records + step.records,
                size + step.bytes,
            )
            yield GrowthPoint(step.at_ms, objects, records, size)
        for commit in log.tail:
            entries = commit.changes.entries
            if entries:
                objects += len(entries)
                records += sum(_records(entry) for entry in entries)
                size += sum(entry.size_bytes for entry in entries)
                yield GrowthPoint(commit.at_ms, objects, records, size)

    def _table(self, store: ObjectStore, name: str, table: TableInfo) -> GrowthPoint:
        with self._lock:
            known = self._tables.get(table.sha256)
        if known is not None:
            return known
        entries = load_rows(store, name, table).entries
        at_ms = decode_stored(name, read_stored_commit(store, name, table.last)).at_ms
        values = [one for one in entries if one.get("view", "value") == "value"]
        point = GrowthPoint(
            at_ms,
            len(entries),
            sum(one["records"] for one in values),
            sum(one["size_bytes"] for one in entries),
        )
        with self._lock:
            if len(self._tables) >= _TABLES_KEPT:
                self._tables.clear()
            self._tables[table.sha256] = point
        return point


def _records(entry: Entry) -> int:
    """Return its records; objects of keys and headers hold the same records again."""
    return entry.records if entry.view == "value" else 0


def newest_objects(
    name: str, config: Mapping[str, str], context: JobContext, limit: int
) -> tuple[ArchivedObject, ...]:
    """Return the newest objects of the log, the newest first; none of a source."""
    opened = _open(name, config, context)
    if opened is None:
        return ()
    store, log = opened
    found = [_archived(one, commit) for commit in log.tail for one in commit.changes.entries]
    found.reverse()
    for table in sorted(log.base.tables, key=lambda one: -one.last):
        if len(found) >= limit:
            break
        rows = [Entry.from_json(one) for one in load_rows(store, log.state.name, table).entries]
        rows.sort(key=lambda one: one.max_timestamp, reverse=True)
        found += [_archived(one, None) for one in rows[: limit - len(found)]]
    return tuple(found[:limit])


def _archived(entry: Entry, commit: Commit | None) -> ArchivedObject:
    return ArchivedObject(
        key=entry.key,
        topic=entry.partition_id.topic,
        partition=entry.partition_id.partition,
        start=entry.range.start,
        end=entry.range.end,
        records=entry.records,
        bytes=entry.size_bytes,
        newest_record_ms=entry.max_timestamp,
        committed_ms=None if commit is None else commit.at_ms,
    )


def _open(
    name: str, config: Mapping[str, str], context: JobContext
) -> tuple[ObjectStore, LoadedLog] | None:
    if find_family(config.get("connector.class", "")).kind == "source":
        return None
    sink = read_sink(name, config, context)
    try:
        store = open_store(sink.archive, sink.storage)
        return store, load_log(store, sink.name)
    except NoSuchArchiveError:
        return None
