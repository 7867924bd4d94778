"""Compiled kernels that split valid JSON texts into the members of objects and arrays; pure.

If a text is invalid, its members are missing. The kernels never read outside a text.
"""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's. ``in`` would
# compile to a loop.
# mypy: disable-error-code="return-value,assignment,arg-type,no-any-return"
# ruff: noqa: PLR1714

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, Int64s, address_of, byte_at, inlined, kernel
from kafkeep.records.arrow import is_valid
from kafkeep.records.json.scan import same_bytes, skip_space, skip_string

MISSING, NULL, FALSE, TRUE, NUMBER, STRING, OBJECT, ARRAY = range(8)


@inlined
def _kind_of(byte: int) -> int:
    if byte == 0x22:
        return STRING
    if byte == 0x7B:
        return OBJECT
    if byte == 0x5B:
        return ARRAY
    if byte == 0x74:
        return TRUE
    if byte == 0x66:
        return FALSE
    return NULL if byte == 0x6E else NUMBER


@kernel
def _skip_nested(at: int, end: int, limit: int) -> int:
    """Return the address after the object or array at ``at``, or -1 if it is not closed."""
    depth = 0
    while at < end:
        byte = byte_at(at)
        at += 1
        if byte == 0x22:
            at = skip_string(at, end, limit)
            if at < 0:
                return -1
        elif byte | 0x20 == 0x7B:
            depth += 1
        elif byte | 0x20 == 0x7D:
            depth -= 1
            if depth == 0:
                return at
    return -1


@inlined
def _skip_value(at: int, end: int, limit: int) -> int:
    """Return the address after the value at ``at``, or -1 if it is not closed."""
    byte = byte_at(at)
    if byte == 0x22:
        return skip_string(at + 1, end, limit)
    if byte | 0x20 == 0x7B:
        return _skip_nested(at, end, limit)
    while at < end:
        byte = byte_at(at)
        if byte <= 0x20 or byte == 0x2C or byte == 0x7D or byte == 0x5D:
            break
        at += 1
    return at


@inlined
def _next_start(at: int, end: int) -> int:
    """Skip white space, commas and colons between members; return -1 at the end."""
    while at < end:
        byte = byte_at(at)
        if byte > 0x20 and byte != 0x2C and byte != 0x3A:
            return -1 if byte == 0x7D or byte == 0x5D else at
        at += 1
    return -1


@inlined
def _next_member(at: int, end: int, limit: int, keyed: bool) -> tuple[int, int, int, int]:
    """Return the start and end of the key and of the value of the member after ``at``.

    The end of the value is where the search for the next member starts. It is -1 if there are no
    more members.
    """
    at = _next_start(at, end)
    key, key_end = at, at
    if keyed and at >= 0:
        key_end = skip_string(at + 1, end, limit) if byte_at(at) == 0x22 else -1
        at = _next_start(key_end, end) if key_end >= 0 else -1
    value_end = _skip_value(at, end, limit) if at >= 0 else -1
    return key, key_end, at, value_end if value_end > at else -1


@inlined
def _hex(at: int) -> int:
    """Return the value of the four hex digits of an escape."""
    value = np.int64(0)
    for i in range(at, at + 4):
        byte = byte_at(i)
        value = (value << 4) | ((byte & 15) + 9 if byte > 0x39 else byte & 15)
    return value


@kernel
def read_escape(at: int, end: int) -> tuple[int, int]:
    """Return the code point of the escape at ``at`` in a valid string, and the address after it."""
    if at + 1 >= end:
        return np.int64(0xFFFD), end
    byte = byte_at(at + 1)
    if byte == 0x75 and at + 6 <= end:
        code = _hex(at + 2)
        pair = 0xD800 <= code < 0xDC00 and at + 12 <= end
        if pair and byte_at(at + 6) == 0x5C and byte_at(at + 7) == 0x75:
            low = _hex(at + 8)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), at + 12
        return code, at + 6
    if byte == 0x6E:
        byte = np.int64(0x0A)
    elif byte == 0x74:
        byte = np.int64(0x09)
    elif byte == 0x72:
        byte = np.int64(0x0D)
    elif byte == 0x62:
        byte = np.int64(0x08)
    elif byte == 0x66:
        byte = np.int64(0x0C)
    return byte, at + 2


@inlined
def utf8_byte(code: int, i: int) -> int:
    """Return byte ``i`` of a code point in UTF-8, or -1.

    Encode surrogates like other code points.
    """
    if code < 0x80:
        return code if i == 0 else -1
    size = 2 if code < 0x800 else 3 if code < 0x10000 else 4
    if i >= size:
        return -1
    part = code >> (6 * (size - 1 - i))
    if i > 0:
        return 0x80 | (part & 0x3F)
    return part | (0xC0 if size == 2 else 0xE0 if size == 3 else 0xF0)


