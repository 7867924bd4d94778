"""Decoded records in the schema of Spark's own Kafka source."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int, headers array<struct<key: string, value: binary>>"
)
EXACT_TIME = "timestampMs"

_TIME = pa.timestamp("us", tz="UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(_HEADER)),
    ]
)
# Years 1 to 9999: what Spark prints and Python's datetime holds.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def to_spark(
    records: pa.RecordBatch, topic: str, partition: int, *, exact_time: bool = False
) -> pa.RecordBatch:
    """Return records of ``RECORD_SCHEMA`` as Spark's Kafka source would give them.

    A time outside of the years 1 to 9999 (nanoseconds taken for milliseconds, say) is NULL, and
    with ``exact_time`` each number is in a column of its own. No headers are NULL, as there.
    """
    rows = records.num_rows
    times = records.column("timestamp")
    columns = [
        records.column("key"),
        records.column("value"),
        pa.repeat(pa.scalar(topic), rows),
        pa.repeat(pa.scalar(partition, pa.int32()), rows),
        records.column("offset"),
        _to_timestamps(times),
        records.column("timestamp_type").cast(pa.int32()),
        _to_headers(records.column("headers")),
    ]
    schema = _COLUMNS
    if exact_time:
        schema = _COLUMNS.append(pa.field(EXACT_TIME, pa.int64()))
        columns.append(times)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_timestamps(times: pa.Array) -> pa.Array:
    sane = pc.and_(pc.greater_equal(times, _FIRST_MS), pc.less_equal(times, _LAST_MS))
    kept = pc.if_else(sane, times, pa.scalar(None, pa.int64()))
    return pc.multiply(kept, 1000).cast(_TIME)


def _to_headers(headers: pa.ListArray) -> pa.ListArray:
    pairs = headers.values
    keys, values = pairs.field("key"), pairs.field("value")
    named = pa.StructArray.from_arrays([_to_text(keys), values], fields=list(_HEADER))
    none = pc.equal(pc.list_value_length(headers), 0)
    return pa.ListArray.from_arrays(headers.offsets, named, type=pa.list_(_HEADER), mask=none)


def _to_text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: rare, and better shown mended than not at all
        texts = [None if key is None else key.decode(errors="replace") for key in keys.to_pylist()]
        return pa.array(texts, pa.string())
