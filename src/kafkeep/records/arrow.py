"""Convert between Arrow and numpy arrays without copying and without importing pandas; pure.

``pa.array`` and ``to_numpy`` import pandas on the first call, which takes half a second. The code
that handles records avoids both. Views are read-only, so numba compiles each kernel for one array
type only. ``BinaryView`` holds the buffers of a binary array in the form kernels use: bytes,
offsets and validity. ``find_distinct`` returns the distinct values of an array and the index of
each row's value.
"""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's.
# mypy: disable-error-code="assignment"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.numba_setup import Bytes, Int64s, copy_bytes, inlined, kernel, view_bytes


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make the array read-only and return it."""
    array.flags.writeable = False
    return array


NO_BYTES: Bytes = frozen(np.empty(0, dtype=np.uint8))


def view_numbers(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Return the values of a fixed-width array; the values of nulls are undefined."""
    width = np.dtype(dtype).itemsize
    return np.frombuffer(
        array.buffers()[1] or b"", dtype=dtype, count=len(array), offset=array.offset * width
    )


def view_bits(array: pa.Array) -> Bytes:
    """Return the values of a boolean array, one byte each."""
    return _bits(array.buffers()[1], array.offset, len(array))


def view_valid(array: pa.Array) -> Bytes | None:
    """Return 1 for values and 0 for nulls, or None if no value is null."""
    if array.null_count == 0:
        return None
    if array.buffers()[0] is None:  # the array has Arrow's null type
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
    """Return the offsets of a binary, string, list or map array, including the final end offset."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return frozen(np.zeros(1, dtype=np.int32))
    return np.frombuffer(buffer, dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)


def view_data(array: pa.Array) -> Bytes:
    """Return the whole data buffer of a binary or string array; its offsets index this buffer."""
    data = array.buffers()[2]
    return NO_BYTES if data is None else np.frombuffer(data, dtype=np.uint8)


def pack_bits(values: NDArray[Any]) -> pa.Buffer:
    """Return the truth values as an Arrow bit buffer."""
    return pa.py_buffer(np.packbits(values.astype(np.uint8), bitorder="little"))


_SMALL_SPAN = 1 << 16


def find_distinct(values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct values in ascending order, and the index of each row's value among them.

    A narrow range of values, such as the timestamps of one topic, is not sorted. It is counted in a
    lookup table instead.
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


def true_rows(mask: pa.BooleanArray) -> Int64s:
    """Return the indices of the rows where the mask is true."""
    return numbers(pc.indices_nonzero(mask), np.int64)


def codes_of(encoded: pa.DictionaryArray) -> Int64s:
    """Return the dictionary index of each row."""
    return numbers(encoded.indices, np.int32)


def numbers(array: pa.Array, stored: type[np.integer]) -> Int64s:
    """Return the integers of an array, stored as type ``stored``, as int64; nulls are undefined."""
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(len(array), np.int64)
    values: NDArray[np.integer] = np.frombuffer(buffer, stored)
    return values[array.offset :][: len(array)].astype(np.int64)


def binary_scalar(value: bytes) -> pa.BinaryScalar:
    """Return the bytes as an Arrow scalar."""
    ends = np.array([0, len(value)], np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(value)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]


def number_array(
    kind: pa.DataType, values: NDArray[Any], valid: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return an array of type ``kind``; the values that are not ``valid`` become null."""
    data = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    bits = None if valid is None else bitmap(valid)
    return pa.Array.from_buffers(kind, len(data), [bits, pa.py_buffer(data)])


def bitmap(flags: NDArray[np.bool_]) -> pa.Buffer | None:
    """Return ``flags`` as an Arrow validity bitmap, or None if all are set."""
    if bool(flags.all()):
        return None
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def valid_flags(array: pa.Array) -> NDArray[np.bool_]:
    """Return for each value whether it is not null."""
    if array.null_count == 0:
        return np.ones(len(array), dtype=np.bool_)
    bits = array.is_valid()
    return bool_flags(bits)


def bool_flags(array: pa.BooleanArray) -> NDArray[np.bool_]:
    """Return the values of a boolean array that has no nulls."""
    packed = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    flags = np.unpackbits(packed, count=array.offset + len(array), bitorder="little")
    return flags[array.offset :].astype(np.bool_)


def constant_array(kind: pa.DataType, value: bytes, length: int) -> pa.Array:
    """Return an array that repeats the same bytes or text ``length`` times."""
    offsets = np.arange(length + 1, dtype=np.int32) * np.int32(len(value))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value * length)]
    return pa.Array.from_buffers(kind, length, buffers)


def list_array(kind: pa.DataType, offsets: NDArray[np.int64], values: pa.Array) -> pa.ListArray:
    """Return a list array over ``values``."""
    bounds = pa.py_buffer(np.ascontiguousarray(offsets, dtype=np.int32))
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, bounds], children=[values])


