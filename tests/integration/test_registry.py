"""Converters with a real registry: Apicurio, through Confluent's API.

Schemas are registered by plain requests and messages made by fastavro, json and Google's own
message classes, so nothing here rests on kafkeep's client but what is tested.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import urllib3
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import DoubleValue

from kafkeep.errors import RecordError
from kafkeep.options.sink.converters import ConverterClass, parse_converter
from kafkeep.records.converters.converter import Converter
from kafkeep.records.converters.open import open_converter
from kafkeep.records.schema import DATE, Column, Field, Kind, Schema, arrow_type

pytestmark = pytest.mark.integration


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def register(url: str, subject: str, body: dict[str, Any]) -> int:
    answer = urllib3.request("POST", f"{url}/subjects/{subject}/versions", json=body)
    assert answer.status == 200, answer.data
    return int(answer.json()["id"])


def opened(url: str, kind: ConverterClass, topic: str, **more: str) -> Converter:
    settings = {"schema.registry.url": url} | more
    config = {f"value.converter.{key}": text for key, text in settings.items()}
    options = parse_converter("value", {"value.converter": kind.value} | config)
    assert options is not None
    return open_converter("value", options, topic)


def framed(schema_id: int, data: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + data


def avro(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def convert(converter: Converter, *values: bytes | None) -> list[Any]:
    return [piece.result for piece in converter.convert(pa.array(values, pa.binary()))]


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    told = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "namespace": "shop", "fields": told}


def test_avro_versions_come_out_as_they_were_registered(registry_url: str, topic: str) -> None:
    v1 = record("Order", ("id", "string"))
    v2 = record("Order", ("id", "string"))
    v2["fields"].append({"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]})
    v2["fields"][1]["default"] = None
    ids = [
        register(registry_url, f"{topic}-value", {"schema": json.dumps(one)}) for one in (v1, v2)
    ]
    day = avro(record("Order", ("id", "string"), ("day", ["null", "int"])), {"id": "b", "day": 5})
    messages = [framed(ids[0], avro(v1, {"id": "a"})), None, framed(ids[1], day)]
    converter = opened(registry_url, ConverterClass.AVRO, topic)

    first, second = convert(converter, *messages)

    assert first.array.to_pylist() == [{"id": "a"}, None]
    assert second.array.to_pylist() == [{"id": "b", "day": 5}]
    assert (first.schema.version, second.schema.version) == (1, 2)
    assert second.schema.field("day").schema.name == DATE
    restored = [*converter.restore(first).to_pylist(), *converter.restore(second).to_pylist()]
    assert restored == messages


def test_avro_references_are_followed(registry_url: str, topic: str) -> None:
    item = record("Item", ("n", "int"))
    box = record("Box", ("one", "shop.Item"), ("more", {"type": "array", "items": "shop.Item"}))
    register(registry_url, f"{topic}-item", {"schema": json.dumps(item)})
    reference = {"name": "shop.Item", "subject": f"{topic}-item", "version": 1}
    body = {"schema": json.dumps(box), "references": [reference]}
    schema_id = register(registry_url, f"{topic}-value", body)
    value = {"one": {"n": 1}, "more": [{"n": 2}]}
    whole = record("Box", ("one", item), ("more", {"type": "array", "items": "shop.Item"}))

    (column,) = convert(
        opened(registry_url, ConverterClass.AVRO, topic), framed(schema_id, avro(whole, value))
    )

    assert column.array.to_pylist() == [value]


def test_restoring_avro_registers_a_schema_that_is_not_there(registry_url: str, topic: str) -> None:
    fields = (Field("id", Schema(kind=Kind.STRING)), Field("n", Schema(kind=Kind.INT16)))
    schema = Schema(kind=Kind.STRUCT, name="shop.Order", fields=fields)
    rows = [{"id": "a", "n": 7}, None]
    column = Column(schema, pa.array(rows, arrow_type(schema)))
    converter = opened(
        registry_url, ConverterClass.AVRO, topic, **{"enhanced.avro.schema.support": "true"}
    )

    messages = converter.restore(column).to_pylist()
    (again,) = convert(converter, *messages)

    assert again.array.to_pylist() == rows
    assert again.schema.name == "shop.Order" and again.schema.version == 1
    assert again.schema.fields == fields


def test_an_id_that_nobody_registered_is_named(registry_url: str, topic: str) -> None:
    (result,) = convert(opened(registry_url, ConverterClass.AVRO, topic), framed(987654, b""))

    assert isinstance(result, RecordError)
    assert "schema id 987654" in result.message


def test_json_schema_with_a_reference(registry_url: str, topic: str) -> None:
    place = {"type": "object", "title": "Place", "properties": {"city": {"type": "string"}}}
    person = {
        "type": "object",
        "title": "Person",
        "properties": {
            "name": {"type": "string"},
            "age": {"oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}]},
            "home": {"$ref": "place.json"},
        },
    }
    body = {"schema": json.dumps(place), "schemaType": "JSON"}
    register(registry_url, f"{topic}-place", body)
    reference = {"name": "place.json", "subject": f"{topic}-place", "version": 1}
    body = {"schema": json.dumps(person), "schemaType": "JSON", "references": [reference]}
    schema_id = register(registry_url, f"{topic}-value", body)
    values = [
        {"name": "Ada", "age": 36, "home": {"city": "London"}},
        {"name": "Bob", "age": None, "home": {"city": "Paris"}},
    ]

    (column,) = convert(
        opened(registry_url, ConverterClass.JSON_SCHEMA, topic),
        *(framed(schema_id, json.dumps(value).encode()) for value in values),
    )

    assert column.schema is not None and column.schema.name == "Person"
    assert column.schema.version == 1
    assert column.schema.field("age").schema.kind is Kind.INT32
    assert column.array.to_pylist() == values


def test_protobuf_with_a_reference(registry_url: str, topic: str) -> None:
    # Google's wrapper has the same bytes: field 1, a double.
    price = 'syntax = "proto3";\npackage shop;\nmessage Price { double value = 1; }\n'
    order = (
        'syntax = "proto3";\npackage shop;\nimport "price.proto";\n'
        'import "google/protobuf/timestamp.proto";\n'
        "message Order {\n  string id = 1;\n  google.protobuf.Timestamp at = 2;\n"
        "  Price price = 3;\n  repeated Kind kinds = 4;\n"
        "  enum Kind { NEW = 0; OLD = 1; }\n}\n"
    )
    body: dict[str, Any] = {"schema": price, "schemaType": "PROTOBUF"}
    register(registry_url, f"{topic}-price", body)
    reference = {"name": "price.proto", "subject": f"{topic}-price", "version": 1}
    body = {"schema": order, "schemaType": "PROTOBUF", "references": [reference]}
    schema_id = register(registry_url, f"{topic}-value", body)
    at = Timestamp(seconds=1733219880, nanos=5_000_000).SerializeToString()
    cost = DoubleValue(value=2.5).SerializeToString()
    data = (
        b"\x0a\x02o1"
        + bytes([0x12, len(at)])
        + at
        + bytes([0x1A, len(cost)])
        + cost
        + b"\x22\x02\x01\x00"
    )

    (column,) = convert(
        opened(registry_url, ConverterClass.PROTOBUF, topic),
        framed(schema_id, b"\x00" + data),
        framed(schema_id, b"\x02\x00" + data),
        None,
    )

    value = {
        "id": "o1",
        "at": 1733219880005,
        "price": {"value": 2.5},
        "kinds": ["OLD", "NEW"],
    }
    assert column.array.to_pylist() == [value, value, None]
    assert (column.schema.name, column.schema.version) == ("Order", 1)
