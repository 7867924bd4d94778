"""Where a segment object ends, from its last frame alone: its metadata may not tell."""

from __future__ import annotations

from kafkeep.archive.store import ObjectStore
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.kafka.batch import UnsupportedBatchError, check_crcs, scan_batches
from kafkeep.kafka.segment import FRAME_BYTES, MAX_FRAME_BYTES, unpack_frame

_MAGIC = b"\x28\xb5\x2f\xfd"
"""With this a zstd frame begins. Batches may hold such bytes too; those give no whole batches."""


def read_end(store: ObjectStore, key: str) -> int | None:
    """Return the offset after the last batch; None when the object does not end with whole ones."""
    try:
        size, wanted = store.head(key).size_bytes, FRAME_BYTES
        while True:
            begin = max(0, size - wanted)
            tail = store.get_range(key, begin, size)
            at = tail.rfind(_MAGIC)
            while at >= 0:
                if (end := _end_of(memoryview(tail)[at:])) is not None:
                    return end
                at = tail.rfind(_MAGIC, 0, at)
            if begin == 0 or wanted > MAX_FRAME_BYTES:
                return None
            wanted *= 8
    except KeyMissingError:
        return None  # removed since it was listed


def _end_of(frame: memoryview) -> int | None:
    try:
        raw = unpack_frame(frame)
        batches = scan_batches(raw, partial_tail=False)
        check_crcs(batches)
    except (DamagedError, UnsupportedBatchError):
        return None
    return int(batches.last_offsets[-1]) + 1 if len(batches) else None
