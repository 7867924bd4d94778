"""JSON documents with a JSON Schema in a registry, into columns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.converting import MemoryRegistry, binary, framed, one_column

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.errors import RecordError
from kafkeep.options.sink.converter_settings import JsonSchemaSettings, ProtobufSettings
from kafkeep.records.converters.converter import TopicSubject
from kafkeep.records.converters.json_schema import JsonSchemaConverter
from kafkeep.records.converters.protobuf import ProtobufConverter
from kafkeep.records.schema import DATE, OPTIONAL_BYTES, Column, Kind


def json_converter(told: Any, **settings: Any) -> JsonSchemaConverter:
    registry = MemoryRegistry(RegisteredSchema("JSON", json.dumps(told)))
    made = JsonSchemaSettings(urls=("http://x",), **settings)
    return JsonSchemaConverter(made, registry, TopicSubject("value", "t"))


def document(value: Any) -> bytes:
    return framed(1, json.dumps(value).encode())


PERSON = {
    "title": "Person",
    "type": "object",
    "required": ["name"],
    "properties": {
        "age": {"type": "integer", "connect.type": "int32", "connect.index": 1},
        "name": {"type": "string", "connect.index": 0},
        "mail": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 2},
        "tags": {"type": "array", "items": {"type": "string"}, "connect.index": 3},
        "scores": {
            "type": "object",
            "connect.type": "map",
            "additionalProperties": {"type": "number"},
            "connect.index": 4,
        },
        "photo": {"type": "string", "connect.type": "bytes", "connect.index": 5},
        "born": {
            "type": "integer",
            "title": DATE,
            "connect.type": "int32",
            "connect.version": 1,
            "connect.index": 6,
        },
        "kind": {"enum": ["a", "b"], "connect.index": 7},
        "home": {"$ref": "#/definitions/Place", "connect.index": 8},
    },
    "definitions": {
        "Place": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
ADA = {
    "name": "Ada",
    "age": 36,
    "mail": None,
    "tags": ["x"],
    "scores": {"a": 1},
    "photo": "/w==",
    "born": 20060,
    "kind": "a",
    "home": {"city": "London"},
    "more": "is left out",
}


def test_json_schema_gives_a_struct_in_connects_order() -> None:
    column = one_column(json_converter(PERSON), document(ADA), None)

    assert column.schema is not None
    assert (column.schema.name, column.schema.version) == ("Person", 1)
    kinds = [
        (field.name, field.schema.kind, field.schema.optional) for field in column.schema.fields
    ]
    # home is a reference: everything beside $ref is not read, its index neither.
    assert sorted(kinds) == sorted(
        [
            ("name", Kind.STRING, False),
            ("age", Kind.INT32, False),
            ("mail", Kind.STRING, True),
            ("tags", Kind.ARRAY, False),
            ("scores", Kind.MAP, False),
            ("photo", Kind.BYTES, False),
            ("born", Kind.INT32, False),
            ("kind", Kind.STRING, False),
            ("home", Kind.STRUCT, False),
        ]
    )
    assert [name for name, _, _ in kinds][:8] == [
        "name", "age", "mail", "tags", "scores", "photo", "born", "kind",
    ]  # fmt: skip
    wanted = ADA | {"scores": [("a", 1.0)], "photo": b"\xff"}
    wanted.pop("more")
    assert column.array.to_pylist() == [wanted, None]


def test_a_missing_property_is_an_error_unless_it_may_be() -> None:
    told = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    }

    (refused,) = json_converter(told).convert(binary(document({"a": 1})))
    loose = json_converter(told, optional_for_nonrequired=True)
    column = one_column(loose, document({"a": 1}))

    assert isinstance(refused.result, RecordError)
    assert refused.result.message.startswith("field b:")
    assert "use.optional.for.nonrequired" in (refused.result.hint or "")
    assert column.array.to_pylist() == [{"a": 1, "b": None}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", 1.5),
        ("integer", True),
        ("integer", "1"),
        ("integer", 2**70),
        ("number", "1"),
        ("boolean", 1),
        ("string", 1),
        ("array", {}),
    ],
)
def test_a_value_of_another_type_is_an_error_not_another_value(kind: str, value: Any) -> None:
    told = {"type": kind, "items": {"type": "string"}}

    (piece,) = json_converter(told).convert(binary(document(value)))

    assert isinstance(piece.result, RecordError)


def test_a_choice_of_types_is_a_struct_with_one_member_set() -> None:
    told = {
        "oneOf": [
            {"type": "string"},
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"type": "object", "properties": {"b": {"type": "integer"}}},
        ]
    }

    column = one_column(json_converter(told), document("x"), document({"b": 1}))

    start = "io.confluent.connect.json.OneOf.field."
    assert column.array.to_pylist() == [
        {f"{start}0": "x", f"{start}1": None, f"{start}2": None},
        {f"{start}0": None, f"{start}1": None, f"{start}2": {"b": 1}},
    ]


@pytest.mark.parametrize(
    "told",
    [
        {},
        True,
        {"type": "object"},
        {"type": "array"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"$ref": "other.json"},
    ],
)
def test_what_connect_cannot_express_stays_json(told: Any) -> None:
    value = b'{ "z": 1.50,\r\n "a": [1e400, "\\n"] }\n'

    column = one_column(json_converter(told), framed(1, value), None)

    assert column.schema is None
    assert column.array.to_pylist() == [b'{ "z": 1.50, "a": [1e400, "\\n"] }', None]


def test_a_message_that_is_no_json_is_an_error() -> None:
    for told in (PERSON, {}):
        (piece,) = json_converter(told).convert(binary(framed(1, b"{")))
        assert isinstance(piece.result, RecordError)


def test_restoring_json_schema_and_protobuf_is_refused_with_a_way_out() -> None:
    column = Column(OPTIONAL_BYTES, binary(b""))
    registry = MemoryRegistry()
    protobuf = ProtobufConverter(
        ProtobufSettings(urls=("http://x",)), registry, TopicSubject("value", "t")
    )

    for converter in (json_converter({}), protobuf):
        with pytest.raises(RecordError) as refusal:
            converter.restore(column)
        assert "JsonConverter" in (refusal.value.hint or "")
