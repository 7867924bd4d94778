"""Kafka's record batches (v2) in a buffer: find them, check them, describe them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkeep.errors import KafkeepError
from kafkeep.kafka.batch.compression import DEFAULT_LIMIT_BYTES
from kafkeep.kafka.batch.layout import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MIN_RECORD_BYTES,
    TRANSACTIONAL,
    TimestampType,
    find_bad_crc,
)
from kafkeep.kafka.batch.unpack import iter_unpacked
from kafkeep.numba_setup import (
    BAD_CODEC,
    BAD_COUNT,
    BAD_CRC,
    BAD_LENGTH,
    BAD_MAGIC,
    BAD_OFFSET,
    BAD_ORDER,
    BAD_VARINT,
    CUT_SHORT,
    OK,
    OLD_MAGIC,
    Bytes,
    Int64s,
    copy_bytes,
    damaged,
    fetch_ahead,
    kernel,
    read_i16,
    read_i32,
    read_i64,
    read_varint,
    read_varlong,
    view_bytes,
)

NO_RECORD = np.iinfo(np.int64).max
"""The result of ``min_timestamps`` for a batch without records."""


class UnsupportedBatchError(KafkeepError):
    """A topic holds messages in a format older than Kafka 0.11."""


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Record batches of one partition, in order, as arrays over the buffer that holds them.

    Row i is the batch at ``buffer[positions[i] : positions[i] + sizes[i]]``; the other columns
    are its header. ``last_offsets`` are inclusive. ``consumed`` counts the bytes of whole batches
    in the scanned buffer, ``select`` keeps it.
    """

    buffer: Bytes
    consumed: int
    positions: Int64s
    sizes: Int64s
    base_offsets: Int64s
    last_offsets: Int64s
    base_timestamps: Int64s
    max_timestamps: Int64s
    attributes: Int64s
    producer_ids: Int64s
    record_counts: Int64s
    leader_epochs: Int64s

    def __len__(self) -> int:
        return len(self.positions)

    def select(self, which: NDArray[np.bool_] | slice) -> Batches:
        """Return the batches that ``which`` (a mask or a slice) selects, over the same buffer."""
        columns = [getattr(self, field.name)[which] for field in fields(self)[2:]]
        return Batches(self.buffer, self.consumed, *columns)

    def slice_bytes(self, i: int, j: int) -> memoryview:
        """Return the bytes of batches ``i`` to ``j - 1`` without a copy; they must be adjacent."""
        if i >= j:
            return memoryview(b"")
        start, end = int(self.positions[i]), int(self.positions[j - 1] + self.sizes[j - 1])
        if end - start != int(self.sizes[i:j].sum()):
            raise ValueError(f"batches {i} to {j - 1} are not adjacent in their buffer")
        return self.buffer[start:end].data

    def packed(self, part: slice = slice(None)) -> memoryview:
        """Return the concatenated bytes of these batches; copied only if they are not adjacent."""
        positions, sizes = self.positions[part], self.sizes[part]
        total = int(sizes.sum())
        if total == 0:
            return memoryview(b"")
        start = int(positions[0])
        if int(positions[-1] + sizes[-1]) - start == total:
            return self.buffer[start : start + total].data
        out = np.empty(total, dtype=np.uint8)
        _gather(self.buffer, positions, sizes, out)
        return out.data

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Batches that hold a control record of the broker and no data."""
        return (self.attributes & CONTROL).astype(np.bool_)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        """Batches that belong to a transaction, including its markers."""
        return (self.attributes & TRANSACTIONAL).astype(np.bool_)

    @property
    def is_dense(self) -> NDArray[np.bool_]:
        """Batches that have a record at each of their offsets."""
        spans = self.last_offsets - self.base_offsets + 1
        return np.asarray(self.record_counts == spans, dtype=np.bool_)

    @property
    def has_delete_horizon(self) -> NDArray[np.bool_]:
        """Batches whose base timestamp is the time when the cleaner may drop their tombstones."""
        return (self.attributes & DELETE_HORIZON).astype(np.bool_)

    @property
    def codec(self) -> Int64s:
        """Compression codec of each batch: see ``compression.Codec``."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> Int64s:
        """``TimestampType`` of each batch."""
        return (self.attributes & LOG_APPEND_TIME) >> 3


@kernel
def _gather(buffer: Bytes, positions: Int64s, sizes: Int64s, out: Bytes) -> None:
    target = 0
    for i in range(len(positions)):
        copy_bytes(out, target, buffer, positions[i], sizes[i])
        target += sizes[i]


@kernel
def _check_header(buffer: Bytes, at: int, size: int) -> int:
    """Return the error code of the whole batch at ``at``."""
    if size < HEADER_BYTES:
        return BAD_LENGTH
    base_offset = read_i64(buffer, at)
    last_delta = read_i32(buffer, at + 23)
    if base_offset < 0 or last_delta < 0 or base_offset > 0x7FFFFFFFFFFFFFFE - last_delta:
        return BAD_OFFSET
    codec = read_i16(buffer, at + 21) & CODEC_MASK
    if codec > 4:
        return BAD_CODEC
    count = read_i32(buffer, at + 57)
    if count < 0 or count > last_delta + 1:
        return BAD_COUNT
    if codec == 0 and count * MIN_RECORD_BYTES > size - HEADER_BYTES:
        return BAD_COUNT
    return OK


