"""Arrow's binary arrays as kernels see them: bytes, offsets and validity; and back again."""

# Compiled code has one integer type; mypy tells numpy's from Python's.
# mypy: disable-error-code="assignment"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, Int64s, copy_bytes, inlined, kernel, view_bytes

_NOTHING = view_bytes(b"")
MAX_COLUMN_BYTES = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, slots=True)
class BinaryView:
    """Buffers of a binary or string array, which may be a slice of a longer one; no copy.

    ``offsets`` begin with the first row of the array. ``valid`` is Arrow's bitmap, empty when
    nothing is null, in which bit ``first`` is that of the first row.
    """

    data: Bytes
    offsets: NDArray[np.int32]
    valid: Bytes
    first: int

    def __len__(self) -> int:
        return len(self.offsets) - 1


def view_binary(values: pa.Array) -> BinaryView:
    """Return the buffers of an array of type binary or string."""
    valid, offsets, data = values.buffers()
    rows, first = len(values), values.offset
    if rows == 0:
        return BinaryView(_NOTHING, np.zeros(1, dtype=np.int32), _NOTHING, 0)
    numbers = np.frombuffer(offsets, dtype=np.int32, count=rows + 1, offset=first * 4)
    numbers.flags.writeable = False
    bits = _NOTHING if valid is None or values.null_count == 0 else view_bytes(valid)
    return BinaryView(_NOTHING if data is None else view_bytes(data), numbers, bits, first)


def binary_array(
    data: Bytes, offsets: NDArray[np.int32], valid: Bytes | None, kind: pa.DataType | None = None
) -> pa.Array:
    """Return an array made of buffers that kernels have filled; ``valid`` begins with row 0."""
    bits = None if valid is None else pa.py_buffer(valid)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), len(offsets) - 1, buffers)


def number_array(kind: pa.DataType, values: NDArray[np.generic]) -> pa.Array:
    """Return numbers as an array without nulls; pa.array would import pandas."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def bitmap(flags: NDArray[np.bool_]) -> pa.Buffer | None:
    """Return Arrow's validity of ``flags``, None when all are set."""
    if bool(flags.all()):
        return None
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


@inlined
def is_valid(valid: Bytes, at: int) -> bool:
    """Tell whether the row with bit ``at`` is there."""
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
    """Return every value followed by ``separator``, in one array of bytes; nulls are left out."""
    view = view_binary(values)
    size = _joined_size(view.offsets, view.valid, view.first, len(separator))
    out = np.empty(size, dtype=np.uint8)
    _join(view.data, view.offsets, view.valid, view.first, view_bytes(separator), out)
    return out


def join_lines(texts: pa.Array) -> Bytes:
    r"""Return every text followed by ``\n``; nulls are left out."""
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

    Raises OverflowError at 2 GiB.
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
