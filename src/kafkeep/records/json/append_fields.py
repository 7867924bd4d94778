"""Append fields to JSON objects as text with a compiled kernel; pure."""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's.
# mypy: disable-error-code="return-value, arg-type"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, Int64s, copy_bytes, kernel, view_bytes
from kafkeep.records.arrow import bitmap, number_array, valid_flags

NULL = -1
ODD = -2
"""Code for texts that the kernel skips: not an object, an escaped key, or a name that exists."""


@dataclass(frozen=True, slots=True)
class AppendedField:
    """A field to append: ``head`` is ``"name":``, followed by the value if ``numbers`` is None."""

    name: bytes
    head: bytes
    numbers: NDArray[np.int64] | None = None
    valid: NDArray[np.bool_] | None = None
    """The records that get the field, or None for all."""


@kernel
def _string_end(data: Bytes, at: int, stop: int) -> tuple[int, bool]:
    """Return the position after the string that opens at ``at``, and whether it has escapes."""
    escaped = False
    at += 1
    while at < stop and data[at] != 34:
        if data[at] == 92:
            escaped = True
            at += 1
        at += 1
    return at + 1, escaped


@kernel
def _is_one_of(data: Bytes, start: int, stop: int, names: Bytes, bounds: Int64s) -> bool:
    for i in range(len(bounds) - 1):
        if bounds[i + 1] - bounds[i] != stop - start:
            continue
        same = True
        for j in range(stop - start):
            if data[start + j] != names[bounds[i] + j]:
                same = False
                break
        if same:
            return True
    return False


@kernel
def _trim(data: Bytes, start: int, stop: int) -> tuple[int, int]:
    while start < stop and data[start] <= 32:
        start += 1
    while stop > start and data[stop - 1] <= 32:
        stop -= 1
    return start, stop


@kernel
def _find_end(data: Bytes, start: int, stop: int, names: Bytes, bounds: Int64s) -> tuple[int, bool]:
    """Return the position of the closing brace or a code, and whether the object has members."""
    start, stop = _trim(data, start, stop)
    if stop - start == 4 and data[start] == 110:
        return NULL, False
    if stop - start < 2 or data[start] != 123 or data[stop - 1] != 125:
        return ODD, False
    depth, is_key, members = 0, False, False
    at = start
    while at < stop:
        byte = data[at]
        if byte == 34:
            following, escaped = _string_end(data, at, stop)
            if following > stop:
                return ODD, False
            if is_key and depth == 1:
                if escaped or _is_one_of(data, at + 1, following - 1, names, bounds):
                    return ODD, True
                members, is_key = True, False
            at = following
            continue
        if byte == 123 or byte == 91:  # noqa: PLR1714
            depth += 1
            is_key = depth == 1
        elif byte == 125 or byte == 93:  # noqa: PLR1714
            depth -= 1
        elif byte == 44 and depth == 1:
            is_key = True
        at += 1
    return stop - 1, members


@kernel
def _measure(  # noqa: PLR0917
    data: Bytes,
    offsets: NDArray[np.int32],
    valid: NDArray[np.bool_],
    names: Bytes,
    name_bounds: Int64s,
    tail_sizes: Int64s,
    ends: Int64s,
    members: NDArray[np.bool_],
    sizes: Int64s,
) -> bool:
    """Find the end and the new size of each object; return whether any text is ODD."""
    odd = False
    for row in range(len(ends)):
        ends[row] = NULL
        if not valid[row]:
            continue
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        sizes[row] = stop - start
        end, some = _find_end(data, start, stop, names, name_bounds)
        ends[row], members[row] = end, some
        odd |= end == ODD
        if end >= 0 and tail_sizes[row] > 0:
            sizes[row] += tail_sizes[row] - (0 if some else 1)
    return odd