@kernel
def _count_batches(buffer: Bytes) -> tuple[int, int, int]:  # noqa: PLR0911
    """Return the number of whole batches, their end, and the error code that stopped the count."""
    count, at, end = 0, 0, len(buffer)
    last_offset = -1
    while at < end:
        if at + 17 <= end:
            magic = buffer[at + 16]
            if magic < 2:
                return count, at, OLD_MAGIC
            if magic > 2:
                return count, at, BAD_MAGIC
        elif at + 12 > end:
            return count, at, CUT_SHORT
        size = read_i32(buffer, at + 8) + 12
        if size < HEADER_BYTES:
            return count, at, BAD_LENGTH
        if at + size > end:
            return count, at, CUT_SHORT
        code = _check_header(buffer, at, size)
        if code == OK and read_i64(buffer, at) <= last_offset:
            code = BAD_ORDER
        if code != OK:
            return count, at, code
        last_offset = read_i64(buffer, at) + read_i32(buffer, at + 23)
        at += size
        count += 1
    return count, at, OK


@kernel
def _read_headers(buffer: Bytes, columns: NDArray[np.int64]) -> None:
    at = 0
    for i in range(columns.shape[1]):
        size = read_i32(buffer, at + 8) + 12
        base_offset = read_i64(buffer, at)
        columns[0, i] = at
        columns[1, i] = size
        columns[2, i] = base_offset
        columns[3, i] = base_offset + read_i32(buffer, at + 23)
        columns[4, i] = read_i64(buffer, at + 27)
        columns[5, i] = read_i64(buffer, at + 35)
        columns[6, i] = read_i16(buffer, at + 21)
        columns[7, i] = read_i64(buffer, at + 43)
        columns[8, i] = read_i32(buffer, at + 57)
        columns[9, i] = read_i32(buffer, at + 12)
        at += size


def scan_batches(buffer: Any, *, partial_tail: bool = True) -> Batches:
    """Find the whole batches of one partition in ``buffer``; checksums are not checked.

    Headers are checked for consistency and offsets must ascend, because the checksum does not cover
    base offsets.

    A truncated last batch, as Fetch sends it, is skipped; with ``partial_tail`` false it is damage.
    DamagedError, or UnsupportedBatchError for messages of format v0 and v1.
    """
    view = view_bytes(buffer)
    count, consumed, code = _count_batches(view)
    if code == OLD_MAGIC:
        raise UnsupportedBatchError(
            f"topic holds message format v{int(view[consumed + 16])} at byte {consumed}",
            hint="Kafka 0.11 and newer write v2. Convert the topic, for example by mirroring it, "
            "and back up the copy.",
        )
    if code != OK and not (code == CUT_SHORT and partial_tail):
        offset = read_i64(view, consumed) if consumed + 8 <= len(view) else -1
        raise damaged(code, consumed, int(offset))
    columns = np.empty((10, count), dtype=np.int64)
    _read_headers(view, columns)
    return Batches(view, int(consumed), *columns)


@kernel
def _read_crcs(buffer: Bytes, positions: Int64s) -> Int64s:
    crcs = np.empty(len(positions), dtype=np.int64)
    for i in range(len(positions)):
        crcs[i] = read_i32(buffer, positions[i] + 17) & 0xFFFFFFFF
    return crcs


def check_crcs(batches: Batches) -> None:
    """Raise DamagedError, naming the base offset, unless every checksum matches."""
    positions = batches.positions
    wanted = _read_crcs(batches.buffer, positions)
    bad = find_bad_crc(batches.buffer, positions + CRC_START, positions + batches.sizes, wanted)
    if bad is not None:
        raise damaged(BAD_CRC, int(positions[bad]), int(batches.base_offsets[bad]))


@kernel
def _min_deltas(  # noqa: PLR0917
    buffer: Bytes, starts: Int64s, ends: Int64s, counts: Int64s, base: Int64s, out: Int64s
) -> tuple[int, int, int]:
    """Fill ``out`` with the smallest time of each batch.

    Return an error code, and the batch and the position in ``buffer`` where it occurred.
    """
    for i in range(len(starts)):
        at, end = starts[i], ends[i]
        smallest = NO_RECORD
        fetched = at
        for _ in range(counts[i]):
            fetched = fetch_ahead(buffer, at, fetched)
            length, at = read_varint(buffer, at, end)
            if at < 0:
                return BAD_VARINT, i, starts[i]
            if length < MIN_RECORD_BYTES - 1 or at + length > end:
                return BAD_LENGTH, i, at
            delta, following = read_varlong(buffer, at + 1, at + length)
            if following < 0:
                return BAD_VARINT, i, at
            smallest = min(smallest, base[i] + delta)
            at += length
        if at != end and counts[i] > 0:
            return BAD_COUNT, i, at
        out[i] = smallest
    return OK, 0, 0


def min_timestamps(batches: Batches, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Int64s:
    """Return the smallest timestamp of each batch; headers contain only the largest.

    ``NO_RECORD`` for control batches and for batches that compaction emptied. DamagedError for a
    batch that decompresses to more than ``limit_bytes``.
    """
    smallest = np.full(len(batches), NO_RECORD, dtype=np.int64)
    holds = ~batches.is_control & (batches.record_counts > 0)
    appended = holds & (batches.timestamp_type == TimestampType.LOG_APPEND)
    smallest[appended] = batches.max_timestamps[appended]
    wanted = np.flatnonzero(holds & ~appended)
    if len(wanted) == 0:
        return smallest
    created = batches if len(wanted) == len(batches) else batches.select(holds & ~appended)
    for part in iter_unpacked(created, limit_bytes=limit_bytes):
        found = np.full(len(part.batches), NO_RECORD, dtype=np.int64)
        base = part.batches.base_timestamps
        code, i, at = _min_deltas(part.buffer, part.starts, part.ends, part.counts, base, found)
        if code != OK:
            raise damaged(code, int(at), int(part.batches.base_offsets[i]))
        smallest[wanted[part.first : part.first + len(found)]] = found
    return smallest
