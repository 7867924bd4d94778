"""Run tasks as a DataFrame, for Spark Connect, which has no RDDs: numbers in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

Reported = tuple[int, str, bytes]
_RunParts = Callable[[Iterable[bytes]], Iterator[Reported]]
_ROWS = pa.schema([("bundle", pa.int64()), ("kind", pa.string()), ("body", pa.binary())])
_SPARK_ROWS = "bundle long, kind string, body binary"


def collect_frame(
    session: SparkSession, parts: Sequence[bytes], run_parts: _RunParts
) -> list[Reported]:
    """Run ``run_parts`` on each part, one task for each, and return what they yield."""
    count = len(parts)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield rows_as_arrow(list(run_parts([parts[number]])))

    frame = session.range(0, count, 1, count).mapInArrow(run, _SPARK_ROWS)
    return [(row.bundle, row.kind, bytes(row.body)) for row in frame.collect()]


def rows_as_arrow(rows: list[Reported]) -> pa.RecordBatch:
    """Return rows as Spark takes them from a Python worker."""
    numbers = np.array([number for number, _, _ in rows], dtype=np.int64)
    columns = [
        pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(numbers)]),
        _texts(pa.string(), [kind.encode() for _, kind, _ in rows]),
        _texts(pa.binary(), [body for _, _, body in rows]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ROWS)


def _texts(kind: pa.DataType, values: list[bytes]) -> pa.Array:
    """Return the values as an array; ``pa.array`` would import pandas, for a second."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)
