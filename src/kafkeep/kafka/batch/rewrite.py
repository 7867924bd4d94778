"""Prepare stored batches for producing: unchanged where possible, else re-encoded."""

# mypy: disable-error-code="return-value"

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch.compression import DEFAULT_LIMIT_BYTES, compress
from kafkeep.kafka.batch.layout import CODEC_MASK, CRC_START, HEADER_BYTES, TimestampType, crc32c
from kafkeep.kafka.batch.scan import Batches
from kafkeep.kafka.batch.unpack import RecordFields, iter_unpacked, walk_records
from kafkeep.numba_setup import Bytes, Int64s, copy_bytes, kernel, varlong_size, write_varlong

TARGET_BYTES = 1 << 20

# A batch is small below this share of the target. Compressed batches hold more records than their
# size suggests, and merging them costs far more.
_PLAIN_SHARE = 8
_PACKED_SHARE = 16


@dataclass(frozen=True, slots=True, eq=False)
class ReadyBatch:
    """One batch that a broker accepts after ``stamp``: base offset 0, no holes, CreateTime.

    ``first_offset`` and ``last_offset`` (inclusive) are the source offsets of its records.
    ``offsets`` lists all of them if some in between are missing, else it is None.
    """

    body: bytearray
    records: int
    first_offset: int
    last_offset: int
    offsets: Int64s | None = None

    @property
    def dense(self) -> bool:
        """True if the source had a record at each offset from first to last."""
        return self.offsets is None


