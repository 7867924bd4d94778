"""Arrow arrays made from numpy ones and back.

``pa.array`` and ``to_numpy`` import pandas, which takes half a second: not on every record's way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.data.column import Column


def number_array(
    kind: pa.DataType, values: NDArray[Any], valid: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return numbers of ``kind``; those that are not ``valid`` are null."""
    data = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    bits = None if valid is None else bitmap(valid)
    return pa.Array.from_buffers(kind, len(data), [bits, pa.py_buffer(data)])


def bitmap(flags: NDArray[np.bool_]) -> pa.Buffer:
    """Return flags as Arrow's validity bits."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def valid_flags(array: pa.Array) -> NDArray[np.bool_]:
    """Tell for each value whether it is there."""
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    bits = array.is_valid()
    return bool_flags(bits)


def bool_flags(array: pa.BooleanArray) -> NDArray[np.bool_]:
    """Return booleans without nulls."""
    packed = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    flags = np.unpackbits(packed, count=array.offset + len(array), bitorder="little")
    return flags[array.offset :].astype(np.bool_)


def constant_array(kind: pa.DataType, value: bytes, length: int) -> pa.Array:
    """Return the same bytes or text ``length`` times."""
    offsets = np.arange(length + 1, dtype=np.int32) * np.int32(len(value))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value * length)]
    return pa.Array.from_buffers(kind, length, buffers)


def list_array(kind: pa.DataType, offsets: NDArray[np.int64], values: pa.Array) -> pa.ListArray:
    """Return lists over ``values``."""
    bounds = pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int32))
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, bounds], children=[values])


def run_bounds(codes: NDArray[Any]) -> list[tuple[int, int]]:
    """Return ``[start, stop)`` of each stretch of equal neighbours."""
    if len(codes) == 0:
        return []
    cuts = (np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()
    return list(zip([0, *cuts], [*cuts, len(codes)], strict=True))


def concat_columns(columns: list[Column]) -> Column:
    """Put columns of one schema together."""
    if len(columns) == 1:
        return columns[0]
    return Column(columns[0].schema, pa.concat_arrays([column.array for column in columns]))
