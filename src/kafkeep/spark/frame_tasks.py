"""Run tasks as a DataFrame, for Spark Connect, which has no RDDs: a row in, rows out.

The parts travel as data, with one row for each task. The function is small, and the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkeep.spark.server_slots import one_task_per_row

Reported = tuple[int, str, bytes]
_RunParts = Callable[[Iterable[bytes]], Iterator[Reported]]
_PARTS = StructType([StructField(name, BinaryType(), nullable=False) for name in ("ahead", "part")])
_AHEAD_OF_PARTS = bytes(1024)
"""A server of Spark 3.5 shows and logs the first 1,024 bytes of a request's data. Parts hold
secrets."""
_ROWS = pa.schema([("bundle", pa.int64()), ("kind", pa.string()), ("body", pa.binary())])
_SPARK_ROWS = "bundle long, kind string, body binary"


def collect_frame(
    session: SparkSession, parts: Sequence[bytes], run_parts: _RunParts
) -> list[Reported]:
    """Run ``run_parts`` on each part, one task for each, and return what they yield.

    A server that does not let a session say how many tasks it wants puts several parts in a task.
    """
    frame = frame_of_tasks(session, parts, run_parts)
    with one_task_per_row(session, len(parts)):
        return [(row.bundle, row.kind, bytes(row.body)) for row in frame.collect()]


def frame_of_tasks(session: SparkSession, parts: Sequence[bytes], run_parts: _RunParts) -> Any:
    """Return the DataFrame whose tasks run ``run_parts``, each on the part in its row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column("part").to_pylist():
                yield rows_as_arrow(list(run_parts([part])))

    ahead = [_AHEAD_OF_PARTS] + [b""] * (len(parts) - 1)
    frame = session.createDataFrame(list(zip(ahead, parts, strict=True)), _PARTS)
    return frame.mapInArrow(run, _SPARK_ROWS)


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
