"""CRC32C of record batches: one buffer, or many batches in one call."""
# mypy: disable-error-code="return-value"

from __future__ import annotations

from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, Int64s, kernel, view_bytes

LARGE_BYTES = 1024
"""From this size on a call of the hardware routine beats the table loop."""


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
    """Return the CRC32C of any bytes-like thing."""
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
    """Return the index of a stretch whose CRC32C is not the wanted one, or None."""
    large = ends - starts >= LARGE_BYTES
    for i in np.flatnonzero(large).tolist():
        if google_crc32c.value(buffer[starts[i] : ends[i]]) != wanted[i]:
            return int(i)
    small = np.flatnonzero(~large)
    if len(small) == 0:
        return None
    bad = _first_bad(buffer, starts[small], ends[small], wanted[small], _TABLES)
    return int(small[bad]) if bad >= 0 else None
