from __future__ import annotations

import io
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.whole_records import MANY, TYPE, open_file, record, rows_of, to_column, write

from kafkeep.objects.formats.envelope import KAFKA_RECORD
from kafkeep.objects.formats.parquet_tables import AVRO_SCHEMA, RecordTables
from kafkeep.options.sink.formats import PARQUET_CODECS
from kafkeep.records.avro.schema import dump_avro, to_avro
from kafkeep.records.schema import Column

INSIDE = {
    "none": "UNCOMPRESSED",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "brotli": "BROTLI",
    "zstd": "ZSTD",
    "lz4": "LZ4",
    "lz4_raw": "LZ4",
}
COLUMNS = """\
required group field_id=-1 schema {
  required binary field_id=-1 topic (String);
  required int32 field_id=-1 partition;
  required int64 field_id=-1 offset;
  required int64 field_id=-1 timestamp;
  optional binary field_id=-1 key;
  optional binary field_id=-1 value;
  required group field_id=-1 headers (List) {
    repeated group field_id=-1 list {
      required group field_id=-1 element {
        required binary field_id=-1 key (String);
        optional binary field_id=-1 value;
        optional binary field_id=-1 key_bytes;
      }
    }
  }
}
"""


@pytest.mark.parametrize("codec", PARQUET_CODECS)
def test_every_codec_is_written_and_named_in_the_file(codec: str) -> None:
    data = write(to_column(MANY), codec=codec)
    assert rows_of(data) == MANY
    group = open_file(data).metadata.row_group(0)
    assert {group.column(place).compression for place in range(9)} == {INSIDE[codec]}


@pytest.mark.parametrize("codec", PARQUET_CODECS)
def test_duckdb_reads_every_codec(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "records.parquet"
    path.write_bytes(write(to_column(MANY), codec=codec))
    with duckdb.connect() as database:
        found = database.execute(f"select * from read_parquet('{path}')").fetchall()
    assert found == [tuple(row.values()) for row in MANY]


def test_the_schema_of_a_file_is_always_the_same() -> None:
    for rows in (MANY, []):
        file = open_file(write(to_column(rows)))
        assert str(file.schema).split("\n", 1)[1] == COLUMNS
        assert file.schema_arrow.equals(pa.schema(list(TYPE)))


def test_columns_are_encoded_as_they_grow_and_repeat() -> None:
    group = open_file(write(to_column(MANY))).metadata.row_group(0)
    found = {group.column(i).path_in_schema: set(group.column(i).encodings) for i in range(9)}
    dictionary = {"PLAIN", "RLE", "RLE_DICTIONARY"}
    assert found["topic"] == found["partition"] == dictionary
    assert found["headers.list.element.key"] == dictionary
    assert found["offset"] == found["timestamp"] == {"RLE", "DELTA_BINARY_PACKED"}
    assert found["key"] == found["value"] == {"PLAIN", "RLE"}


def test_a_file_without_rows_has_its_columns() -> None:
    data = write()
    assert rows_of(data) == []
    assert open_file(data).metadata.num_row_groups == 0
    assert open_file(data).schema_arrow.equals(pa.schema(list(TYPE)))


def test_metadata_hold_the_avro_schema_and_nothing_else() -> None:
    avro = dump_avro(to_avro(KAFKA_RECORD)).encode()
    assert open_file(write(to_column(MANY))).metadata.metadata == {AVRO_SCHEMA: avro}


def test_large_values_come_back() -> None:
    rows = [
        record(i, value=b"%d" % i * size) for i, size in enumerate((3, 10 << 20, 0, 7, 5 << 20))
    ]
    rows += [record(9, headers=[{"key": "k", "value": b"v" * (9 << 20), "key_bytes": None}])]
    assert rows_of(write(to_column(rows))) == rows


def test_a_record_may_have_many_headers() -> None:
    many = [{"key": "", "value": None, "key_bytes": None}] * 100_000
    rows = [record(0), record(1, headers=many), record(2, headers=many[:3]), record(3)]
    assert rows_of(write(to_column(rows))) == rows


def test_bytes_below_a_null_are_not_written() -> None:
    column = to_column([record(i) for i in range(3)])
    offsets = pa.py_buffer(np.array([0, 3, 6, 9], dtype=np.int32))
    values = pa.Array.from_buffers(
        pa.binary(), 3, [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"abcDEFghi")]
    )
    members = [column.array.field(i) for i in range(7)]
    members[5] = values
    array = pa.StructArray.from_arrays(members, fields=list(TYPE))
    data = write(Column(KAFKA_RECORD, array), codec="none")
    assert [row["value"] for row in rows_of(data)] == [b"abc", None, b"ghi"]
    assert b"DEF" not in data


def test_many_topics_and_partitions_come_back() -> None:
    rows = [record(i, topic=f"t{i % 300}", partition=i // 2 % 700) for i in range(3000)]
    column = to_column(rows)
    data = write(column)
    assert rows_of(data) == rows
    assert write(*(column.slice(i, i + 1) for i in range(3000))) == data
    statistics = open_file(data).metadata.row_group(0).column(1).statistics
    assert (statistics.min, statistics.max) == (0, 699)


def test_readers_skip_row_groups_by_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordTables, "group_bytes", 1000)
    data = write(to_column(MANY))
    assert open_file(data).metadata.num_row_groups > 5
    found = pq.read_table(io.BytesIO(data), filters=[("offset", ">=", 990)])
    assert found["offset"].to_pylist() == list(range(990, 1000))
