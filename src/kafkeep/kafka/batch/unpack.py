"""Decompress record batches, and locate their records with all lengths checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.compression import DEFAULT_LIMIT_BYTES, decompress
from kafkeep.kafka.batch.layout import CODEC_MASK, HEADER_BYTES, MIN_RECORD_BYTES
from kafkeep.numba_setup import (
    BAD_COUNT,
    BAD_LENGTH,
    BAD_OFFSET,
    BAD_VARINT,
    OK,
    Bytes,
    Int64s,
    damaged,
    fetch_ahead,
    inlined,
    kernel,
    read_varint,
    read_varlong,
    view_bytes,
)

if TYPE_CHECKING:
    from kafkeep.kafka.batch.scan import Batches


# mypy: disable-error-code="return-value,assignment"


# Indexes into ``totals``.
KEY_BYTES, VALUE_BYTES, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class RecordFields:
    """Records in order: row i has its fields at ``buffer[fields[i] : ends[i]]``.

    The fields are key, value and headers in wire format, with all lengths checked. Timestamps are
    those that consumers see (LogAppendTime if set). ``totals`` are the total bytes of each field.
    """

    buffer: Bytes
    offsets: Int64s
    timestamps: Int64s
    timestamp_types: Int64s
    fields: Int64s
    ends: Int64s
    totals: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def select(self, which: slice | NDArray[np.bool_] | Int64s) -> RecordFields:
        """Return some of the records, by slice, mask or indexes; ``totals`` remain those of all."""
        return RecordFields(
            self.buffer,
            self.offsets[which],
            self.timestamps[which],
            self.timestamp_types[which],
            self.fields[which],
            self.ends[which],
            self.totals,
        )


@inlined
def _skip_field(buffer: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the length of the field at ``at`` (-1 for null) and the next position, or -1."""
    length, at = read_varint(buffer, at, end)
    if at < 0 or length < -1:
        return np.int64(0), np.int64(-1)
    if length < 0:
        return length, at
    if at + length > end:
        return np.int64(0), np.int64(-1)
    return length, at + length