def run_bounds(codes: NDArray[Any]) -> list[tuple[int, int]]:
    """Return ``[start, stop)`` of each run of equal adjacent values."""
    if len(codes) == 0:
        return []
    cuts = (np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()
    return list(zip([0, *cuts], [*cuts, len(codes)], strict=True))


def binary_array(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Return the values as one array; raise RecordError if they take 2 GiB or more."""
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise RecordError(f"{offsets[-1]} bytes do not fit into one column")
    data = b"".join(value for value in values if value is not None)
    present = np.array([value is not None for value in values], dtype=bool)
    valid = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, offsets.astype(np.int32), data)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


MAX_COLUMN_BYTES = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, slots=True)
class BinaryView:
    """The buffers of a binary or string array or of a slice of one, without a copy.

    ``offsets`` start with the first row of the array. ``valid`` is Arrow's validity bitmap, or
    empty if nothing is null. Bit ``first`` of ``valid`` belongs to the first row.
    """

    data: Bytes
    offsets: NDArray[np.int32]
    valid: Bytes
    first: int

    def __len__(self) -> int:
        return len(self.offsets) - 1


def view_binary(values: pa.Array) -> BinaryView:
    """Return the buffers of a binary or string array."""
    valid, offsets, data = values.buffers()
    rows, first = len(values), values.offset
    if rows == 0:
        return BinaryView(NO_BYTES, np.zeros(1, dtype=np.int32), NO_BYTES, 0)
    numbers = np.frombuffer(offsets, dtype=np.int32, count=rows + 1, offset=first * 4)
    numbers.flags.writeable = False
    bits = NO_BYTES if valid is None or values.null_count == 0 else view_bytes(valid)
    return BinaryView(NO_BYTES if data is None else view_bytes(data), numbers, bits, first)


def binary_of_buffers(
    data: Bytes, offsets: NDArray[np.int32], valid: Bytes | None, kind: pa.DataType | None = None
) -> pa.Array:
    """Return an array over buffers that kernels filled; ``valid`` starts with row 0."""
    bits = None if valid is None else pa.py_buffer(valid)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), len(offsets) - 1, buffers)


@inlined
def is_valid(valid: Bytes, at: int) -> bool:
    """Return whether the row at bit ``at`` is not null."""
    return len(valid) == 0 or (valid[at >> 3] >> (at & 7)) & 1 == 1


@kernel
def _joined_size(offsets: NDArray[np.int32], valid: Bytes, first: int, extra: int) -> int:
    size = 0
    for row in range(len(offsets) - 1):
        if is_valid(valid, first + row):
            size += np.int64(offsets[row + 1]) - np.int64(offsets[row]) + extra
    return size


@kernel
def _join(  # noqa: PLR0917
    data: Bytes,
    offsets: NDArray[np.int32],
    valid: Bytes,
    first: int,
    separator: Bytes,
    out: Bytes,
) -> None:
    at, extra = 0, len(separator)
    for row in range(len(offsets) - 1):
        if not is_valid(valid, first + row):
            continue
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        copy_bytes(out, at, data, start, size)
        at += size
        if extra == 1:
            out[at] = separator[0]
        else:
            copy_bytes(out, at, separator, 0, extra)
        at += extra


def join_with(values: pa.Array, separator: bytes) -> Bytes:
    """Return the values that are not null, each followed by ``separator``, as one byte array."""
    view = view_binary(values)
    size = _joined_size(view.offsets, view.valid, view.first, len(separator))
    out = np.empty(size, dtype=np.uint8)
    _join(view.data, view.offsets, view.valid, view.first, view_bytes(separator), out)
    return out


def join_lines(texts: pa.Array) -> Bytes:
    r"""Return the texts that are not null, each followed by ``\n``, as one byte array."""
    return join_with(texts, b"\n")


@kernel
def _gather(data: Bytes, starts: Int64s, offsets: NDArray[np.int32], out: Bytes) -> None:
    for row in range(len(starts)):
        at = np.int64(offsets[row])
        copy_bytes(out, at, data, starts[row], np.int64(offsets[row + 1]) - at)


def gather(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    there: NDArray[np.bool_] | None = None,
    kind: pa.DataType | None = None,
) -> pa.Array:
    """Return copies of the spans ``[start, end)`` of ``data``; null where ``there`` is not set.

    Raise OverflowError if the copies exceed 2 GiB.
    """
    sizes = ends - starts if there is None else np.where(there, ends - starts, 0)
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > MAX_COLUMN_BYTES:
        raise OverflowError(f"{offsets[-1]} bytes do not fit into one Arrow column")
    narrow = offsets.astype(np.int32)
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    _gather(data, starts, narrow, out)
    bits = None if there is None else bitmap(there)
    buffers = [bits, pa.py_buffer(narrow), pa.py_buffer(out)]
    return pa.Array.from_buffers(kind or pa.binary(), len(starts), buffers)
