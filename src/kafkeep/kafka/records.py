"""Record batches decoded to Arrow, written straight into Arrow's buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch import Batches
from kafkeep.kafka.compression import DEFAULT_LIMIT_BYTES
from kafkeep.kafka.unpack import AREA_BYTES, iter_unpacked
from kafkeep.kafka.walk import (
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    KEY_BYTES,
    VALUE_BYTES,
    Walked,
    walk_records,
)
from kafkeep.kernel import Bytes, Int64s, copy_bytes, inlined, kernel, read_varint

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
"""Times are Kafka's ms, any int64; time types are ``layout.TimestampType``."""


class _Column:
    """Buffers of one Arrow binary column, to be filled by a kernel."""

    def __init__(self, rows: int, size_bytes: int) -> None:
        self.offsets: NDArray[np.int32] = np.zeros(rows + 1, dtype=np.int32)
        self.valid: Bytes = np.zeros((rows + 7) // 8, dtype=np.uint8)
        self.data: Bytes = np.empty(size_bytes, dtype=np.uint8)

    def to_array(self) -> pa.Array:
        buffers = [pa.py_buffer(part) for part in (self.valid, self.offsets, self.data)]
        return pa.Array.from_buffers(pa.binary(), len(self.offsets) - 1, buffers)


@inlined
def _put(  # noqa: PLR0917
    buffer: Bytes,
    at: int,
    end: int,
    row: int,
    offsets: NDArray[np.int32],
    valid: Bytes,
    data: Bytes,
) -> int:
    """Copy the sized bytes at ``at``, already checked, to ``row`` of a column."""
    length, at = read_varint(buffer, at, end)
    start = np.int64(offsets[row])
    if length < 0:
        offsets[row + 1] = start
        return at
    valid[row >> 3] |= np.uint8(1 << (row & 7))
    copy_bytes(data, start, buffer, at, length)
    offsets[row + 1] = start + length
    return at + length


@kernel
def _fill(  # noqa: PLR0917
    buffer: Bytes,
    fields: Int64s,
    ends: Int64s,
    key: tuple[NDArray[np.int32], Bytes, Bytes],
    value: tuple[NDArray[np.int32], Bytes, Bytes],
    lists: NDArray[np.int32],
    header_key: tuple[NDArray[np.int32], Bytes, Bytes],
    header_value: tuple[NDArray[np.int32], Bytes, Bytes],
) -> None:
    header = 0
    for i in range(len(fields)):
        at, end = fields[i], ends[i]
        at = _put(buffer, at, end, i, key[0], key[1], key[2])
        at = _put(buffer, at, end, i, value[0], value[1], value[2])
        count, at = read_varint(buffer, at, end)
        for _ in range(count):
            at = _put(buffer, at, end, header, header_key[0], header_key[1], header_key[2])
            at = _put(buffer, at, end, header, header_value[0], header_value[1], header_value[2])
            header += 1
        lists[i + 1] = header


def _buffers(column: _Column) -> tuple[NDArray[np.int32], Bytes, Bytes]:
    return column.offsets, column.valid, column.data


def _numbers(kind: pa.DataType, values: NDArray[Any]) -> pa.Array:
    # pa.array would import pandas, which takes half a second.
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def to_arrow(records: Walked) -> pa.RecordBatch:
    """Return walked records, all of them, in ``RECORD_SCHEMA``.

    Raises OverflowError when a column has 2 GiB or more: walk fewer batches at a time.
    """
    totals = records.totals.tolist()
    if max(totals) > np.iinfo(np.int32).max:
        raise OverflowError(f"{max(totals)} bytes do not fit into one Arrow column")
    rows, headers = len(records), totals[HEADERS]
    key, value = _Column(rows, totals[KEY_BYTES]), _Column(rows, totals[VALUE_BYTES])
    header_key = _Column(headers, totals[HEADER_KEY_BYTES])
    header_value = _Column(headers, totals[HEADER_VALUE_BYTES])
    lists = np.zeros(rows + 1, dtype=np.int32)
    _fill(
        records.buffer,
        records.fields,
        records.ends,
        _buffers(key),
        _buffers(value),
        lists,
        _buffers(header_key),
        _buffers(header_value),
    )
    structs = pa.StructArray.from_arrays(
        [header_key.to_array(), header_value.to_array()], fields=list(HEADER_TYPE)
    )
    columns = [
        _numbers(pa.int64(), records.offsets),
        _numbers(pa.int64(), records.timestamps),
        _numbers(pa.int8(), records.timestamp_types.astype(np.int8)),
        key.to_array(),
        value.to_array(),
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
    """Decode in order, in pieces of about ``max_bytes`` of records, or one record batch each.

    Records outside of ``range`` and control batches are left out; pieces without records are not
    yielded. A batch that unpacks to more than ``limit_bytes`` is damage.
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

    Raises OverflowError when a column would have 2 GiB or more.
    """
    pieces = list(iter_decode(batches, range, limit_bytes=limit_bytes))
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema=RECORD_SCHEMA)
    if sum(piece.nbytes for piece in pieces) > np.iinfo(np.int32).max:
        raise OverflowError("2 GiB of records do not fit into one Arrow batch; use iter_decode")
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
