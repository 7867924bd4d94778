"""Compiled kernels that write columns in Avro's binary form: first sizes, then bytes; pure.

Each kernel takes ``codes`` with one code for each row. If ``codes`` is empty, all rows have
``code``. SKIP writes nothing. NULL writes the branch of null. TAGGED writes the branch of the value
and the value. PLAIN writes only the value. A place is the position of a row's next byte, and every
kernel advances it.
"""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's.
# mypy: disable-error-code="return-value,arg-type,assignment"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import (
    Bytes,
    Int64s,
    copy_bytes,
    inlined,
    kernel,
    varlong_size,
    write_varlong,
)

SKIP = 0
NULL = 1
TAGGED = 2
PLAIN = 3


@inlined
def _code(codes: Bytes, code: int, row: int) -> int:
    return np.int64(codes[row]) if len(codes) else code


@inlined
def _tag(out: Bytes, place: int, code: int, null_byte: int, value_byte: int) -> int:
    if code == NULL:
        out[place] = np.uint8(null_byte)
        return place + 1
    if code == TAGGED:
        out[place] = np.uint8(value_byte)
        return place + 1
    return place


@kernel
def size_tags(codes: Bytes, code: int, sizes: Int64s) -> None:
    """Add the sizes of the union branches of structs and lists."""
    for row in range(len(sizes)):
        found = _code(codes, code, row)
        if found in (NULL, TAGGED):
            sizes[row] += 1


@kernel
def write_tags(  # noqa: PLR0917
    out: Bytes, places: Int64s, codes: Bytes, code: int, null_byte: int, value_byte: int
) -> None:
    """Write the union branches of structs."""
    for row in range(len(places)):
        places[row] = _tag(out, places[row], _code(codes, code, row), null_byte, value_byte)


@kernel
def size_numbers(values: Int64s, codes: Bytes, code: int, sizes: Int64s) -> None:
    """Add the sizes of numbers."""
    for row in range(len(sizes)):
        found = _code(codes, code, row)
        if found >= TAGGED:
            sizes[row] += varlong_size(values[row])
        if found in (NULL, TAGGED):
            sizes[row] += 1


@kernel
def write_numbers(  # noqa: PLR0917
    out: Bytes,
    places: Int64s,
    values: Int64s,
    codes: Bytes,
    code: int,
    null_byte: int,
    value_byte: int,
) -> None:
    for row in range(len(places)):
        found = _code(codes, code, row)
        place = _tag(out, places[row], found, null_byte, value_byte)
        places[row] = write_varlong(out, place, values[row]) if found >= TAGGED else place


@kernel
def size_bytes(offsets: NDArray[np.int32], codes: Bytes, code: int, sizes: Int64s) -> None:
    """Add the sizes of length-prefixed bytes."""
    for row in range(len(sizes)):
        found = _code(codes, code, row)
        if found >= TAGGED:
            length = np.int64(offsets[row + 1]) - np.int64(offsets[row])
            sizes[row] += varlong_size(length) + length
        if found in (NULL, TAGGED):
            sizes[row] += 1


@kernel
def write_bytes(  # noqa: PLR0917
    out: Bytes,
    places: Int64s,
    offsets: NDArray[np.int32],
    data: Bytes,
    codes: Bytes,
    code: int,
    null_byte: int,
    value_byte: int,
) -> None:
    """Write length-prefixed bytes."""
    for row in range(len(places)):
        found = _code(codes, code, row)
        place = _tag(out, places[row], found, null_byte, value_byte)
        if found >= TAGGED:
            start = np.int64(offsets[row])
            length = np.int64(offsets[row + 1]) - start
            place = write_varlong(out, place, length)
            copy_bytes(out, place, data, start, length)
            place += length
        places[row] = place


@kernel
def size_fixed(width: int, codes: Bytes, code: int, sizes: Int64s) -> None:
    """Add the sizes of fixed-width values."""
    for row in range(len(sizes)):
        found = _code(codes, code, row)
        if found >= TAGGED:
            sizes[row] += width
        if found in (NULL, TAGGED):
            sizes[row] += 1


@kernel
def write_fixed(  # noqa: PLR0917
    out: Bytes,
    places: Int64s,
    data: Bytes,
    width: int,
    codes: Bytes,
    code: int,
    null_byte: int,
    value_byte: int,
) -> None:
    """Write fixed-width values, which are contiguous in ``data``."""
    for row in range(len(places)):
        found = _code(codes, code, row)
        place = _tag(out, places[row], found, null_byte, value_byte)
        if found >= TAGGED:
            for i in range(width):
                out[place + i] = data[row * width + i]
            place += width
        places[row] = place


@kernel
def size_lists(
    offsets: NDArray[np.int32], item_ends: Int64s, codes: Bytes, code: int, sizes: Int64s
) -> None:
    """Add the sizes of lists.

    ``item_ends`` are the cumulative sizes of the items, starting at 0.
    """
    for row in range(len(sizes)):
        found = _code(codes, code, row)
        if found >= TAGGED:
            first, last = np.int64(offsets[row]), np.int64(offsets[row + 1])
            if last > first:
                sizes[row] += varlong_size(last - first)
                sizes[row] += item_ends[last] - item_ends[first]
            sizes[row] += 1
        if found in (NULL, TAGGED):
            sizes[row] += 1


@kernel
def write_lists(  # noqa: PLR0917
    out: Bytes,
    places: Int64s,
    offsets: NDArray[np.int32],
    item_ends: Int64s,
    item_places: Int64s,
    first_item: int,
    codes: Bytes,
    code: int,
    null_byte: int,
    value_byte: int,
) -> None:
    """Write the counts and end marks of lists, and set the places of their items.

    The item places start with the item ``first_item``.
    """
    for row in range(len(places)):
        found = _code(codes, code, row)
        place = _tag(out, places[row], found, null_byte, value_byte)
        if found >= TAGGED:
            first, last = np.int64(offsets[row]), np.int64(offsets[row + 1])
            if last > first:
                place = write_varlong(out, place, last - first)
                for item in range(first, last):
                    item_places[item - first_item] = place + item_ends[item] - item_ends[first]
                place += item_ends[last] - item_ends[first]
            out[place] = 0
            place += 1
        places[row] = place


@kernel
def mark_items(offsets: NDArray[np.int32], codes: Bytes, active: Bytes) -> None:
    """Set ``active`` for the items of the lists that are written."""
    for row in range(len(codes)):
        if codes[row] >= TAGGED:
            for item in range(np.int64(offsets[row]), np.int64(offsets[row + 1])):
                active[item] = 1
