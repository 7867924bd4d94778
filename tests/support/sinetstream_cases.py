"""SINETStream's two connectors, as its set-up script posts them, and messages in its envelope."""

from __future__ import annotations

import io

import fastavro

_CONNECT = "org.apache.kafka.connect.transforms."
_SINETSTREAM = "jp.ad.sinet.sinetstream.connect."
_CAST = f"{_SINETSTREAM}transforms.ByteArrayCast$Value"
_COMMON: dict[str, object] = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "value.converter": f"{_SINETSTREAM}converters.SinetStreamConverter",
    "format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "tasks.max": 1,
    "flush.size": "1",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "partition.duration.ms": "3600000",
    "timestamp.extractor": "Record",
    "locale": "C",
    "timezone": "Asia/Tokyo",
    "s3.region": "us-east-1",
}
DATA: dict[str, object] = {
    **_COMMON,
    "group.id": "kafka-connect-s3-sink-data",
    "transforms": "ExtractField,ByteArrayCast",
    "transforms.ExtractField.type": f"{_CONNECT}ExtractField$Value",
    "transforms.ExtractField.field": "msg",
    "transforms.ByteArrayCast.type": _CAST,
    "format.bytearray.extension": ".bin",
}
"""``s3-sink-data``, without topics, bucket and store."""
TIMES: dict[str, object] = {
    **_COMMON,
    "group.id": "kafka-connect-s3-sink-timestamp",
    "transforms": "Timestamp,ExtractField,ByteArrayCast",
    "transforms.Timestamp.type": f"{_SINETSTREAM}transforms.MicrosecondTimestampConverter$Value",
    "transforms.Timestamp.field": "tstamp",
    "transforms.Timestamp.format": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "transforms.Timestamp.target.type": "string",
    "transforms.ExtractField.type": f"{_CONNECT}ExtractField$Value",
    "transforms.ExtractField.field": "tstamp",
    "transforms.ByteArrayCast.type": _CAST,
    "format.bytearray.extension": "-timestamp.txt",
}
"""``s3-sink-timestamp``, likewise."""

HOUR = 1_650_243_600_000
"""2022-04-18 10:00 in Tokyo, 01:00 in UTC."""

_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "jp.ad.sinet.stream.message",
        "fields": [
            {"name": "tstamp", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "msg", "type": "bytes"},
        ],
    }
)
_PLAIN = fastavro.schema.to_parsing_canonical_form(_SCHEMA)
_FINGERPRINT = bytes.fromhex(fastavro.schema.fingerprint(_PLAIN, "CRC-64-AVRO"))


def envelope(payload: bytes, time_us: int) -> bytes:
    """Return a message as SINETStream sends it: one Avro object, encoded by fastavro."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _SCHEMA, {"tstamp": time_us, "msg": payload})
    return b"\xc3\x01" + _FINGERPRINT + body.getvalue()
