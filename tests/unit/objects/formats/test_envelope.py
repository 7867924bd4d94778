import io
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkeep.objects.formats.avro import AvroFormat
from kafkeep.objects.formats.envelope import KAFKA_RECORD, from_envelope, is_envelope, to_envelope
from kafkeep.objects.formats.parquet import ParquetFormat
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Kind, Schema

KEYS = [b"k", None, b"", b"\xff\x00"]
VALUES = [b'{"a":1}', b"", None, b"\x00\xfe"]
HEADERS: list[list[dict[str, Any]]] = [
    [{"key": b"trace", "value": b"\xff"}, {"key": b"trace", "value": None}],
    [],
    [{"key": "größe".encode(), "value": b""}],
    [{"key": b"bad\xffkey", "value": b"x"}, {"key": b"good", "value": b"y"}],
]
TIMESTAMPS = [1733219880000, -1, 1733219880000000000, -(1 << 63)]


def some_rows() -> Rows:
    keys, values = (pa.array(given, pa.binary()) for given in (KEYS, VALUES))
    return Rows(
        topic="orders-ü",
        partition=7,
        offsets=np.array([5, 6, 9, 1 << 40]),
        timestamps=np.array(TIMESTAMPS),
        key=Column(OPTIONAL_BYTES, keys),
        value=Column(OPTIONAL_BYTES, values),
        headers=pa.array(HEADERS, HEADERS_TYPE),
    )


def enveloped(rows: Rows) -> Column:
    return to_envelope(rows, rows.key.array, rows.value.array)


def check(column: Column, start: int = 0, stop: int = 4) -> None:
    found = {name: array.to_pylist() for name, array in from_envelope(column).items()}
    assert found == {
        "topic": ["orders-ü"] * (stop - start),
        "partition": [7] * (stop - start),
        "offset": [5, 6, 9, 1 << 40][start:stop],
        "timestamp": TIMESTAMPS[start:stop],
        "key": KEYS[start:stop],
        "value": VALUES[start:stop],
        "headers": HEADERS[start:stop],
    }
    assert from_envelope(column)["headers"].type == HEADERS_TYPE


def test_whole_records_come_back_with_null_empty_and_bytes_that_are_no_text() -> None:
    check(enveloped(some_rows()))


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (1, 4), (2, 3), (4, 4)])
def test_slices_before_and_after_are_the_same(start: int, stop: int) -> None:
    check(enveloped(some_rows().slice(start, stop)), start, stop)
    check(enveloped(some_rows()).slice(start, stop), start, stop)


def test_names_are_those_of_sparks_kafka_source() -> None:
    names = [field.name for field in KAFKA_RECORD.fields]
    assert names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]


def test_keys_and_values_are_not_copied() -> None:
    rows = some_rows()
    column = enveloped(rows)
    for name, given in (("key", rows.key.array), ("value", rows.value.array)):
        assert column.array.field(name).buffers()[2].address == given.buffers()[2].address


def test_a_header_key_that_is_no_text_is_readable_and_exact() -> None:
    headers = enveloped(some_rows()).array.field("headers").to_pylist()
    assert headers[3][0] == {"key": "bad\ufffdkey", "value": b"x", "key_bytes": b"bad\xffkey"}
    assert headers[3][1] == {"key": "good", "value": b"y", "key_bytes": None}


def test_another_schema_is_refused() -> None:
    other = Schema(kind=Kind.STRING)
    assert not is_envelope(other)
    with pytest.raises(TypeError, match="whole Kafka records"):
        from_envelope(Column(other, pa.array(["x"])))


@pytest.mark.parametrize("meta", [True, False])
@pytest.mark.parametrize("kind", [AvroFormat, ParquetFormat])
def test_files_of_whole_records_come_back(
    kind: type[AvroFormat] | type[ParquetFormat], meta: bool
) -> None:
    made = kind(FormatOptions(format_class=FormatKind.AVRO, connect_meta_data=meta))
    encoder = made.encoder(KAFKA_RECORD)
    data = encoder.add(enveloped(some_rows())) + encoder.finish()
    (column,) = made.read(io.BytesIO(data))
    assert is_envelope(column.schema)
    check(column)
    read = fastavro.reader if kind is AvroFormat else pq.read_table
    rows = (
        list(read(io.BytesIO(data))) if kind is AvroFormat else read(io.BytesIO(data)).to_pylist()
    )
    assert [row["value"] for row in rows] == VALUES
    assert [row["offset"] for row in rows] == [5, 6, 9, 1 << 40]