@kernel
def _equals_escaped(at: int, end: int, wanted: int, wanted_end: int) -> bool:
    """Return whether the content of a string equals a text in UTF-8 with ``surrogatepass``."""
    while at < end:
        byte = byte_at(at)
        if byte != 0x5C:
            if wanted >= wanted_end or byte_at(wanted) != byte:
                return False
            wanted += 1
            at += 1
            continue
        code, at = read_escape(at, end)
        for i in range(4):
            part = utf8_byte(code, i)
            if part < 0:
                break
            if wanted >= wanted_end or byte_at(wanted) != part:
                return False
            wanted += 1
    return wanted == wanted_end


@inlined
def _equals(at: int, end: int, wanted: int, wanted_end: int) -> bool:
    """Return whether the content of a string equals a text in UTF-8."""
    if end - at < wanted_end - wanted:
        return False
    for i in range(wanted_end - wanted):
        byte = byte_at(at + i)
        if byte == 0x5C:
            return _equals_escaped(at, end, wanted, wanted_end)
        if byte != byte_at(wanted + i):
            return False
    return end - at == wanted_end - wanted or _equals_escaped(at, end, wanted, wanted_end)


@kernel
def mark_changes(
    data: Bytes, starts: Int64s, ends: Int64s, kinds: Bytes, changed: NDArray[np.bool_]
) -> None:
    """Mark each text that differs from the previous one; missing values are skipped."""
    base, last = address_of(data), -1
    for row in range(len(starts)):
        if kinds[row] == MISSING:
            continue
        size = ends[row] - starts[row]
        changed[row] = (
            last < 0
            or ends[last] - starts[last] != size
            or not same_bytes(base + starts[last], base + starts[row], size)
        )
        last = row


@kernel
def find_documents(  # noqa: PLR0917
    data: Bytes,
    offsets: NDArray[np.int32],
    valid: Bytes,
    first: int,
    starts: Int64s,
    ends: Int64s,
    kinds: Bytes,
) -> None:
    """Find the document of each row, without the white space around it."""
    base = address_of(data)
    for row in range(len(starts)):
        end = base + offsets[row + 1]
        at, _ = skip_space(base + offsets[row], end, 0)
        if at >= end or not is_valid(valid, first + row):
            continue
        while end > at + 1 and byte_at(end - 1) <= 0x20:
            end -= 1
        starts[row], ends[row], kinds[row] = at - base, end - base, _kind_of(byte_at(at))


@kernel
def split_objects(  # noqa: PLR0917
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    kinds: Bytes,
    names: Bytes,
    name_offsets: Int64s,
    field_starts: NDArray[np.int64],
    field_ends: NDArray[np.int64],
    field_kinds: NDArray[np.uint8],
) -> None:
    """Find the members with the given names; try the name after the last match first."""
    base, words = address_of(data), address_of(names)
    limit, count = base + len(data), len(name_offsets) - 1
    for row in range(len(starts)):
        if kinds[row] != OBJECT:
            continue
        end = base + ends[row]
        at, likely = base + starts[row] + 1, 0
        while True:
            key, key_end, value, at = _next_member(at, end, limit, True)
            if at < 0:
                break
            for i in range(count):
                field = likely + i if likely + i < count else likely + i - count
                word, word_end = words + name_offsets[field], words + name_offsets[field + 1]
                if _equals(key + 1, key_end - 1, word, word_end):
                    field_starts[field, row], field_ends[field, row] = value - base, at - base
                    field_kinds[field, row] = _kind_of(byte_at(value))
                    likely = field + 1 if field + 1 < count else 0
                    break


@kernel
def count_members(data: Bytes, starts: Int64s, ends: Int64s, kinds: Bytes, counts: Int64s) -> None:
    base = address_of(data)
    limit = base + len(data)
    for row in range(len(starts)):
        if kinds[row] < OBJECT:
            continue
        at, end = base + starts[row] + 1, base + ends[row]
        while True:
            _, _, _, at = _next_member(at, end, limit, kinds[row] == OBJECT)
            if at < 0:
                break
            counts[row] += 1


@kernel
def split_members(  # noqa: PLR0917
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    kinds: Bytes,
    offsets: Int64s,
    key_starts: Int64s,
    key_ends: Int64s,
    key_kinds: Bytes,
    value_starts: Int64s,
    value_ends: Int64s,
    value_kinds: Bytes,
) -> None:
    """Find the members of objects and arrays; ``offsets`` limits the number for each row."""
    base = address_of(data)
    limit = base + len(data)
    for row in range(len(starts)):
        if kinds[row] < OBJECT:
            continue
        keyed = kinds[row] == OBJECT
        at, end = base + starts[row] + 1, base + ends[row]
        for i in range(offsets[row], offsets[row + 1]):
            key, key_end, value, at = _next_member(at, end, limit, keyed)
            if at < 0:
                break
            if keyed:
                key_starts[i], key_ends[i], key_kinds[i] = key - base, key_end - base, STRING
            value_starts[i], value_ends[i] = value - base, at - base
            value_kinds[i] = _kind_of(byte_at(value))
