"""The layout of record batches (v2): sizes, positions, attribute bits, and the CRC32C.

``build_batch`` makes a batch from records in plain Python, for a few records at a time.
"""
# mypy: disable-error-code="return-value"

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from kafkeep.kafka.batch.compression import Codec, compress
from kafkeep.numba_setup import Bytes, Int64s, kernel, view_bytes, zigzag_varint

LARGE_BYTES = 1024
"""From this size on, the hardware routine is faster than the loop over tables."""


def _make_tables() -> NDArray[np.uint32]:
    tables = np.zeros((8, 256), dtype=np.uint32)
    for i in range(256):
        value = i
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, i] = value
    for k in range(1, 8):
        previous = tables[k - 1]
        tables[k] = (previous >> np.uint32(8)) ^ tables[0][previous & np.uint32(0xFF)]
    return tables


_TABLES = _make_tables()


def crc32c(buffer: Any) -> int:
    """Return the CRC32C of a bytes-like object."""
    return int(google_crc32c.value(view_bytes(buffer)))


@kernel
def _crc(buffer: Bytes, start: int, end: int, tables: NDArray[np.uint32]) -> int:
    crc = np.int64(0xFFFFFFFF)
    i = start
    while i + 8 <= end:
        crc ^= (
            np.int64(buffer[i])
            | (np.int64(buffer[i + 1]) << 8)
            | (np.int64(buffer[i + 2]) << 16)
            | (np.int64(buffer[i + 3]) << 24)
        )
        crc = np.int64(
            tables[7, crc & 0xFF]
            ^ tables[6, (crc >> 8) & 0xFF]
            ^ tables[5, (crc >> 16) & 0xFF]
            ^ tables[4, (crc >> 24) & 0xFF]
            ^ tables[3, buffer[i + 4]]
            ^ tables[2, buffer[i + 5]]
            ^ tables[1, buffer[i + 6]]
            ^ tables[0, buffer[i + 7]]
        )
        i += 8
    while i < end:
        crc = np.int64(tables[0, (crc ^ np.int64(buffer[i])) & 0xFF]) ^ (crc >> 8)
        i += 1
    return crc ^ 0xFFFFFFFF


@kernel
def _first_bad(
    buffer: Bytes, starts: Int64s, ends: Int64s, wanted: Int64s, tables: NDArray[np.uint32]
) -> int:
    for i in range(len(starts)):
        if _crc(buffer, starts[i], ends[i], tables) != wanted[i]:
            return i
    return -1


def find_bad_crc(buffer: Bytes, starts: Int64s, ends: Int64s, wanted: Int64s) -> int | None:
    """Return the index of the first range whose CRC32C differs from ``wanted``, or None."""
    large = ends - starts >= LARGE_BYTES
    for i in np.flatnonzero(large).tolist():
        if google_crc32c.value(buffer[starts[i] : ends[i]]) != wanted[i]:
            return int(i)
    small = np.flatnonzero(~large)
    if len(small) == 0:
        return None
    bad = _first_bad(buffer, starts[small], ends[small], wanted[small], _TABLES)
    return int(small[bad]) if bad >= 0 else None


HEADER_BYTES = 61
CRC_START = 21
"""The checksum covers everything from the attributes on."""
MIN_RECORD_BYTES = 7

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The base timestamp is when the cleaner may drop tombstones; deltas still count from it."""


class TimestampType(IntEnum):
    """Who set the time of a record: its producer, or the broker when it stored the batch."""

    CREATE = 0
    LOG_APPEND = 1


RESERVED_KEY = b"__kafkeep_hole"
"""The key of the tombstones with which an exact restore fills offsets without a record."""


_HEADER = struct.Struct(">hiqqqhii")


class Record(NamedTuple):
    """One record as consumers see it; ``timestamp`` is Kafka's, in ms, any int64."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def _varlong(value: int) -> bytes:
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)  # wraps around like Java's long
    return zigzag_varint(value)


def _sized(value: bytes | None) -> bytes:
    return _varlong(-1) if value is None else _varlong(len(value)) + value


def _encode(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    body = bytearray(b"\0")
    body += _varlong(record.timestamp - base_timestamp)
    body += _varlong(record.offset - base_offset)
    body += _sized(record.key)
    body += _sized(record.value)
    body += _varlong(len(record.headers))
    for key, value in record.headers:
        body += _sized(key)
        body += _sized(value)
    return _varlong(len(body)) + bytes(body)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    attributes: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Return one batch with its checksum, holding ``records`` in this order.

    Base and last offset are those of the first and last record unless given: compaction leaves
    batches whose header spans more than their records. ``attributes`` adds bits.
    """
    first = base_offset if base_offset is not None else (records[0].offset if records else 0)
    last = last_offset if last_offset is not None else (records[-1].offset if records else first)
    times = [record.timestamp for record in records] or [-1]
    base_time = times[0] if base_timestamp is None else base_timestamp
    body = b"".join(_encode(record, first, base_time) for record in records)
    bits = attributes | codec | (LOG_APPEND_TIME if timestamp_type else 0)
    checked = _HEADER.pack(
        bits,
        last - first,
        base_time,
        max(times) if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    ) + bytes(compress(codec, body))
    size = len(checked) + CRC_START - 12
    return struct.pack(">qiibI", first, size, leader_epoch, 2, crc32c(checked)) + checked