@kernel
def _fill(  # noqa: PLR0917
    data: Bytes,
    offsets: NDArray[np.int32],
    ends: Int64s,
    members: NDArray[np.bool_],
    heads: Bytes,
    head_bounds: Int64s,
    texts: Bytes,
    text_bounds: NDArray[np.int64],
    given: NDArray[np.bool_],
    target: Bytes,
    bounds: NDArray[np.int32],
) -> None:
    for row in range(len(ends)):
        at, start = np.int64(bounds[row]), np.int64(offsets[row])
        end = ends[row]
        if end < 0:
            copy_bytes(target, at, data, start, np.int64(bounds[row + 1]) - at)
            continue
        copy_bytes(target, at, data, start, end - start)
        at += end - start
        comma = members[row]
        for i in range(len(head_bounds) - 1):
            if not given[i, row]:
                continue
            if comma:
                target[at] = 44
                at += 1
            comma = True
            size = head_bounds[i + 1] - head_bounds[i]
            copy_bytes(target, at, heads, head_bounds[i], size)
            at += size
            size = text_bounds[i, row + 1] - text_bounds[i, row]
            copy_bytes(target, at, texts, text_bounds[i, row], size)
            at += size
        copy_bytes(target, at, data, end, np.int64(offsets[row + 1]) - end)


def _packed(parts: Sequence[bytes]) -> tuple[Bytes, Int64s]:
    sizes = [len(part) for part in parts]
    return view_bytes(b"".join(parts)), np.cumsum([0, *sizes], dtype=np.int64)


def _texts_of(tails: Sequence[AppendedField], rows: int) -> tuple[Bytes, NDArray[np.int64]]:
    """Return the numbers of all fields as digits in one buffer, and their bounds."""
    bounds = np.zeros((len(tails), rows + 1), dtype=np.int64)
    parts: list[Bytes] = []
    base = 0
    for i, tail in enumerate(tails):
        if tail.numbers is None:
            continue
        _, offsets, data = pc.cast(number_array(pa.int64(), tail.numbers), pa.string()).buffers()
        bounds[i] = np.frombuffer(offsets, dtype=np.int32)[: rows + 1] + np.int64(base)
        parts.append(np.frombuffer(data, dtype=np.uint8)[: bounds[i, rows] - base])
        base = int(bounds[i, rows])
    return view_bytes(np.concatenate([*parts, np.zeros(1, dtype=np.uint8)])), bounds


def append_fields(array: pa.BinaryArray, tails: Sequence[AppendedField]) -> pa.BinaryArray | None:
    """Append ``tails`` to each object; nulls and ``null`` are unchanged.

    Return None if the kernel cannot handle a text, or if the result would exceed 2 GiB.
    """
    rows = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[array.offset : array.offset + rows + 1]
    offsets.flags.writeable = False
    data = view_bytes(data_buffer if data_buffer is not None else b"")
    valid = valid_flags(array)
    texts, text_bounds = _texts_of(tails, rows)
    given = np.ones((len(tails), rows), dtype=np.bool_)
    for i, tail in enumerate(tails):
        if tail.valid is not None:
            given[i] = tail.valid
    heads, head_bounds = _packed([tail.head for tail in tails])
    names, name_bounds = _packed([tail.name for tail in tails])
    tail_sizes = ((np.diff(text_bounds) + np.diff(head_bounds)[:, None] + 1) * given).sum(axis=0)
    ends, sizes = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    members = np.zeros(rows, dtype=np.bool_)
    odd = _measure(data, offsets, valid, names, name_bounds, tail_sizes, ends, members, sizes)
    total = int(sizes.sum())
    if odd or total > np.iinfo(np.int32).max:
        return None
    bounds = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(sizes, out=bounds[1:])
    target = np.empty(total, dtype=np.uint8)
    _fill(
        data, offsets, ends, members, heads, head_bounds, texts, text_bounds, given, target, bounds
    )
    buffers = [bitmap(valid), pa.py_buffer(bounds), pa.py_buffer(target)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
