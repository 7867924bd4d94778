"""Avro messages with a registry: into columns, and back."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.converting import (
    MemoryRegistry,
    answering_paths,
    assert_covers,
    binary,
    framed,
    one_column,
)

from kafkeep.archive.schemas import RegisteredSchema, SchemaReference
from kafkeep.errors import RecordError
from kafkeep.options.sink.converter_settings import AvroSettings
from kafkeep.records.converters.avro import AvroConverter
from kafkeep.records.converters.converter import TopicSubject
from kafkeep.records.schema import DATE, DECIMAL, TIMESTAMP, Column, Kind, Schema
from kafkeep.registry.client import Registry

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "what", "type": ["null", "string", "long"]},
    ],
}
ORDER_1 = {
    "id": "1",
    "amount": 1.5,
    "at": 1733219880000,
    "day": 20060,
    "price": b"\x30\x39",
    "tags": {"a": 1},
    "kind": "NEW",
    "what": "x",
}


def avro_schema(told: Any, *references: SchemaReference) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps(told), references)


def avro_bytes(told: Any, value: Any) -> bytes:
    plain = json.loads(json.dumps(told).replace('"logicalType"', '"plainType"'))
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(plain), value)
    return target.getvalue()


def avro_converter(registry: Registry, **settings: Any) -> AvroConverter:
    told = AvroSettings(urls=("http://x",), **settings)
    return AvroConverter(told, registry, TopicSubject("value", "t"))


def test_avro_values_have_the_schema_of_the_registry_and_its_version() -> None:
    converter = avro_converter(MemoryRegistry(avro_schema(ORDER)))

    column = one_column(converter, None, framed(1, avro_bytes(ORDER, ORDER_1)), None)

    assert column.schema is not None
    assert (column.schema.name, column.schema.version) == ("shop.Order", 1)
    named = {field.name: field.schema.name for field in column.schema.fields}
    assert (named["at"], named["day"], named["price"]) == (TIMESTAMP, DATE, DECIMAL)
    value = ORDER_1 | {"tags": [("a", 1)], "what": {"string": "x", "long": None}}
    assert column.array.to_pylist() == [None, value, None]


@pytest.mark.parametrize("enhanced", [True, False])
def test_avro_values_come_back_as_they_were_under_the_same_id(enhanced: bool) -> None:
    values = [ORDER_1, ORDER_1 | {"what": 7, "amount": None}, ORDER_1 | {"what": None}]
    encoded = [*(framed(1, avro_bytes(ORDER, value)) for value in values), None]
    converter = avro_converter(MemoryRegistry(avro_schema(ORDER)), enhanced=enhanced)

    column = one_column(converter, *encoded)

    assert converter.restore(column).to_pylist() == encoded


def test_avro_values_of_a_schema_that_is_not_there_are_registered() -> None:
    registry = MemoryRegistry()
    schema = Schema(kind=Kind.INT32, optional=True)
    column = Column(schema, pa.array([5, None], pa.int32()))

    (made, none) = avro_converter(registry).restore(column).to_pylist()

    assert made == framed(1, b"\x02\x0a") and none is None
    assert json.loads(registry.schema(1).text) == ["null", "int"]
    with pytest.raises(RecordError, match="not registered under t-value"):
        avro_converter(MemoryRegistry(), auto_register=False).restore(column)


def test_avro_schemas_may_refer_to_others() -> None:
    inner = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}
    outer = {
        "type": "record",
        "name": "Box",
        "namespace": "a.b",
        "fields": [{"name": "one", "type": "c.Item"}, {"name": "two", "type": "c.Item"}],
    }
    inner["namespace"] = "c"
    registry = MemoryRegistry(
        avro_schema(inner), avro_schema(outer, SchemaReference("c.Item", "t-value", 1))
    )

    column = one_column(avro_converter(registry), framed(2, b"\x02\x04"))

    assert column.array.to_pylist() == [{"one": {"n": 1}, "two": {"n": 2}}]


def test_a_change_of_schema_is_a_piece_and_a_bad_message_costs_no_other() -> None:
    registry = MemoryRegistry(avro_schema("int"), avro_schema("string"))
    values = [
        framed(1, b"\x02"),
        framed(2, b"\x02a"),
        framed(2, b"\x09"),  # cut short
        b"plain",
        framed(2, b"\x02b"),
        framed(9, b""),  # an id that the registry does not have
    ]

    with answering_paths({"/schemas/ids/9": (404, b"{}")}) as url:
        registry._urls = [url]
        pieces = list(avro_converter(registry).convert(binary(*values)))

    assert_covers(pieces, 6)
    told = [
        piece.result.message
        if isinstance(piece.result, RecordError)
        else piece.result.array.to_pylist()
        for piece in pieces
    ]
    assert told[0] == [1] and told[1] == ["a"] and told[4] == ["b"]
    assert "Avro schema" in told[2]
    assert "no schema id in front" in told[3]
    assert "schema id 9" in told[5]


def test_bytes_behind_an_avro_value_are_an_error() -> None:
    converter = avro_converter(MemoryRegistry(avro_schema("int")))

    (piece,) = converter.convert(binary(framed(1, b"\x02\x02")))

    assert isinstance(piece.result, RecordError)


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1) | st.just("bad"), max_size=8))
def test_avro_values_between_nulls_and_damage_stand_where_they_were(rows: list[Any]) -> None:
    made = {None: None, "bad": framed(1, b"\xff")}
    values = [made[row] if row in made else framed(1, avro_bytes("int", row)) for row in rows]

    pieces = list(avro_converter(MemoryRegistry(avro_schema("int"))).convert(binary(*values)))

    assert_covers(pieces, len(rows))
    found: list[Any] = []
    for piece in pieces:
        result = piece.result
        found += ["bad"] if isinstance(result, RecordError) else result.array.to_pylist()
    assert found == rows
    assert sum(isinstance(piece.result, RecordError) for piece in pieces) == rows.count("bad")


@given(st.lists(st.none() | st.binary(max_size=12), max_size=6))
def test_no_message_makes_a_registry_converter_fail_as_a_whole(values: list[bytes | None]) -> None:
    registry = MemoryRegistry(avro_schema("int"))
    known = [value if value is None else b"\x00\x00\x00\x00\x01" + value for value in values]

    assert_covers(list(avro_converter(registry).convert(binary(*known))), len(values))


def test_a_slice_of_an_array_is_decoded_as_it_stands() -> None:
    whole = binary(framed(9, b""), framed(1, b"\x02"), None, framed(1, b"\x04"), b"x")

    (piece,) = avro_converter(MemoryRegistry(avro_schema("int"))).convert(whole.slice(1, 3))

    assert isinstance(piece.result, Column)
    assert (piece.start, piece.stop) == (0, 3)
    assert piece.result.array.to_pylist() == [1, None, 2]
