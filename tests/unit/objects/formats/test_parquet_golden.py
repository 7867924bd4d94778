"""Parquet of rich schemas beside the files that Confluent's sink makes of the same values."""

from __future__ import annotations

import base64
import io
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.converting import MemoryRegistry
from tests.support.golden.compare import compare, parquet_layout

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.objects.formats.parquet import ParquetFormat
from kafkeep.options.option import parse_group
from kafkeep.options.sink.converter_settings import AvroSettings
from kafkeep.options.sink.formats import FormatOptions
from kafkeep.records.converters.avro import AvroConverter
from kafkeep.records.converters.converter import Converter, TopicSubject, frame
from kafkeep.records.converters.json import JsonConverter
from kafkeep.records.schema import Column

CASES = Path(__file__).parents[3] / "golden" / "parquet" / "cases.jsonl.xz"
NAMES = ["json-rich", "json-maps", "avro-rich", "avro-rich-plain", "avro-optional-items"]

Case = dict[str, Any]


@cache
def load() -> dict[str, Case]:
    with lzma.open(CASES, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return {case["name"]: case for case in cases}


def convert(case: Case) -> Column:
    converter: Converter = JsonConverter()
    values = [value.encode() for value in case["values"]]
    if case["converter"] == "avro":
        registry = MemoryRegistry(RegisteredSchema("AVRO", json.dumps(case["schema"])))
        settings = AvroSettings(urls=("http://x",))
        converter = AvroConverter(settings, registry, TopicSubject("value", "t"))
        values = [frame(1, base64.b64decode(value)) for value in case["values"]]
    (piece,) = converter.convert(pa.array(values, pa.binary()))
    assert isinstance(piece.result, Column), piece.result
    return piece.result


def parquet_format(case: Case) -> ParquetFormat:
    return ParquetFormat(parse_group(FormatOptions, {"format.class": "parquet", **case["options"]}))


def write(case: Case, column: Column) -> bytes:
    encoder = parquet_format(case).encoder(column.schema)
    encoder.check(column)
    return encoder.add(column) + encoder.finish()


@pytest.mark.parametrize("name", NAMES)
def test_parquet_of_a_rich_schema_is_what_the_real_sink_writes(name: str) -> None:
    """Columns, their types and annotations, the levels of lists, the codec, and every row."""
    case = load()[name]
    theirs, ours = base64.b64decode(case["file"]), write(case, convert(case))
    assert parquet_layout(ours) == parquet_layout(theirs)
    assert compare({"a.parquet": theirs}, {"a.parquet": ours}) == []


@pytest.mark.parametrize("name", ["json-rich", "json-maps"])
def test_the_avro_schema_in_a_file_is_that_of_the_real_sink(name: str) -> None:
    case = load()[name]
    assert avro_of(write(case, convert(case))) == avro_of(base64.b64decode(case["file"]))


@pytest.mark.parametrize("name", NAMES)
def test_rich_values_come_back_from_parquet(name: str) -> None:
    case = load()[name]
    column = convert(case)
    (found,) = parquet_format(case).read(io.BytesIO(write(case, column)))
    if name != "avro-rich-plain":  # without Connect's own properties names are lost
        assert found == column
    assert found.array.to_pylist() == column.array.to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_real_sink_is_read(name: str) -> None:
    case = load()[name]
    (found,) = parquet_format(case).read(io.BytesIO(base64.b64decode(case["file"])))
    assert len(found) == len(case["values"])


def avro_of(data: bytes) -> Any:
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata.metadata
    return json.loads(metadata[b"parquet.avro.schema"])
