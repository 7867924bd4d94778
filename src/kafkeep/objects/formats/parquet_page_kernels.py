"""Loops that fill the pages of whole records: values as they are, levels, and growing numbers."""

# Compiled code has one integer type; mypy tells numpy's from Python's.
# mypy: disable-error-code="arg-type,assignment,operator,return-value"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, Int64s, copy_bytes, inlined, kernel, write_varlong

_BLOCK, _MINIBLOCK = 128, 32
_RUN = 8
"""So many equal levels are a run of their own; fewer are packed, eight at a time."""


@inlined
def _write_size(out: Bytes, at: int, size: int) -> int:
    """Write the length in front of a value; return where the value begins."""
    # A place without a sign is not looked at for being negative: the four become one store.
    place = np.uint64(at)
    out[place] = np.uint8(size & 0xFF)
    out[place + np.uint64(1)] = np.uint8((size >> 8) & 0xFF)
    out[place + np.uint64(2)] = np.uint8((size >> 16) & 0xFF)
    out[place + np.uint64(3)] = np.uint8((size >> 24) & 0xFF)
    return at + 4


@inlined
def _write_varint(out: Bytes, at: int, number: int) -> int:
    """Write 64 bits as a number that is not negative; return what follows."""
    while number & ~0x7F:
        out[at] = np.uint8((number & 0x7F) | 0x80)
        number = (number >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    out[at] = np.uint8(number)
    return at + 1


@kernel
def fill_values(  # noqa: PLR0917
    offsets: NDArray[np.int32],
    data: Bytes,
    valid: Bytes,
    row: int,
    stop: int,
    out: Bytes,
    at: int,
    limit: int,
) -> tuple[int, int]:
    """Write the rows that end within ``limit``; return the first that does not, and the end.

    ``valid`` is empty when no value is null; nulls take no room.
    """
    while row < stop:
        if len(valid) == 0 or valid[row] != 0:
            start = np.int64(offsets[row])
            size = np.int64(offsets[row + 1]) - start
            if at + 4 + size > limit:
                break
            at = _write_size(out, at, size)
            copy_bytes(out, at, data, start, size)
            at += size
        row += 1
    return row, at


@inlined
def _size_of_items(offsets: NDArray[np.int32], valid: Bytes, first: int, last: int) -> int:
    size = np.int64(0)
    for i in range(first, last):
        if len(valid) == 0 or valid[i] != 0:
            size += 4 + np.int64(offsets[i + 1]) - np.int64(offsets[i])
    return size


@kernel
def fill_items(  # noqa: PLR0917
    lists: NDArray[np.int32],
    offsets: NDArray[np.int32],
    data: Bytes,
    valid: Bytes,
    row: int,
    out: Bytes,
    at: int,
    limit: int,
    repeats: Bytes,
    defined: Bytes,
    present: int,
) -> tuple[int, int, int]:
    """Write the lists that fit, and their levels; return the next row, the end, and the levels.

    ``lists`` tells where the items of each row begin, ``offsets`` the bytes of each item after
    those of the first row's first. ``present`` is the level of an item that is there.
    """
    levels, base = np.int64(0), np.int64(lists[0])
    while row < len(lists) - 1:
        first, last = np.int64(lists[row]) - base, np.int64(lists[row + 1]) - base
        size = _size_of_items(offsets, valid, first, last)
        if at + size > limit or levels + max(last - first, 1) > len(defined):
            break
        if first == last:
            repeats[levels] = defined[levels] = np.uint8(0)
            levels += 1
        for i in range(first, last):
            there = len(valid) == 0 or valid[i] != 0
            repeats[levels] = np.uint8(i > first)
            defined[levels] = np.uint8(present if there else present - 1)
            levels += 1
            if there:
                start = np.int64(offsets[i])
                size = np.int64(offsets[i + 1]) - start
                at = _write_size(out, at, size)
                copy_bytes(out, at, data, start, size)
                at += size
        row += 1
    return row, at, levels


@inlined
def _count_equal(levels: Bytes, first: int) -> int:
    last = first + 1
    while last < len(levels) and levels[last] == levels[first]:
        last += 1
    return last - first


@kernel
def encode_levels(levels: Bytes, width: int, out: Bytes) -> int:
    """Write levels of so many bits as runs and packed groups; return how many bytes.

    Levels that are all equal are one run, however few.
    """
    at = first = np.int64(0)
    while first < len(levels):
        equal = _count_equal(levels, first)
        if equal >= _RUN or first + equal == len(levels):
            at = _write_varint(out, at, equal << 1)
            out[at] = levels[first]
            at += 1
            first += equal
            continue
        last = first + _RUN
        while last < len(levels) and _count_equal(levels, last) < _RUN:
            last += _RUN
        groups = (last - first) // _RUN
        at = _write_varint(out, at, (groups << 1) | 1)
        for group in range(groups):
            packed = np.int64(0)
            for i in range(_RUN):
                place = first + _RUN * group + i
                if place < len(levels):
                    packed |= np.int64(levels[place]) << (width * i)
            for i in range(width):
                out[at + i] = np.uint8((packed >> (8 * i)) & 0xFF)
            at += width
        first = last
    return at


@inlined
def _width(numbers: Int64s) -> int:
    """Return how many bits the largest needs; they count as numbers without a sign."""
    bits = np.int64(0)
    for i in range(len(numbers)):
        bits |= numbers[i]
    width, rest = np.int64(0), np.uint64(bits)
    while rest:
        rest >>= np.uint64(1)
        width += 1
    return width


@inlined
def _pack(numbers: Int64s, width: int, out: Bytes, at: int) -> int:
    """Write numbers of so many bits, the lowest first; return what follows."""
    if width == 0:
        return at
    held, bits = np.uint64(0), np.int64(0)
    for i in range(len(numbers)):
        number = np.uint64(numbers[i])
        held |= number << np.uint64(bits)
        bits += width
        if bits >= 64:
            for k in range(8):
                out[at + k] = np.uint8((held >> np.uint64(8 * k)) & np.uint64(0xFF))
            at += 8
            bits -= 64
            # What of the number did not fit; a shift by all of its bits is not defined.
            held = number >> np.uint64(width - bits) if bits > 0 else np.uint64(0)
    while bits > 0:
        out[at] = np.uint8(held & np.uint64(0xFF))
        held >>= np.uint64(8)
        bits -= 8
        at += 1
    return at


@kernel
def encode_deltas(numbers: Int64s, out: Bytes) -> int:
    """Write numbers as DELTA_BINARY_PACKED; return how many bytes. Differences wrap around."""
    at = _write_varint(out, np.int64(0), _BLOCK)
    at = _write_varint(out, at, _BLOCK // _MINIBLOCK)
    at = _write_varint(out, at, len(numbers))
    at = write_varlong(out, at, numbers[0])
    deltas = np.empty(_BLOCK, dtype=np.int64)
    for first in range(1, len(numbers), _BLOCK):
        here, before = numbers[first : first + _BLOCK], numbers[first - 1 :]
        for i in range(len(here)):
            deltas[i] = here[i] - before[i]
        least = deltas[0]
        for i in range(len(here)):
            least = min(least, deltas[i])
        for i in range(_BLOCK):
            deltas[i] = deltas[i] - least if i < len(here) else 0
        at = write_varlong(out, at, least)
        widths = at
        at += _BLOCK // _MINIBLOCK
        for block in range(_BLOCK // _MINIBLOCK):
            mini = deltas[_MINIBLOCK * block : _MINIBLOCK * (block + 1)]
            width = _width(mini)
            out[widths + block] = np.uint8(width)
            at = _pack(mini, width, out, at)
    return at


@kernel
def all_equal(offsets: NDArray[np.int32], data: Bytes) -> bool:
    """Say whether all values of a column of bytes, at least one, are the same."""
    starts, ends = offsets[:-1], offsets[1:]
    size, other = ends[0] - starts[0], np.int32(0)
    for row in range(len(ends)):
        other |= (ends[row] - starts[row]) ^ size
    if other != 0:
        return False
    left, right = data[starts[0] : starts[-1]], data[ends[0] : ends[-1]]
    differ = np.uint8(0)
    for i in range(len(left)):
        differ |= left[i] ^ right[i]
    return bool(differ == 0)
