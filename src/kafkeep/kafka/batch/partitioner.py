"""Kafka's default partitioner (murmur2 of the key) over the records of unpacked batches."""

from __future__ import annotations

import numpy as np

from kafkeep.kafka.batch.unpack import RecordFields
from kafkeep.numba_setup import Bytes, Int64s, kernel, read_varint

# Compiled code has one integer type; mypy distinguishes numpy's from Python's.
# mypy: disable-error-code="return-value"


_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


@kernel
def _murmur2(buffer: Bytes, at: int, length: int) -> int:
    found = np.int64(_SEED) ^ length
    for i in range(length // 4):
        place = at + 4 * i
        word = np.int64(buffer[place]) | np.int64(buffer[place + 1]) << 8
        word |= np.int64(buffer[place + 2]) << 16 | np.int64(buffer[place + 3]) << 24
        word = (word * _FACTOR) & _MASK
        word ^= word >> 24
        word = (word * _FACTOR) & _MASK
        found = (found * _FACTOR) & _MASK
        found ^= word
    rest = length % 4
    place = at + length - rest
    if rest == 3:
        found ^= np.int64(buffer[place + 2]) << 16
    if rest >= 2:
        found ^= np.int64(buffer[place + 1]) << 8
    if rest >= 1:
        found ^= np.int64(buffer[place])
        found = (found * _FACTOR) & _MASK
    found ^= found >> 13
    found = (found * _FACTOR) & _MASK
    return found ^ (found >> 15)


@kernel
def _deal(  # noqa: PLR0917
    buffer: Bytes, fields: Int64s, ends: Int64s, partitions: int, turn: int, out: Int64s
) -> int:
    """Fill ``out``; return the partition of the next record without a key."""
    for i in range(len(fields)):
        length, at = read_varint(buffer, fields[i], ends[i])
        if length < 0:
            out[i] = turn % partitions
            turn += 1
        else:
            out[i] = (_murmur2(buffer, at, length) & 0x7FFFFFFF) % partitions
    return turn


def deal(records: RecordFields, partitions: int, turn: int) -> tuple[Int64s, int]:
    """Return the partition of each record: by its key, or round-robin without a key.

    Also return the partition of the next record without a key.
    """
    out = np.empty(len(records), dtype=np.int64)
    following = _deal(records.buffer, records.fields, records.ends, partitions, turn, out)
    return out, int(following)
