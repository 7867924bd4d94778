"""Numbers of the record batch's format (v2): sizes, positions, attribute bits."""

from __future__ import annotations

from enum import IntEnum

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
"""The key of tombstones that an exact restore puts where there was no record."""
