"""Arrow arrays as numpy arrays, and back, without a copy and without pandas.

``pa.array`` and ``to_numpy`` import pandas when first called, which takes half a second; the path
of a record avoids them. Views are read-only, so that each kernel is compiled for one type only.
Also here: the distinct values of a column, and which of them each row has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.numba_setup import Bytes
from kafkeep.records.schema import Column


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, from now on read-only."""
    array.flags.writeable = False
    return array


NO_BYTES: Bytes = frozen(np.empty(0, dtype=np.uint8))


def view_numbers(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Return the values of an array of fixed width; those of nulls are undefined."""
    width = np.dtype(dtype).itemsize
    return np.frombuffer(
        array.buffers()[1] or b"", dtype=dtype, count=len(array), offset=array.offset * width
    )


def view_bits(array: pa.Array) -> Bytes:
    """Return the values of a boolean array, one byte each."""
    return _bits(array.buffers()[1], array.offset, len(array))


def view_valid(array: pa.Array) -> Bytes | None:
    """Return 1 for values and 0 for nulls, or None when no value is null."""
    if array.null_count == 0:
        return None
    if array.buffers()[0] is None:  # an array of the type null
        return frozen(np.zeros(len(array), dtype=np.uint8))
    return _bits(array.buffers()[0], array.offset, len(array))


def _bits(buffer: pa.Buffer | None, offset: int, count: int) -> Bytes:
    if buffer is None or count == 0:
        return NO_BYTES
    skipped = offset // 8
    packed = np.frombuffer(buffer, dtype=np.uint8)[skipped : (offset + count + 7) // 8]
    rest = offset - 8 * skipped
    return frozen(np.unpackbits(packed, bitorder="little")[rest : rest + count])


def view_offsets(array: pa.Array) -> NDArray[np.int32]:
    """Return where the values of a binary, string, list or map array begin, and the end."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return frozen(np.zeros(1, dtype=np.int32))
    return np.frombuffer(buffer, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)


def view_data(array: pa.Array) -> Bytes:
    """Return the bytes of a binary or string array, all of them, as its offsets count them."""
    data = array.buffers()[2]
    return NO_BYTES if data is None else np.frombuffer(data, dtype=np.uint8)


def pack_bits(values: NDArray[Any]) -> pa.Buffer:
    """Return truth values as Arrow's bits."""
    return pa.py_buffer(np.packbits(values.astype(np.uint8), bitorder="little"))


Int64s = NDArray[np.int64]

_SMALL_SPAN = 1 << 16


def find_distinct(values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different values in ascending order, and for each row its place among them.

    Values that lie close together, as times of one topic do, are not sorted: a table is filled.
    """
    if len(values) == 0:
        return values, np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= max(4 * len(values), _SMALL_SPAN):
        found, places = np.unique(values, return_inverse=True)
        return found, places.astype(np.int64, copy=False)
    steps = values - low
    present = np.zeros(high - low + 1, np.bool_)
    present[steps] = True
    places = np.cumsum(present, dtype=np.int64) - 1
    return np.flatnonzero(present) + low, places[steps]


def join_codes(
    first: Int64s, first_paths: Sequence[str], second: Int64s, second_paths: Sequence[str]
) -> tuple[Int64s, list[str]]:
    """Put the second path under the first one; only combinations that occur are made."""
    pairs, codes = find_distinct(first * len(second_paths) + second)
    joined = [
        f"{first_paths[pair // len(second_paths)]}/{second_paths[pair % len(second_paths)]}"
        for pair in pairs.tolist()
    ]
    return merge_equal(codes, joined)


def merge_equal(codes: Int64s, paths: list[str]) -> tuple[Int64s, list[str]]:
    """Return the same with each path once: a path that stood twice would be two directories."""
    places: dict[str, int] = {}
    renamed = [places.setdefault(path, len(places)) for path in paths]
    if len(places) == len(paths):
        return codes, paths
    return np.array(renamed, np.int64)[codes], list(places)


def true_rows(mask: pa.BooleanArray) -> Int64s:
    """Return the rows where a mask is true."""
    return numbers(pc.indices_nonzero(mask), np.int64)


def codes_of(encoded: pa.DictionaryArray) -> Int64s:
    """Return the place of each row in the dictionary."""
    return numbers(encoded.indices, np.int32)


def numbers(array: pa.Array, stored: type[np.integer]) -> Int64s:
    """Return whole numbers, stored in that type, as int64; where null, any number."""
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(len(array), np.int64)
    values: NDArray[np.integer] = np.frombuffer(buffer, stored)
    return values[array.offset :][: len(array)].astype(np.int64)


def binary_scalar(value: bytes) -> pa.BinaryScalar:
    """Return bytes as Arrow's own value."""
    ends = np.array([0, len(value)], np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(value)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]


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


def binary_array(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Return the values as one array; RecordError when they are 2 GiB or more."""
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise RecordError(f"{offsets[-1]} bytes do not fit into one column")
    data = b"".join(value for value in values if value is not None)
    present = np.array([value is not None for value in values], dtype=bool)
    valid = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, offsets.astype(np.int32), data)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
