"""The entries of a log as one Arrow table, so that a page can sum up hundreds of thousands.

A table of a checkpoint never changes, so its rows are read once. Commits after the checkpoint are
few and are read with the log.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.checkpoint import LoadedLog, load_rows
from kafkeep.archive.codec import gap_from_json
from kafkeep.archive.commit import Commit, Gap
from kafkeep.archive.document import reading
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.entry_tables import TableInfo
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("incarnation", pa.int32()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("records", pa.int64()),
        ("size_bytes", pa.int64()),
        ("raw_bytes", pa.int64()),
        ("min_timestamp", pa.int64()),
        ("max_timestamp", pa.int64()),
        ("generation", pa.int64()),
        ("format", pa.string()),
        ("view", pa.string()),
        ("key", pa.string()),
        ("codec", pa.string()),
        ("sha256", pa.string()),
        ("closed_by", pa.string()),
        ("first_commit", pa.int64()),
        ("last_commit", pa.int64()),
    ]
)
"""The columns of the index. ``end`` is exclusive; ``view`` is ``value`` except for the objects of
keys and headers, which hold the same records again. The commit of an entry is one of
``first_commit`` to ``last_commit``: a table of a checkpoint holds the entries of several."""
_COMMITS = ("first_commit", "last_commit")
_DEFAULTS: Mapping[str, Any] = {"generation": 0, "view": "value", "closed_by": ""}
_LOGS_KEPT = 50


@dataclass(frozen=True, slots=True)
class EntryIndex:
    """The entries of a log that count, with ``SCHEMA``'s columns, and all of its gaps."""

    entries: pa.Table
    gaps: tuple[Gap, ...] = ()


class EntryIndexes:
    """Makes indexes; remembers the rows of tables. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[tuple[str, str], Mapping[str, EntryIndex]] = {}
        """By store and name of the log: the tables of its checkpoint, by their digests."""

    def load(self, store: ObjectStore, log: LoadedLog) -> EntryIndex:
        """Return the entries and gaps of a log, without what is retired."""
        id = store.describe(), log.state.name
        known, tables = self._tables.get(id, {}), dict[str, EntryIndex]()
        for table in log.base.tables:
            if table.entries or table.gaps:
                digest = table.sha256
                tables[digest] = known.get(digest) or _read_table(store, log.state.name, table)
        self._remember(id, tables)
        parts = [*tables.values()]
        parts.append(index_of(log.tail))
        entries = pa.concat_tables([part.entries for part in parts])
        counts = log.state.counts
        counting = (
            gap
            for part in parts
            for gap in part.gaps
            if counts(gap.partition_id, gap.generation, gap.range.end)
        )
        return EntryIndex(_without_retired(entries, log.state), tuple(counting))

    def _remember(self, id: tuple[str, str], tables: Mapping[str, EntryIndex]) -> None:
        """Keep the tables of a log in place of those before, which were merged into others."""
        with self._lock:
            if id not in self._tables and len(self._tables) >= _LOGS_KEPT:
                del self._tables[next(iter(self._tables))]
            self._tables[id] = tables


def _read_table(store: ObjectStore, name: str, table: TableInfo) -> EntryIndex:
    rows = load_rows(store, name, table)
    with reading(table.key):
        gaps = tuple(map(gap_from_json, rows.gaps))
    return EntryIndex(_table(rows.entries, table.first, table.last), gaps)


def index_of(commits: Sequence[Commit]) -> EntryIndex:
    """Return the entries and gaps that these commits add."""
    parts = [
        _table((entry.to_json() for entry in one.changes.entries), one.number, one.number)
        for one in commits
        if one.changes.entries
    ]
    gaps = tuple(gap for one in commits for gap in one.changes.gaps)
    return EntryIndex(pa.concat_tables(parts) if parts else SCHEMA.empty_table(), gaps)


def _table(rows: Iterable[Mapping[str, Any]], first: int, last: int) -> pa.Table:
    listed = list(rows)
    columns = [
        pa.array([row.get(name, _DEFAULTS.get(name)) for row in listed], type=kind)
        for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
        if name not in _COMMITS
    ]
    commits = [pa.array(np.full(len(listed), number)) for number in (first, last)]
    return pa.Table.from_arrays([*columns, *commits], schema=SCHEMA)


def _without_retired(table: pa.Table, state: LogState) -> pa.Table:
    """Leave out the entries that no longer count; only topics that were moved back have any."""
    topics = sorted({pid.topic for pid, steps in state.retired.items() if steps})
    if not topics:
        return table
    maybe = pc.is_in(table["topic"], pa.array(topics)).to_numpy()
    rows = table.filter(pa.array(maybe)).select(
        ["topic", "incarnation", "partition", "generation", "end"]
    )
    kept = np.ones(len(table), dtype=bool)
    kept[maybe] = [
        state.counts(PartitionId(topic, incarnation, partition), generation, end)
        for topic, incarnation, partition, generation, end in zip(
            *(column.to_pylist() for column in rows.columns), strict=True
        )
    ]
    return table.filter(pa.array(kept))
