"""Holes inside a batch, filled with tombstones under a key of kafkeep's own. In tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from kafkeep.kafka.batch import scan_batches
from kafkeep.kafka.layout import RESERVED_KEY
from kafkeep.kafka.records import RECORD_SCHEMA, decode
from kafkeep.kafka.rewrite import ReadyBatch
from kafkeep.kernel import Int64s

LARGEST_INSIDE = 10_000
"""A larger hole is left to filler batches."""


def iter_filled(batch: ReadyBatch) -> Iterator[ReadyBatch]:
    """Yield batches without holes; where two of them are apart, the hole between is large."""
    # Formats take a while to import; segments without holes need none of them.
    from kafkeep.contents.ready import iter_ready_batches  # noqa: PLC0415

    assert batch.offsets is not None
    rows = decode(scan_batches(batch.body))
    offsets = batch.offsets
    edges = [0, *(np.flatnonzero(np.diff(offsets) > LARGEST_INSIDE) + 1).tolist(), len(offsets)]
    for i, j in pairwise(edges):
        yield from iter_ready_batches(_iter_rows(rows.slice(i, j - i), offsets[i:j]))


def _iter_rows(rows: pa.RecordBatch, offsets: Int64s) -> Iterator[pa.RecordBatch]:
    """Yield rows with tombstones between them, a bounded number at a time."""
    step = 5000
    for begin in range(0, len(offsets), step):
        mine = offsets[begin : begin + step]
        start = int(offsets[begin - 1]) + 1 if begin else int(mine[0])
        for first in range(start, int(mine[-1]) + 1, 1_000_000):
            last = min(first + 1_000_000, int(mine[-1]) + 1)
            low, high = np.searchsorted(mine, [first, last]).tolist()
            inside = rows.slice(begin + low, high - low)
            before = rows.column("timestamp")[max(0, begin + low - 1)].as_py()
            yield _with_tombstones(inside, mine[low:high], first, last, before)


def _with_tombstones(
    rows: pa.RecordBatch, offsets: Int64s, start: int, end: int, time: int
) -> pa.RecordBatch:
    """Return a row for each offset of ``[start, end)``; a tombstone has the time before it."""
    every = np.arange(start, end, dtype=np.int64)
    place = np.searchsorted(offsets, every, side="right") - 1
    is_record = np.zeros(len(every), dtype=np.bool_)
    is_record[offsets - start] = True
    times = np.concatenate(([time], rows.column("timestamp").to_numpy()))[place + 1]
    both = pa.concat_batches([rows, _TOMBSTONE])
    taken = both.take(pa.array(np.where(is_record, place, rows.num_rows)))
    columns = [pa.array(every), pa.array(times), *taken.columns[2:]]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


_TOMBSTONE = pa.RecordBatch.from_pylist(
    [
        {
            "offset": 0,
            "timestamp": 0,
            "timestamp_type": 0,
            "key": RESERVED_KEY,
            "value": None,
            "headers": [],
        }
    ],
    schema=RECORD_SCHEMA,
)
