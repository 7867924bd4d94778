"""The envelope: a whole Kafka record as one row, for columnar formats with plain bytes. Pure.

The members have the names of Spark's Kafka source: topic, partition, offset, timestamp, key, value,
headers. ``timestamp`` is Kafka's int64 without a logical type, so that -1 ("no timestamp") and any
other number are stored unchanged. A null key or value stays null, and an empty one stays empty.

Kafka's protocol defines header keys as UTF-8. If a key is not valid UTF-8, ``key`` holds it with
each bad byte replaced by U+FFFD, and ``key_bytes`` holds its exact bytes. Otherwise ``key_bytes``
is null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import Column, Field, Kind, Schema, arrow_type

_BYTES = Schema(kind=Kind.BYTES, optional=True)
_HEADER = Schema(
    kind=Kind.STRUCT,
    name="kafkeep.KafkaHeader",
    fields=(
        Field("key", Schema(kind=Kind.STRING)),
        Field("value", _BYTES),
        Field("key_bytes", _BYTES),
    ),
)
KAFKA_RECORD = Schema(
    kind=Kind.STRUCT,
    name="kafkeep.KafkaRecord",
    version=1,
    fields=(
        Field("topic", Schema(kind=Kind.STRING)),
        Field("partition", Schema(kind=Kind.INT32)),
        Field("offset", Schema(kind=Kind.INT64)),
        Field("timestamp", Schema(kind=Kind.INT64)),
        Field("key", _BYTES),
        Field("value", _BYTES),
        Field("headers", Schema(kind=Kind.ARRAY, items=_HEADER)),
    ),
)
"""The schema of a whole record."""

_TYPE = arrow_type(KAFKA_RECORD)
_HEADERS_TYPE = _TYPE.field("headers").type
_HEADER_TYPE = _HEADERS_TYPE.value_type


def to_envelope(rows: Rows, keys: pa.BinaryArray, values: pa.BinaryArray) -> Column:
    """Return whole records as one column, without copying keys, values or headers.

    ``keys`` and ``values`` are the bytes to store.
    """
    count = len(rows)
    topic = rows.topic.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(topic)
    children = [
        _from_buffers(pa.string(), count, pa.py_buffer(offsets), pa.py_buffer(topic * count)),
        _from_buffers(pa.int32(), count, pa.py_buffer(_filled(rows.partition, count))),
        _from_buffers(pa.int64(), count, pa.py_buffer(np.ascontiguousarray(rows.offsets))),
        _from_buffers(pa.int64(), count, pa.py_buffer(np.ascontiguousarray(rows.timestamps))),
        keys,
        values,
        _headers_to_envelope(rows.headers),
    ]
    return Column(KAFKA_RECORD, pa.StructArray.from_arrays(children, fields=list(_TYPE)))


def from_envelope(column: Column) -> dict[str, Any]:
    """Return the arrays of an envelope column by member name, with ``headers`` as in ``Rows``.

    Raise TypeError when the column is no envelope.
    """
    if not is_envelope(column.schema):
        raise TypeError(f"a column of {column.schema} does not hold whole Kafka records")
    found = {field.name: column.array.field(i) for i, field in enumerate(_TYPE)}
    found["headers"] = _headers_from_envelope(found["headers"])
    return found


def is_envelope(schema: Schema | None) -> bool:
    """Return whether a column is an envelope, also if ``connect.meta.data`` was off."""
    return schema is not None and not schema.optional and arrow_type(schema) == _TYPE


def _from_buffers(kind: pa.DataType, count: int, *buffers: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, *buffers])


def _filled(number: int, count: int) -> Any:
    return np.full(count, number, dtype=np.int32)


def _headers_to_envelope(headers: pa.ListArray) -> pa.ListArray:
    items = headers.values
    keys, key_bytes = _texts(items.field(0))
    header = pa.StructArray.from_arrays(
        [keys, items.field(1), key_bytes], fields=list(_HEADER_TYPE)
    )
    return _relist(headers, _HEADERS_TYPE, header)


def _headers_from_envelope(headers: pa.ListArray) -> pa.ListArray:
    items = headers.values
    keys = items.field(0).view(pa.binary())
    exact = items.field(2)
    if exact.null_count < len(exact):
        pairs = zip(keys.to_pylist(), exact.to_pylist(), strict=True)
        keys = pa.array([key if given is None else given for key, given in pairs], pa.binary())
    fields = list(HEADERS_TYPE.value_type)
    return _relist(
        headers, HEADERS_TYPE, pa.StructArray.from_arrays([keys, items.field(1)], fields=fields)
    )


def _texts(keys: pa.BinaryArray) -> tuple[pa.StringArray, pa.BinaryArray]:
    """Return header keys as strings, and the exact bytes of keys that are not UTF-8."""
    texts = keys.view(pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        exact = [None if _is_text(key) else key for key in keys.to_pylist()]
        made = [key.decode(errors="replace") for key in keys.to_pylist()]
        return pa.array(made, pa.string()), pa.array(exact, pa.binary())
    return texts, pa.nulls(len(keys), pa.binary())


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _relist(lists: pa.ListArray, kind: pa.DataType, items: pa.Array) -> pa.ListArray:
    """Return the same lists, including their slice, over other items."""
    return pa.Array.from_buffers(
        kind,
        len(lists),
        lists.buffers()[:2],
        null_count=lists.null_count,
        offset=lists.offset,
        children=[items],
    )
