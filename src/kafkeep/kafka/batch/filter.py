"""Filter records by their keys and headers, in compiled loops over unpacked batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kafkeep.kafka.batch.unpack import RecordFields
from kafkeep.numba_setup import Bytes, Int64s, inlined, kernel, read_varint
from kafkeep.options.restore import Condition

_ANY, _BEGINS, _EQUALS = 0, 1, 2


@inlined
def _same(buffer: Bytes, at: int, wanted: Bytes) -> bool:
    for i in range(len(wanted)):  # noqa: SIM110 - compiled
        if buffer[at + i] != wanted[i]:
            return False
    return True


@inlined
def _fits(buffer: Bytes, at: int, length: int, how: int, wanted: Bytes) -> bool:
    """Return whether the bytes at ``at`` match; a ``length`` of -1 means null."""
    if how == _EQUALS:
        return length == len(wanted) and _same(buffer, at, wanted)
    return length >= len(wanted) and _same(buffer, at, wanted)


@kernel
def _match_keys(  # noqa: PLR0917
    buffer: Bytes, fields: Int64s, ends: Int64s, how: int, wanted: Bytes, out: NDArray[np.bool_]
) -> None:
    for i in range(len(fields)):
        length, at = read_varint(buffer, fields[i], ends[i])
        out[i] = length >= 0 and _fits(buffer, at, length, how, wanted)


@kernel
def _match_headers(  # noqa: PLR0917
    buffer: Bytes,
    fields: Int64s,
    ends: Int64s,
    name: Bytes,
    how: int,
    wanted: Bytes,
    out: NDArray[np.bool_],
) -> None:
    for i in range(len(fields)):
        end = ends[i]
        length, at = read_varint(buffer, fields[i], end)
        length, at = read_varint(buffer, at + max(length, 0), end)
        headers, at = read_varint(buffer, at + max(length, 0), end)
        found = False
        for _ in range(headers):
            length, at = read_varint(buffer, at, end)
            named = _fits(buffer, at, length, _EQUALS, name)
            length, at = read_varint(buffer, at + length, end)
            if named and (how == _ANY or (length >= 0 and _fits(buffer, at, length, how, wanted))):
                found = True
                break
            at += max(length, 0)
        out[i] = found


def matching(records: RecordFields, conditions: Sequence[Condition]) -> NDArray[np.bool_]:
    """Return for each record whether all conditions hold. ``walk_records`` checked the lengths."""
    kept = np.ones(len(records), dtype=np.bool_)
    for condition in conditions:
        kept &= _match(records, condition) != condition.negated
    return kept


def _match(records: RecordFields, condition: Condition) -> NDArray[np.bool_]:
    found = np.empty(len(records), dtype=np.bool_)
    how = _ANY if condition.value is None else _BEGINS if condition.begins else _EQUALS
    wanted = _bytes(condition.value or b"")
    rows = (records.buffer, records.fields, records.ends)
    if condition.header is None:
        _match_keys(*rows, how, wanted, found)
    else:
        _match_headers(*rows, _bytes(condition.header.encode()), how, wanted, found)
    return found


def _bytes(value: bytes) -> Bytes:
    return np.frombuffer(value, dtype=np.uint8)
