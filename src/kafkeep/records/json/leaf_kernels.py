"""Compiled kernels that read strings, integers and base64 from JSON texts into Arrow buffers.

Pure.
"""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's. ``in`` would
# compile to a loop.
# mypy: disable-error-code="return-value,assignment,arg-type,no-any-return"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, Int64s, address_of, copy_bytes, kernel, view_bytes
from kafkeep.records.json.members import NUMBER, STRING, read_escape, utf8_byte

_MAX_DIGITS = 19
_SIX_BITS = np.full(256, 255, dtype=np.uint8)
for _i, _byte in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _SIX_BITS[_byte] = _i
SIX_BITS = view_bytes(_SIX_BITS)
"""The value of each base64 letter, or 255 for other bytes."""


@kernel
def read_ints(  # noqa: PLR0917
    data: Bytes, starts: Int64s, ends: Int64s, kinds: Bytes, out: Int64s, odd: NDArray[np.bool_]
) -> int:
    """Read plain int64 integers; mark and count all other numbers."""
    count = 0
    for row in range(len(starts)):
        if kinds[row] != NUMBER:
            continue
        at, end = starts[row], ends[row]
        negative = data[at] == 0x2D
        if negative:
            at += 1
        value = np.uint64(0)
        good = 0 < end - at <= _MAX_DIGITS
        for i in range(at, min(end, at + _MAX_DIGITS)):
            digit = np.uint64(data[i]) - np.uint64(0x30)
            if digit > np.uint64(9):
                good = False
                break
            value = value * np.uint64(10) + digit
        if good and value <= np.uint64(0x7FFFFFFFFFFFFFFF):
            out[row] = -np.int64(value) if negative else np.int64(value)
        else:
            odd[row] = True
            count += 1
    return count


@kernel
def count_escapes(data: Bytes, starts: Int64s, ends: Int64s, kinds: Bytes) -> int:
    """Return the number of backslashes in strings."""
    count = 0
    for row in range(len(starts)):
        if kinds[row] == STRING:
            for i in range(starts[row], ends[row]):
                count += data[i] == 0x5C
    return count


@kernel
def read_strings(  # noqa: PLR0917
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    kinds: Bytes,
    offsets: NDArray[np.int32],
    out: Bytes,
    lone: NDArray[np.bool_],
) -> None:
    """Write strings without quotes and escapes; ``out`` must hold the escaped strings.

    UTF-8 cannot represent a lone surrogate. Its row is marked, and U+FFFD is written instead.
    """
    base, at = address_of(data), np.int64(0)
    for row in range(len(starts)):
        if kinds[row] == STRING:
            i, end = starts[row] + 1, ends[row] - 1
            while i < end:
                if data[i] != 0x5C:
                    out[at] = data[i]
                    at += 1
                    i += 1
                    continue
                code, after = read_escape(base + i, base + end)
                i = after - base
                if 0xD800 <= code < 0xE000:
                    lone[row] = True
                    code = np.int64(0xFFFD)
                for part in range(4):
                    byte = utf8_byte(code, part)
                    if byte >= 0:
                        out[at] = byte
                        at += 1
        offsets[row + 1] = at


@kernel
def read_base64(  # noqa: PLR0917
    data: Bytes,
    offsets: NDArray[np.int32],
    six_bits: Bytes,
    out_offsets: NDArray[np.int32],
    out: Bytes,
    bad: NDArray[np.bool_],
) -> None:
    """Decode base64 with or without padding, and mark invalid rows."""
    at = np.int64(0)
    for row in range(len(offsets) - 1):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        for _ in range(2):
            if end > start and data[end - 1] == 0x3D:
                end -= 1
        bits, held, wrong = np.int64(0), np.int64(0), (end - start) % 4 == 1
        for i in range(start, end):
            six = np.int64(six_bits[data[i]])
            wrong |= six == 255
            bits = ((bits << 6) | (six & 63)) & 0xFFFFFF
            held += 6
            if held >= 8:
                held -= 8
                out[at] = (bits >> held) & 0xFF
                at += 1
        bad[row] = wrong
        out_offsets[row + 1] = at


@kernel
def copy_strings(  # noqa: PLR0917
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    kinds: Bytes,
    offsets: NDArray[np.int32],
    out: Bytes,
) -> None:
    """Write strings that contain no escapes, without their quotes."""
    at = np.int64(0)
    for row in range(len(starts)):
        if kinds[row] == STRING:
            size = ends[row] - starts[row] - 2
            copy_bytes(out, at, data, starts[row] + 1, size)
            at += size
        offsets[row + 1] = at