@inlined
def _check_fields(buffer: Bytes, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Check key, value and headers, which must end at ``end``.

    Return their sizes in the order of ``totals``; the first is -1 when they are damaged.
    """
    key, at = _skip_field(buffer, at, end)
    value = headers = names = texts = np.int64(0)
    if at >= 0:
        value, at = _skip_field(buffer, at, end)
    if at >= 0:
        headers, at = read_varint(buffer, at, end)
    if at < 0 or headers < 0 or headers > end - at:
        return np.int64(-1), value, headers, names, texts
    for _ in range(headers):
        length, at = _skip_field(buffer, at, end)
        if at < 0 or length < 0:
            return np.int64(-1), value, headers, names, texts
        names += length
        length, at = _skip_field(buffer, at, end)
        if at < 0:
            return np.int64(-1), value, headers, names, texts
        texts += max(length, 0)
    if at != end:
        return np.int64(-1), value, headers, names, texts
    return max(key, 0), max(value, 0), headers, names, texts


@kernel
def _walk(  # noqa: PLR0911, PLR0917
    buffer: Bytes,
    starts: Int64s,
    ends: Int64s,
    counts: Int64s,
    headers: Int64s,
    lowest: int,
    highest: int,
    out: Int64s,
    totals: Int64s,
) -> tuple[int, int, int, int]:
    """Fill ``out`` (offset, time, time type, fields, end) with the records in the range.

    ``headers`` has base offset, last offset, base time, max time and time type of each batch.
    Return the number of records, an error code, and the batch and position where it occurred.
    """
    found = 0
    keys = values = counted = names = texts = np.int64(0)
    for i in range(len(starts)):
        at, end = starts[i], ends[i]
        fetched = at
        for _ in range(counts[i]):
            fetched = fetch_ahead(buffer, at, fetched)
            length, at = read_varint(buffer, at, end)
            if at < 0:
                return found, BAD_VARINT, i, starts[i]
            if length < 6 or at + length > end:
                return found, BAD_LENGTH, i, at
            stop = at + length
            time_delta, at = read_varlong(buffer, at + 1, stop)
            if at < 0:
                return found, BAD_VARINT, i, stop - length
            offset_delta, at = read_varint(buffer, at, stop)
            if at < 0:
                return found, BAD_VARINT, i, stop - length
            offset = headers[0, i] + offset_delta
            if offset_delta < 0 or offset > headers[1, i]:
                return found, BAD_OFFSET, i, stop - length
            key, value, count, name, text = _check_fields(buffer, at, stop)
            if key < 0:
                return found, BAD_LENGTH, i, stop - length
            if lowest <= offset < highest:
                keys += key
                values += value
                counted += count
                names += name
                texts += text
                out[0, found] = offset
                out[1, found] = headers[3, i] if headers[4, i] else headers[2, i] + time_delta
                out[2, found] = headers[4, i]
                out[3, found] = at
                out[4, found] = stop
                found += 1
            at = stop
        if counts[i] > 0 and at != end:
            return found, BAD_COUNT, i, at
    totals[KEY_BYTES], totals[VALUE_BYTES], totals[HEADERS] = keys, values, counted
    totals[HEADER_KEY_BYTES], totals[HEADER_VALUE_BYTES] = names, texts
    return found, OK, 0, 0


def walk_records(part: UnpackedBatches, range: OffsetRange | None = None) -> RecordFields:
    """Find the records of ``part`` inside ``range``; DamagedError when they cannot be read."""
    batches = part.batches
    headers = np.stack(
        (
            batches.base_offsets,
            batches.last_offsets,
            batches.base_timestamps,
            batches.max_timestamps,
            batches.timestamp_type,
        )
    )
    out = np.empty((5, int(part.counts.sum())), dtype=np.int64)
    totals = np.zeros(5, dtype=np.int64)
    lowest, highest = (range.start, range.end) if range is not None else (0, np.iinfo(np.int64).max)
    found, code, i, at = _walk(
        part.buffer,
        part.starts,
        part.ends,
        part.counts,
        headers,
        lowest,
        highest,
        out,
        totals,
    )
    if code != OK:
        raise damaged(code, int(at), int(batches.base_offsets[i]))
    columns = out[:, :found]
    return RecordFields(
        part.buffer, columns[0], columns[1], columns[2], columns[3], columns[4], totals
    )


AREA_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class UnpackedBatches:
    """Consecutive batches, and the positions of their uncompressed records in ``buffer``.

    Row i of ``batches`` has ``counts[i]`` records at ``buffer[starts[i] : ends[i]]``; control
    batches count as having none. ``first`` is the index of the first batch in the input.
    """

    first: int
    batches: Batches
    buffer: Bytes
    starts: Int64s
    ends: Int64s
    counts: Int64s


def iter_unpacked(
    batches: Batches,
    *,
    max_bytes: int = AREA_BYTES,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Iterator[UnpackedBatches]:
    """Decompress batches in order, at most ``max_bytes`` of records at a time or one batch.

    DamagedError for a batch that decompresses to more than ``limit_bytes``. Uncompressed batches
    are not copied.
    """
    counts = np.where(batches.is_control, 0, batches.record_counts)
    packed = (batches.codec != 0) & (counts > 0)
    edges = np.flatnonzero(packed[1:] != packed[:-1]) + 1
    bounds = [0, *edges.tolist(), len(batches)]
    for i, j in pairwise(bounds):
        if i == j:
            continue
        if packed[i]:
            yield from _iter_packed(batches, counts, i, j, max_bytes, limit_bytes)
        else:
            yield from _iter_plain(batches, counts, i, j, max_bytes)


def _iter_plain(
    batches: Batches, counts: Int64s, first: int, last: int, max_bytes: int
) -> Iterator[UnpackedBatches]:
    filled = np.cumsum(batches.sizes[first:last])
    done = 0
    i = first
    while i < last:
        j = first + int(np.searchsorted(filled, done + max_bytes, side="right"))
        j = min(max(j, i + 1), last)
        part = batches.select(slice(i, j))
        starts = part.positions + HEADER_BYTES
        ends = part.positions + part.sizes
        yield UnpackedBatches(i, part, batches.buffer, starts, ends, counts[i:j])
        done = int(filled[j - first - 1])
        i = j


def _iter_packed(  # noqa: PLR0917
    batches: Batches, counts: Int64s, first: int, last: int, max_bytes: int, limit_bytes: int
) -> Iterator[UnpackedBatches]:
    parts: list[Bytes] = []
    filled = 0
    start = first
    for i in range(first, last):
        part = _unpack_one(batches, i, int(counts[i]), limit_bytes)
        if parts and filled + len(part) > max_bytes:
            yield _join(batches, counts, start, parts)
            parts, filled, start = [], 0, i
        parts.append(part)
        filled += len(part)
    yield _join(batches, counts, start, parts)


def _unpack_one(batches: Batches, i: int, count: int, limit_bytes: int) -> Bytes:
    position, offset = int(batches.positions[i]), int(batches.base_offsets[i])
    body = batches.buffer[position + HEADER_BYTES : position + int(batches.sizes[i])]
    try:
        part = view_bytes(
            decompress(int(batches.attributes[i]) & CODEC_MASK, body, limit_bytes=limit_bytes)
        )
    except DamagedError as error:
        raise DamagedError(
            f"record batch at offset {offset}, byte {position}: {error.message}"
        ) from error
    if count * MIN_RECORD_BYTES > len(part):
        raise damaged(BAD_COUNT, position, offset)
    return part


def _join(batches: Batches, counts: Int64s, first: int, parts: list[Bytes]) -> UnpackedBatches:
    last = first + len(parts)
    ends = np.cumsum(np.array([len(part) for part in parts], dtype=np.int64))
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    buffer = parts[0] if len(parts) == 1 else view_bytes(np.concatenate(parts))
    return UnpackedBatches(
        first, batches.select(slice(first, last)), buffer, starts, ends, counts[first:last]
    )
