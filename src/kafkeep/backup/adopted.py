"""Read back an object that a dead attempt left, so that the log can know it as its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import zstandard

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.archive.readings import Readings
from kafkeep.archive.store import ObjectStore
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch import check_crcs, min_timestamps, scan_batches
from kafkeep.kafka.records import decode

FEED_BYTES = 64 * 1024


def read_adopted(
    store: ObjectStore,
    key: str,
    planned: PlannedRange,
    start: int,
    aborted: tuple[OffsetRange, ...],
) -> Entry:
    """Describe the object at ``key`` from its own bytes; every CRC is checked.

    Its range ends with its last batch: what follows is read again, so nothing is assumed.
    """
    readings = Readings(key)
    while True:
        data = store.get(key)
        try:
            return _describe(data, key, planned, start, aborted)
        except DamagedError:
            if readings.lies_so(data):
                raise


def _describe(
    data: bytes, key: str, planned: PlannedRange, start: int, aborted: tuple[OffsetRange, ...]
) -> Entry:
    index: list[IndexPoint] = []
    records = raw_bytes = outside = 0
    end = start
    for position, raw in _iter_frames(data, key):
        batches = scan_batches(raw)
        if batches.consumed != len(raw) or not len(batches):
            raise DamagedError(f"{key}: a frame does not hold whole record batches")
        check_crcs(batches)
        low, high = int(min_timestamps(batches).min()), int(batches.max_timestamps.max())
        index.append(IndexPoint(int(batches.base_offsets[0]), position, records, low, high))
        if not raw_bytes and int(batches.base_offsets[0]) < start:
            first = batches.select(slice(0, 1))
            outside = decode(first, range=OffsetRange(0, start)).num_rows
        records += int(batches.record_counts.sum())
        raw_bytes += len(raw)
        end = int(batches.last_offsets[-1]) + 1
    if not index:
        raise DamagedError(f"{key}: the object is empty")
    return Entry(
        key=key,
        partition_id=planned.partition_id,
        topic_id=planned.topic_id,
        range=OffsetRange(start, end),
        records=records - outside,
        min_timestamp=min(point.min_timestamp for point in index),
        max_timestamp=max(point.max_timestamp for point in index),
        size_bytes=len(data),
        raw_bytes=raw_bytes,
        format="segment",
        codec="zstd",
        sha256=hashlib.sha256(data).hexdigest(),
        index=tuple(index),
        aborted=aborted,
    )


def _iter_frames(data: bytes, key: str) -> Iterator[tuple[int, bytes]]:
    """Yield (position, unpacked bytes) of each zstd frame."""
    view, position = memoryview(data), 0
    while position < len(view):
        frame = zstandard.ZstdDecompressor().decompressobj()
        pieces, fed = [], position
        try:
            while not frame.eof and fed < len(view):
                pieces.append(frame.decompress(view[fed : fed + FEED_BYTES]))
                fed = min(fed + FEED_BYTES, len(view))
        except zstandard.ZstdError as error:
            raise DamagedError(f"{key}: not a zstd frame at byte {position}") from error
        if not frame.eof:
            raise DamagedError(f"{key}: cut short after byte {position}")
        yield position, b"".join(pieces)
        position = fed - len(frame.unused_data)
