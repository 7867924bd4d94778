"""SinetStreamConverter: read and write the envelope of SINETStream messages; pure.

An envelope is an Avro object with a header: two marker bytes and the schema's fingerprint. The time
the message was sent, in microseconds, and the payload follow. Since version 3 of the message
format, six more bytes come first. They identify the version and the key of encrypted messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.numba_setup import zigzag_varint
from kafkeep.records.arrow import binary_array
from kafkeep.records.converters.converter import ConvertedRange
from kafkeep.records.rows import Rows
from kafkeep.records.schema import Column, Field, Kind, Schema, arrow_type

MESSAGE = Schema(
    kind=Kind.STRUCT,
    name="jp.ad.sinet.stream.message",
    fields=(
        Field("tstamp", Schema(kind=Kind.INT64, optional=True)),
        Field("msg", Schema(kind=Kind.BYTES)),
    ),
)
"""``tstamp`` is in microseconds, or null if the message has no envelope."""

_MARKER = bytes.fromhex("c3011f9c0c91eb33664f")
_NEWER = b"\xdf\x03"
_NEWER_BYTES = 6


class SinetStreamConverter:
    """Converts envelopes to structs. Messages without an envelope have no time. Never fails."""

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield all messages as one column; ``fill_times`` adds the missing times."""
        if len(values):
            found = [None if value is None else _opened(value) for value in values.to_pylist()]
            column = Column(MESSAGE, pa.array(found, arrow_type(MESSAGE)))
            yield ConvertedRange(0, len(values), column)

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return an envelope for each struct with a time, and the bare payload of the others."""
        if column.schema is not None and column.schema.kind is Kind.BYTES:
            return column.array
        if column.schema is None or {f.name for f in column.schema.fields} != {"tstamp", "msg"}:
            raise RecordError("only structs of tstamp and msg have a SINETStream envelope")
        made = [None if one is None else _closed(one) for one in column.array.to_pylist()]
        return binary_array(made)


def fill_times(rows: Rows) -> Rows:
    """Set the Kafka timestamp as the time of messages without an envelope."""
    column = rows.value
    if column.schema != MESSAGE or not column.array.field("tstamp").null_count:
        return rows
    times = rows.timestamps.tolist()
    filled = [
        None if one is None else {**one, "tstamp": _time(one["tstamp"], times[i])}
        for i, one in enumerate(column.array.to_pylist())
    ]
    return replace(rows, value=Column(MESSAGE, pa.array(filled, arrow_type(MESSAGE))))


def open_envelope(value: bytes) -> tuple[int, bytes] | None:
    """Return the time (µs) and payload of a message, or None if it has no envelope."""
    if value.startswith(_NEWER) and value[_NEWER_BYTES:].startswith(_MARKER):
        value = value[_NEWER_BYTES:]
    if not value.startswith(_MARKER):
        return None
    try:
        time_us, at = _read_long(value, len(_MARKER))
        size, at = _read_long(value, at)
    except struct.error:
        return None
    return (time_us, value[at:]) if size == len(value) - at else None


def _opened(value: bytes) -> dict[str, object]:
    time_us, payload = open_envelope(value) or (None, value)
    return {"tstamp": time_us, "msg": payload}


def _closed(message: dict[str, Any]) -> bytes:
    payload: bytes = message["msg"]
    if message["tstamp"] is None:
        return payload
    return _MARKER + zigzag_varint(message["tstamp"]) + zigzag_varint(len(payload)) + payload


def _time(time_us: int | None, kafka_ms: int) -> int:
    return kafka_ms * 1000 if time_us is None else time_us


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + i + 1
    raise struct.error("a number without an end")
