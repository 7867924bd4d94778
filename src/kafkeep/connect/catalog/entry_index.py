"""The entries of a log as one Arrow table, so that a page can sum up hundreds of thousands.

A table of a checkpoint never changes, so its rows are read once. Commits after the checkpoint are
few and are read with the log.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.archive.checkpoint import LoadedLog, load_rows
from kafkeep.archive.commit import Gap
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView

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
    ]
)
"""The columns of the index. ``end`` is exclusive; ``view`` is ``value`` except for the objects of
keys and headers, which hold the same records again."""
_DEFAULTS: Mapping[str, Any] = {"generation": 0, "view": "value"}
_TABLES_KEPT = 200


class EntryIndexes:
    """Makes indexes; remembers the rows of tables. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, pa.Table] = {}
        """By the digest of the table."""

    def load(self, store: ObjectStore, log: LoadedLog) -> pa.Table:
        """Return the entries of a log that are not retired; the columns are ``SCHEMA``'s."""
        name = log.state.name
        parts = []
        for table in log.base.tables:
            if table.entries:
                known = self._tables.get(table.sha256)
                if known is None:
                    known = _table(load_rows(store, name, table).entries)
                    self._remember(table.sha256, known)
                parts.append(known)
        parts.append(_table(e.to_json() for step in log.tail for e in step.changes.entries))
        found = pa.concat_tables(parts)
        return _without_retired(found, log)

    def _remember(self, digest: str, table: pa.Table) -> None:
        with self._lock:
            if len(self._tables) >= _TABLES_KEPT:
                del self._tables[next(iter(self._tables))]
            self._tables[digest] = table


def gaps_of(view: ArchiveView, topic: str | None = None) -> list[Gap]:
    """Return the offsets that were never archived, of all topics or of one."""
    if not view.gap_count:
        return []
    return [gap for gap in view.gaps if topic in (None, gap.partition_id.topic)]


def _table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    listed = list(rows)
    columns = [
        pa.array([row.get(name, _DEFAULTS.get(name)) for row in listed], type=kind)
        for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _without_retired(table: pa.Table, log: LoadedLog) -> pa.Table:
    retired = log.state.retired
    if not any(retired.values()):
        return table
    ids = zip(
        *(table[name].to_pylist() for name in ("topic", "incarnation", "partition")),
        strict=True,
    )
    generations, ends = table["generation"].to_pylist(), table["end"].to_pylist()
    kept = [
        log.state.counts(PartitionId(*place), generation, end)
        for place, generation, end in zip(ids, generations, ends, strict=True)
    ]
    return table.filter(pa.array(np.array(kept, dtype=bool)))
