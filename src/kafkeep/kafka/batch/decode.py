"""Decode record batches to Arrow, directly into Arrow's buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch.compression import DEFAULT_LIMIT_BYTES
from kafkeep.kafka.batch.scan import Batches
from kafkeep.kafka.batch.unpack import (
    AREA_BYTES,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    KEY_BYTES,
    VALUE_BYTES,
    RecordFields,
    iter_unpacked,
    walk_records,
)
from kafkeep.numba_setup import Bytes, Int64s, copy_bytes, kernel, read_varint

HEADER_TYPE = pa.struct([pa.field("key", pa.binary(), nullable=False), ("value", pa.binary())])
RECORD_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER_TYPE), nullable=False),
    ]
)
"""Timestamps are Kafka's ms, any int64; timestamp types are ``layout.TimestampType``."""


@kernel
def _take_fields(  # noqa: PLR0917
    buffer: Bytes,
    fields: Int64s,
    ends: Int64s,
    key_offsets: NDArray[np.int32],
    key_valid: Bytes,
    key_data: Bytes,
    value_offsets: NDArray[np.int32],
    value_valid: Bytes,
    value_data: Bytes,
    begins: Int64s,
    lists: NDArray[np.int32],
) -> None:
    """Copy keys and values, already checked, to the buffers of two Arrow columns.

    Fill ``begins`` and ``lists`` with the position and the number of headers. The copy loop is
    repeated for keys, values and in ``_gather``: a shared function, even inlined, takes a third
    longer.
    """
    keys = values = headers = np.int64(0)
    for i in range(len(fields)):
        at, end = fields[i], ends[i]
        length, at = read_varint(buffer, at, end)
        if length >= 0:
            key_valid[i >> 3] |= np.uint8(1 << (i & 7))
            copy_bytes(key_data, keys, buffer, at, length)
            keys += length
            at += length
        key_offsets[i + 1] = keys
        length, at = read_varint(buffer, at, end)
        if length >= 0:
            value_valid[i >> 3] |= np.uint8(1 << (i & 7))
            copy_bytes(value_data, values, buffer, at, length)
            values += length
            at += length
        value_offsets[i + 1] = values
        count, begins[i] = read_varint(buffer, at, end)
        headers += count
        lists[i + 1] = headers


@kernel
def _locate_headers(
    buffer: Bytes, begins: Int64s, ends: Int64s, lists: NDArray[np.int32], places: Int64s
) -> None:
    """Fill ``places`` with start and length of each header's key and value."""
    for i in range(len(begins)):
        at, end = begins[i], ends[i]
        for header in range(lists[i], lists[i + 1]):
            length, at = read_varint(buffer, at, end)
            places[0, header], places[1, header] = at, length
            length, at = read_varint(buffer, at + length, end)
            places[2, header], places[3, header] = at, length
            at += max(length, 0)


@kernel
def _gather(  # noqa: PLR0917
    buffer: Bytes,
    starts: Int64s,
    lengths: Int64s,
    offsets: NDArray[np.int32],
    valid: Bytes,
    data: Bytes,
) -> None:
    """Copy bytes, already checked, to the buffers of an Arrow column; a length of -1 is null."""
    reached = np.int64(0)
    for i in range(len(starts)):
        length = lengths[i]
        if length >= 0:
            valid[i >> 3] |= np.uint8(1 << (i & 7))
            copy_bytes(data, reached, buffer, starts[i], length)
            reached += length
        offsets[i + 1] = reached


class _BinaryColumn:
    """The buffers of an Arrow column of bytes, to be filled."""

    def __init__(self, rows: int, size_bytes: int) -> None:
        self._rows = rows
        self.offsets = np.zeros(rows + 1, dtype=np.int32)
        self.valid = np.zeros((rows + 7) // 8, dtype=np.uint8)
        self.data = np.empty(size_bytes, dtype=np.uint8)

    def to_arrow(self) -> pa.Array:
        parts = [pa.py_buffer(part) for part in (self.valid, self.offsets, self.data)]
        return pa.Array.from_buffers(pa.binary(), self._rows, parts)


def _gathered(buffer: Bytes, starts: Int64s, lengths: Int64s, size_bytes: int) -> pa.Array:
    """Return bytes of ``buffer`` as an Arrow binary column of ``size_bytes`` in total."""
    column = _BinaryColumn(len(starts), size_bytes)
    _gather(buffer, starts, lengths, column.offsets, column.valid, column.data)
    return column.to_arrow()


def _numbers(kind: pa.DataType, values: NDArray[Any]) -> pa.Array:
    # pa.array would import pandas, which takes half a second.
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def to_arrow(records: RecordFields) -> pa.RecordBatch:
    """Return all records as an Arrow batch in ``RECORD_SCHEMA``.

    OverflowError when a column has 2 GiB or more: pass fewer batches at a time.
    """
    totals = records.totals.tolist()
    if max(totals) > np.iinfo(np.int32).max:
        raise OverflowError(f"{max(totals)} bytes do not fit into one Arrow column")
    rows, headers = len(records), totals[HEADERS]
    buffer = records.buffer
    keys = _BinaryColumn(rows, totals[KEY_BYTES])
    values = _BinaryColumn(rows, totals[VALUE_BYTES])
    begins = np.empty(rows, dtype=np.int64)
    lists = np.zeros(rows + 1, dtype=np.int32)
    _take_fields(
        buffer,
        records.fields,
        records.ends,
        *(keys.offsets, keys.valid, keys.data),
        *(values.offsets, values.valid, values.data),
        begins,
        lists,
    )
    pairs = np.empty((4, headers), dtype=np.int64)
    if headers:
        _locate_headers(buffer, begins, records.ends, lists, pairs)
    structs = pa.StructArray.from_arrays(
        [
            _gathered(buffer, pairs[0], pairs[1], totals[HEADER_KEY_BYTES]),
            _gathered(buffer, pairs[2], pairs[3], totals[HEADER_VALUE_BYTES]),
        ],
        fields=list(HEADER_TYPE),
    )
    columns = [
        _numbers(pa.int64(), records.offsets),
        _numbers(pa.int64(), records.timestamps),
        _numbers(pa.int8(), records.timestamp_types.astype(np.int8)),
        keys.to_arrow(),
        values.to_arrow(),
        pa.ListArray.from_arrays(
            _numbers(pa.int32(), lists), structs, type=RECORD_SCHEMA.field("headers").type
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def iter_decode(
    batches: Batches,
    range: OffsetRange | None = None,
    *,
    max_bytes: int = AREA_BYTES,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Decode in order; yield Arrow batches of about ``max_bytes``, or of one record batch.

    Records outside of ``range`` and control batches are skipped, and empty Arrow batches are not
    yielded. DamagedError for a batch that decompresses to more than ``limit_bytes``.
    """
    for part in iter_unpacked(batches, max_bytes=max_bytes, limit_bytes=limit_bytes):
        records = walk_records(part, range)
        if len(records):
            yield to_arrow(records)


def decode(
    batches: Batches,
    *,
    range: OffsetRange | None = None,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> pa.RecordBatch:
    """Decode all batches to one Arrow batch in ``RECORD_SCHEMA``; see ``iter_decode``.

    OverflowError when a column would have 2 GiB or more.
    """
    pieces = list(iter_decode(batches, range, limit_bytes=limit_bytes))
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=RECORD_SCHEMA)
    if sum(piece.nbytes for piece in pieces) > np.iinfo(np.int32).max:
        raise OverflowError("2 GiB of records do not fit into one Arrow batch; use iter_decode")
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
