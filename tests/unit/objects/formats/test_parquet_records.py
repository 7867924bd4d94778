from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.whole_records import (
    MANY,
    TYPE,
    open_file,
    record,
    rows_of,
    to_column,
    write,
    write_by_arrow,
)

from kafkeep.objects.formats import parquet_bytes, parquet_page_kernels
from kafkeep.objects.formats.envelope import KAFKA_RECORD
from kafkeep.objects.formats.parquet_records import RecordWriter
from kafkeep.options.sink.formats import PARQUET_CODECS
from kafkeep.records.schema import Column


@pytest.mark.parametrize("codec", PARQUET_CODECS)
def test_every_codec_is_written_as_arrow_names_and_reads_it(codec: str) -> None:
    column = to_column(MANY)
    data = write(column, codec=codec)
    ours, arrows = (open_file(found) for found in (data, write_by_arrow(column, codec)))
    assert rows_of(data) == MANY
    for place in range(9):
        found, wanted = (file.metadata.row_group(0).column(place) for file in (ours, arrows))
        assert found.compression == wanted.compression
        assert found.num_values == wanted.num_values
        assert found.physical_type == wanted.physical_type


@pytest.mark.parametrize("codec", PARQUET_CODECS)
def test_duckdb_reads_every_codec(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "records.parquet"
    path.write_bytes(write(to_column(MANY), codec=codec))
    with duckdb.connect() as database:
        found = database.execute(f"select * from read_parquet('{path}')").fetchall()
    assert found == [tuple(row.values()) for row in MANY]


def test_sizes_and_places_add_up_to_the_file() -> None:
    data = write(to_column(MANY), codec="none")
    metadata = open_file(data).metadata
    group = metadata.row_group(0)
    at = 4
    for place in range(group.num_columns):
        column = group.column(place)
        begin = column.data_page_offset
        if column.has_dictionary_page:
            begin = column.dictionary_page_offset
            assert begin < column.data_page_offset
        assert begin == at
        assert column.total_uncompressed_size == column.total_compressed_size
        at += column.total_compressed_size
    assert at + metadata.serialized_size + 8 == len(data)
    assert group.total_byte_size == at - 4


def test_columns_are_encoded_as_they_grow_and_repeat() -> None:
    group = open_file(write(to_column(MANY))).metadata.row_group(0)
    found = {group.column(i).path_in_schema: set(group.column(i).encodings) for i in range(9)}
    dictionary = {"PLAIN", "RLE", "RLE_DICTIONARY"}
    assert found["topic"] == found["partition"] == dictionary
    assert found["offset"] == found["timestamp"] == {"RLE", "DELTA_BINARY_PACKED"}
    assert found["key"] == found["value"] == found["headers.list.element.key"] == {"PLAIN", "RLE"}


def test_a_file_without_rows_has_its_columns() -> None:
    data = write()
    assert rows_of(data) == []
    assert open_file(data).metadata.num_row_groups == 0
    assert open_file(data).schema.equals(open_file(write_by_arrow(to_column([]))).schema)


def test_metadata_are_those_arrow_would_write() -> None:
    ours, arrows = (open_file(made(to_column(MANY))) for made in (write, write_by_arrow))
    assert ours.metadata.metadata == arrows.metadata.metadata
    assert ours.metadata.format_version == arrows.metadata.format_version
    assert ours.metadata.created_by == "kafkeep version 1"


def test_large_values_have_pages_of_their_own() -> None:
    rows = [
        record(i, value=b"%d" % i * size) for i, size in enumerate((3, 10 << 20, 0, 7, 5 << 20))
    ]
    rows += [record(9, headers=[{"key": "k", "value": b"v" * (9 << 20), "key_bytes": None}])]
    assert rows_of(write(to_column(rows))) == rows


def test_pages_end_before_the_row_that_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_bytes, "PAGE_BYTES", 100)
    sizes: list[int] = []
    add_page = parquet_bytes.Chunk.add_page

    def count(chunk: Any, raw: Any, *rest: Any) -> None:
        sizes.append(len(raw))
        add_page(chunk, raw, *rest)

    monkeypatch.setattr(parquet_bytes.Chunk, "add_page", count)
    rows = [record(i, value=b"x" * size) for i, size in enumerate([46, 46, 0, 96, 97, 46, 47])]
    assert rows_of(write(to_column(rows))) == rows
    levels = 4 + 2
    values = sizes[-9:-3]  # after topic, partition, offset, timestamp and key; before the headers
    assert values == [levels + size for size in (100, 4, 100, 101, 50, 51)]


def test_a_record_may_have_more_headers_than_a_page_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet_bytes, "PAGE_LEVELS", 10)
    many = [{"key": "", "value": None, "key_bytes": None}] * 1000
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
    monkeypatch.setattr(RecordWriter, "group_bytes", 1000)
    data = write(to_column(MANY))
    assert open_file(data).metadata.num_row_groups > 5
    found = pq.read_table(io.BytesIO(data), filters=[("offset", ">=", 990)])
    assert found["offset"].to_pylist() == list(range(990, 1000))


def test_kernels_are_compiled_for_one_type_of_arrays() -> None:
    column = to_column(MANY)
    write(column, column.slice(3, 7))
    write(to_column([record(0)]), to_column([record(1, key=b"", value=b"x")]))
    for name in ("fill_values", "fill_items", "encode_levels", "encode_deltas", "all_equal"):
        assert len(getattr(parquet_page_kernels, name).signatures) == 1, name