def stamp(body: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Write producer id, epoch, sequence and checksum into ``body``. Repeatable."""
    struct.pack_into(">qhi", body, 43, producer_id, producer_epoch, base_sequence)
    struct.pack_into(">I", body, 17, crc32c(memoryview(body)[CRC_START:]))


def regroup(
    chunks: Iterable[Batches],
    *,
    range: OffsetRange,
    skip_records: int = 0,
    target_bytes: int = TARGET_BYTES,
    max_batch_bytes: int,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Iterator[ReadyBatch]:
    """Yield the records of ``range`` after the first ``skip_records``, each once and in order.

    Large batches without holes get a new header. All others (small, with holes, cut by the range,
    with LogAppendTime) are re-encoded and merged up to ``target_bytes``. Consumers see the same
    keys, values, headers and timestamps. A batch is larger than ``max_batch_bytes`` only if it is
    one record. The caller has checked the checksums and removed aborted batches, because control
    batches are dropped. Runs on executors; memory is bounded by one chunk and one batch.
    """
    regrouping = _Regrouping(
        range, skip_records, min(target_bytes, max_batch_bytes), max_batch_bytes, limit_bytes
    )
    for chunk in chunks:
        yield from regrouping.add(chunk)
    yield from regrouping.merger.flush()


def _pass_through(batches: Batches, i: int) -> ReadyBatch:
    body = bytearray(batches.slice_bytes(i, i + 1))
    struct.pack_into(">q", body, 0, 0)
    struct.pack_into(">i", body, 12, -1)
    struct.pack_into(">h", body, 21, int(batches.attributes[i]) & CODEC_MASK)
    struct.pack_into(">qhi", body, 43, -1, -1, -1)
    return ReadyBatch(
        body,
        int(batches.record_counts[i]),
        int(batches.base_offsets[i]),
        int(batches.last_offsets[i]),
    )


class _Regrouping:
    """The state of a regrouping: the records to skip, and the batch that is being merged."""

    def __init__(
        self, range: OffsetRange, skip: int, target: int, largest: int, limit: int
    ) -> None:
        self.range = range
        self.skip = skip
        self.target = target
        self.largest = largest
        self.limit = limit
        self.merger = BatchMerger(target, largest)

    def add(self, chunk: Batches) -> Iterator[ReadyBatch]:
        batches = self._skip_whole(self._wanted(chunk))
        while self.skip and len(batches):  # the skip or the range cuts the first one
            yield from self._merge(batches.select(slice(0, 1)))
            batches = self._skip_whole(batches.select(slice(1, None)))
        passes = self._passes(batches)
        edges = np.flatnonzero(np.diff(batches.codec * 2 + passes)) + 1
        for i, j in pairwise([0, *edges.tolist(), len(batches)]):
            if i < j and not passes[i]:
                yield from self._merge(batches.select(slice(i, j)))
            for k in np.flatnonzero(passes[i:j]).tolist():
                yield from self.merger.flush()
                yield _pass_through(batches, i + k)

    def _wanted(self, batches: Batches) -> Batches:
        outside = (batches.last_offsets < self.range.start) | (
            batches.base_offsets >= self.range.end
        )
        drop = outside | batches.is_control | (batches.record_counts == 0)
        return batches.select(~drop) if drop.any() else batches

    def _inside(self, batches: Batches) -> NDArray[np.bool_]:
        return (batches.base_offsets >= self.range.start) & (batches.last_offsets < self.range.end)

    def _skip_whole(self, batches: Batches) -> Batches:
        """Drop leading batches that are skipped entirely."""
        if not self.skip:
            return batches
        counts = np.where(self._inside(batches), batches.record_counts, self.skip + 1)
        whole = int(np.searchsorted(np.cumsum(counts), self.skip, side="right"))
        self.skip -= int(counts[:whole].sum())
        return batches.select(slice(whole, None))

    def _passes(self, batches: Batches) -> NDArray[np.bool_]:
        shares = np.where(batches.codec, _PACKED_SHARE, _PLAIN_SHARE)
        passes: NDArray[np.bool_] = (
            batches.is_dense
            & self._inside(batches)
            & (batches.timestamp_type == TimestampType.CREATE)
            & ~batches.has_delete_horizon
            & (batches.sizes * shares >= self.target)
            & (batches.sizes <= self.largest)
        )
        return passes

    def _merge(self, batches: Batches) -> Iterator[ReadyBatch]:
        codec = int(batches.codec[0])
        if codec != self.merger.codec:
            yield from self.merger.flush()
            self.merger.start(codec)
        for part in iter_unpacked(batches, limit_bytes=self.limit):
            records = walk_records(part, self.range)
            skipped = min(self.skip, len(records))
            self.skip -= skipped
            yield from self.merger.add(records.select(slice(skipped, None)))


@kernel
def _append(  # noqa: PLR0917
    out: Bytes,
    state: Int64s,
    buffer: Bytes,
    timestamps: Int64s,
    fields: Int64s,
    ends: Int64s,
    first: int,
) -> tuple[int, int]:
    """Append the encoded records from ``first`` on to ``out`` until one does not fit.

    ``state`` is position, count, base time, max time. Return the first record that did not fit, and
    its size in bytes.
    """
    position, count, base, latest = state[0], state[1], state[2], state[3]
    needed = np.int64(0)
    i = first
    while i < len(fields):
        if count == 0:
            base = latest = timestamps[i]
        delta = timestamps[i] - base  # wraps around, as the reader's addition does
        size = 1 + varlong_size(delta) + varlong_size(count) + ends[i] - fields[i]
        needed = varlong_size(size) + size
        if position + needed > len(out):
            break
        position = write_varlong(out, position, size)
        out[position] = 0
        position = write_varlong(out, position + 1, delta)
        position = write_varlong(out, position, count)
        copy_bytes(out, position, buffer, fields[i], ends[i] - fields[i])
        position += ends[i] - fields[i]
        latest = max(latest, timestamps[i])
        count += 1
        i += 1
    state[0], state[1], state[2], state[3] = position, count, base, latest
    return i, needed


class BatchMerger:
    """A batch that is being built, with one codec and at most ``target`` bytes uncompressed."""

    def __init__(self, target: int, largest: int) -> None:
        self.codec = 0
        self._target = target
        self._largest = largest
        self._room = max(target, HEADER_BYTES)
        self._out: Bytes = np.empty(self._room, dtype=np.uint8)
        self._state: Int64s = np.array([HEADER_BYTES, 0, 0, 0], dtype=np.int64)
        self._offsets: list[Int64s] = []

    @property
    def waits(self) -> bool:
        """True if ``flush`` would yield a batch."""
        return bool(self._offsets)

    def start(self, codec: int) -> None:
        """Continue with another codec; call only after ``flush``."""
        self.codec = codec
        # Incompressible data grows a little.
        spare = self._largest // 32 + 64 if codec else 0
        self._room = max(min(self._target, self._largest - spare), HEADER_BYTES)
        self._out = np.empty(self._room, dtype=np.uint8)

    def add(self, records: RecordFields) -> Iterator[ReadyBatch]:
        """Add the records; yield each batch that is full."""
        first = 0
        while first < len(records):
            left, needed = self._append(records, first)
            if left > first:
                self._offsets.append(records.offsets[first:left])
            if left < len(records) and not self._offsets:
                # One record larger than the target: a batch of its own.
                self._out = np.empty(HEADER_BYTES + int(needed), dtype=np.uint8)
            elif left < len(records):
                yield from self.flush()
            first = left

    def _append(self, records: RecordFields, first: int) -> tuple[int, int]:
        return _append(
            self._out,
            self._state,
            records.buffer,
            records.timestamps,
            records.fields,
            records.ends,
            first,
        )

    def flush(self) -> Iterator[ReadyBatch]:
        """Yield the last batch, if there is one."""
        if not self._offsets:
            return
        position, count, base, latest = self._state.tolist()
        offsets = np.concatenate(self._offsets)
        records = compress(self.codec, self._out[HEADER_BYTES:position])
        body = bytearray(HEADER_BYTES + len(records))
        body[HEADER_BYTES:] = memoryview(records)
        struct.pack_into(">qiibI", body, 0, 0, len(body) - 12, -1, 2, 0)
        struct.pack_into(">hiqq", body, CRC_START, self.codec, count - 1, base, latest)
        struct.pack_into(">qhii", body, 43, -1, -1, -1, count)
        first, last = int(offsets[0]), int(offsets[-1])
        self._state[:] = (HEADER_BYTES, 0, 0, 0)
        self._offsets = []
        if len(self._out) != self._room:
            self._out = np.empty(self._room, dtype=np.uint8)
        yield ReadyBatch(body, count, first, last, None if last - first + 1 == count else offsets)
