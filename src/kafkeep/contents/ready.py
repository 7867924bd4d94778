"""Records made into batches that a broker takes. In tasks.

For records that were no batches when they were stored: segments have a faster way.
"""

# Compiled code has one integer type; mypy tells numpy's from Python's.
# mypy: disable-error-code="return-value,assignment,arg-type"

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.data.arrow_parts import frozen, view_numbers, view_offsets
from kafkeep.data.json_arrow import is_valid, view_binary
from kafkeep.kafka.layout import CRC_START, HEADER_BYTES
from kafkeep.kafka.rewrite import TARGET_BYTES, ReadyBatch
from kafkeep.kernel import Bytes, Int64s, copy_bytes, inlined, kernel, varlong_size, write_varlong

Texts: TypeAlias = tuple[Bytes, NDArray[np.int32], Bytes, int]
"""Data, offsets, validity and the bit of the first row, as ``BinaryView`` has them."""


@inlined
def _size(texts: Texts, row: int) -> int:
    """Return how many bytes a value takes with its length in front; null is the length alone."""
    _, offsets, valid, first = texts
    if not is_valid(valid, first + row):
        return np.int64(1)
    length = np.int64(offsets[row + 1]) - np.int64(offsets[row])
    return varlong_size(length) + length


@inlined
def _put(out: Bytes, at: int, texts: Texts, row: int) -> int:
    data, offsets, valid, first = texts
    if not is_valid(valid, first + row):
        return write_varlong(out, at, np.int64(-1))
    start = np.int64(offsets[row])
    length = np.int64(offsets[row + 1]) - start
    at = write_varlong(out, at, length)
    copy_bytes(out, at, data, start, length)
    return at + length


@kernel
def _append(  # noqa: PLR0917
    out: Bytes,
    state: Int64s,
    timestamps: Int64s,
    keys: Texts,
    values: Texts,
    lists: NDArray[np.int32],
    header_keys: Texts,
    header_values: Texts,
    first: int,
) -> tuple[int, int]:
    """Encode records from ``first`` on behind those in ``out`` until one does not fit.

    ``state`` is position, count, base time, max time. Returns the first record left, and how many
    bytes it takes.
    """
    position, count, base, latest = state[0], state[1], state[2], state[3]
    needed = np.int64(0)
    i = first
    while i < len(timestamps):
        if count == 0:
            base = latest = timestamps[i]
        delta = timestamps[i] - base  # wraps around, and so does the reader's addition
        begin, end = np.int64(lists[i]), np.int64(lists[i + 1])
        size = 1 + varlong_size(delta) + varlong_size(count)
        size += _size(keys, i) + _size(values, i) + varlong_size(end - begin)
        for j in range(begin, end):
            size += _size(header_keys, j) + _size(header_values, j)
        needed = varlong_size(size) + size
        if position + needed > len(out):
            break
        position = write_varlong(out, position, size)
        out[position] = 0
        position = write_varlong(out, position + 1, delta)
        position = write_varlong(out, position, count)
        position = _put(out, position, keys, i)
        position = _put(out, position, values, i)
        position = write_varlong(out, position, end - begin)
        for j in range(begin, end):
            position = _put(out, position, header_keys, j)
            position = _put(out, position, header_values, j)
        latest = max(latest, timestamps[i])
        count += 1
        i += 1
    state[0], state[1], state[2], state[3] = position, count, base, latest
    return i, needed


def iter_ready_batches(
    records: Iterable[pa.RecordBatch], *, target_bytes: int = TARGET_BYTES
) -> Iterator[ReadyBatch]:
    """Yield records of ``RECORD_SCHEMA``, in the order given, as batches for Produce.

    A batch is larger than ``target_bytes`` only if it is one record. They are not compressed:
    objects do not tell how the producer did it. Holds one batch.
    """
    batch = _Batch(target_bytes)
    for piece in records:
        yield from batch.add(piece)
    yield from batch.flush()


class _Batch:
    """One batch in the making."""

    def __init__(self, target_bytes: int) -> None:
        self._room = max(target_bytes, HEADER_BYTES)
        self._out: Bytes = np.empty(self._room, dtype=np.uint8)
        self._state: Int64s = np.array([HEADER_BYTES, 0, 0, 0], dtype=np.int64)
        self._offsets: list[Int64s] = []

    def add(self, piece: pa.RecordBatch) -> Iterator[ReadyBatch]:
        """Take records in, yielding each batch that is full."""
        offsets = view_numbers(piece.column("offset"), np.int64)
        headers = piece.column("headers")
        columns = (
            view_numbers(piece.column("timestamp"), np.int64),
            _texts(piece.column("key")),
            _texts(piece.column("value")),
            view_offsets(headers),
            _texts(headers.values.field(0)),
            _texts(headers.values.field(1)),
        )
        first = 0
        while first < piece.num_rows:
            left, needed = _append(self._out, self._state, *columns, first)
            if left > first:
                self._offsets.append(offsets[first:left])
            if left < piece.num_rows and not self._offsets:
                # One record larger than the target: a batch of its own.
                self._out = np.empty(HEADER_BYTES + int(needed), dtype=np.uint8)
            elif left < piece.num_rows:
                yield from self.flush()
            first = left

    def flush(self) -> Iterator[ReadyBatch]:
        """Yield what was taken in, if anything."""
        if not self._offsets:
            return
        position, count, base, latest = self._state.tolist()
        body = bytearray(memoryview(self._out)[:position])
        struct.pack_into(">qiibI", body, 0, 0, position - 12, -1, 2, 0)
        struct.pack_into(">hiqq", body, CRC_START, 0, count - 1, base, latest)
        struct.pack_into(">qhii", body, 43, -1, -1, -1, count)
        offsets = np.concatenate(self._offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        self._state[:] = (HEADER_BYTES, 0, 0, 0)
        self._offsets = []
        if len(self._out) != self._room:
            self._out = np.empty(self._room, dtype=np.uint8)
        dense = last - first + 1 == count
        yield ReadyBatch(body, count, first, last, None if dense else offsets)


def _texts(array: pa.Array) -> Texts:
    view = view_binary(array)
    frozen(view.offsets)
    return view.data, view.offsets, view.valid, view.first
