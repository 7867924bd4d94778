"""Archived records with the schema ids that their restore gave them. In tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.kafka.schema_ids import IdMap

_FRAME = 5


def ids_of(document: Mapping[str, Any]) -> IdMap | None:
    """Return the ids that a restore's document says records got; None when they kept theirs."""
    told = document.get("schemas") or {}
    if told.get("mode") != "map":
        return None
    where = (document.get("asked") or {}).get("ids_in")
    ids = {int(old): int(new) for old, new in told.get("ids", {}).items()}
    return IdMap(ids, where != "values", where != "keys")


def with_ids(batches: Iterable[pa.RecordBatch], ids: IdMap) -> Iterator[pa.RecordBatch]:
    """Yield records with their ids replaced."""
    wanted = [name for name, has in (("key", ids.keys), ("value", ids.values)) if has]
    for batch in batches:
        changed = batch
        for name in wanted:
            at = batch.schema.get_field_index(name)
            column = mapped(batch.column(at), ids.ids)
            changed = changed.set_column(at, batch.schema.field(at), column)
        yield changed


def mapped(column: pa.BinaryArray, ids: Mapping[int, int]) -> pa.BinaryArray:
    """Return a column whose framed ids are others; what is not framed stays."""
    known = column.fill_null(b"")
    starts, data = known.buffers()[1:]
    if data is None or not len(column):
        return column
    edges = np.frombuffer(starts, np.int32)[known.offset : known.offset + len(known) + 1]
    first, length = edges[:-1].astype(np.int64), np.diff(edges)
    texts = np.frombuffer(data, np.uint8).copy()
    places = first[length >= _FRAME]
    places = places[texts[places] == 0]
    there = np.zeros(len(places), dtype=np.int64)
    for byte in range(1, _FRAME):
        there = (there << 8) | texts[places + byte]
    new = np.array([ids.get(id, id) for id in there.tolist()], dtype=np.int64)
    for byte in range(1, _FRAME):
        texts[places + byte] = (new >> (8 * (_FRAME - 1 - byte))) & 0xFF
    made = pa.Array.from_buffers(
        known.type, len(known), [None, starts, pa.py_buffer(texts)], offset=known.offset
    )
    return pc.if_else(column.is_null(), pa.scalar(None, known.type), made)
