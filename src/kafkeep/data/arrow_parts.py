"""The buffers of Arrow arrays as numpy arrays without a copy, slices taken into account.

All are read-only, so that each kernel is compiled for one type only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.kernel import Bytes


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
