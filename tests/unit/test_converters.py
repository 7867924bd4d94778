"""Converters: bytes of Kafka into columns, and back."""

from __future__ import annotations

import io
import json
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_cases import load_case
from kafkeep.config.converter_settings import AvroSettings, JsonSchemaSettings, ProtobufSettings
from kafkeep.config.converters import (
    ConverterClass,
    is_secret_key,
    known_subkeys,
    parse_class,
    parse_converter,
    unknown_subkeys,
)
from kafkeep.config.group import ConfigErrors
from kafkeep.converters.avro import AvroConverter
from kafkeep.converters.converter import Converter, Piece
from kafkeep.converters.json_schema import JsonSchemaConverter
from kafkeep.converters.open import open_converter
from kafkeep.converters.protobuf import ProtobufConverter
from kafkeep.converters.sinetstream import MESSAGE, SinetStreamConverter, fill_times
from kafkeep.converters.subjects import Subject
from kafkeep.data.column import OPTIONAL_BYTES, OPTIONAL_STRING, Column
from kafkeep.data.rows import HEADERS_TYPE, Rows
from kafkeep.data.schema import DATE, DECIMAL, TIMESTAMP, Kind, Schema
from kafkeep.errors import AccessDeniedError, RecordError, TransientError, UsageError
from kafkeep.registry.client import Registry
from kafkeep.registry.schema import Reference, RegisteredSchema

APACHE = "org.apache.kafka.connect"


class MemoryRegistry(Registry):
    """A registry whose answers are already there; ``register`` hands out the next number."""

    def __init__(self, *schemas: RegisteredSchema, subject: str = "t-value") -> None:
        super().__init__(("http://127.0.0.1:9",))
        self.subject = subject
        for number, schema in enumerate(schemas, 1):
            self._add(number, schema)

    def _add(self, number: int, schema: RegisteredSchema) -> None:
        self._schemas[number] = schema
        self._versions[number] = {self.subject: number}
        self._named[self.subject, number] = schema

    def find(self, subject: str, schema: RegisteredSchema) -> int | None:
        return next((n for n, known in self._schemas.items() if known == schema), None)

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        self._add(len(self._schemas) + 1, schema)
        return len(self._schemas)


def binary(*values: bytes | None) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def framed(schema_id: int, data: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + data


def columns(converter: Converter, *values: bytes | None) -> list[Column]:
    pieces = list(converter.convert(binary(*values)))
    assert_covers(pieces, len(values))
    return [piece.result for piece in pieces if isinstance(piece.result, Column)]


def one_column(converter: Converter, *values: bytes | None) -> Column:
    (column,) = columns(converter, *values)
    assert len(column) == len(values)
    return column


def assert_covers(pieces: list[Piece], count: int) -> None:
    """Pieces are in order and leave nothing out; an error stands for one record."""
    assert [piece.start for piece in pieces] == [0, *(p.stop for p in pieces)][: len(pieces)]
    assert (pieces[-1].stop if pieces else 0) == count
    for piece in pieces:
        if isinstance(piece.result, Column):
            assert len(piece.result) == piece.stop - piece.start
        else:
            assert piece.stop == piece.start + 1


def opened(name: str, **more: str) -> Converter:
    given_keys = {"value.converter": name} | {
        f"value.converter.{key}": text for key, text in more.items()
    }
    options = parse_converter("value", given_keys)
    assert options is not None
    return open_converter("value", options)


# What a configuration says


def test_every_known_class_is_found_by_its_name_and_by_its_last_part() -> None:
    for kind in ConverterClass:
        assert parse_class(kind.value) is kind
        assert parse_class(kind.value.rpartition(".")[2]) is kind


def test_sinetstreams_class_is_found_in_any_package() -> None:
    assert parse_class("jp.ad.sinet.stream.x.SinetStreamConverter") is ConverterClass.SINETSTREAM


@pytest.mark.parametrize("name", ["com.acme.JsonConverter", "nonsense", ""])
def test_an_unknown_class_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_class(name)

    assert name in refusal.value.message
    assert ConverterClass.AVRO.value in (refusal.value.hint or "")


def test_a_subkey_without_a_meaning_is_refused_by_name_unless_allowed() -> None:
    config = {
        "value.converter": ConverterClass.STRING.value,
        "value.converter.schemas.enable": "false",
    }

    with pytest.raises(ConfigErrors) as refusal:
        parse_converter("value", config)
    allowed = parse_converter("value", config, unknown="allow")

    assert list(refusal.value.by_key) == ["value.converter.schemas.enable"]
    assert unknown_subkeys("value", config) == ("value.converter.schemas.enable",)
    assert allowed is not None and allowed.shape == {}
    assert "schemas.enable" in known_subkeys(ConverterClass.JSON)


def test_secrets_stand_apart_from_what_shapes_objects() -> None:
    options = parse_converter(
        "value",
        {
            "value.converter": ConverterClass.AVRO.value,
            "value.converter.schema.registry.url": "http://registry:8081",
            "value.converter.basic.auth.credentials.source": "USER_INFO",
            "value.converter.basic.auth.user.info": "me:hidden",
            "value.converter.enhanced.avro.schema.support": "true",
        },
    )

    assert options is not None
    assert options.shape == {"enhanced.avro.schema.support": "true"}
    assert options.place.keys() == {"schema.registry.url", "basic.auth.credentials.source"}
    assert options.secrets == {"basic.auth.user.info": "me:hidden"}
    assert "hidden" not in repr(options) + repr(options.settings(AvroSettings))
    assert is_secret_key("value.converter.basic.auth.user.info")
    assert not is_secret_key("value.converter.schema.registry.url")


def test_a_password_in_an_address_is_a_secret_too() -> None:
    url = "http://me:hidden@registry:8081"
    config = {
        "key.converter": ConverterClass.AVRO.value,
        "key.converter.schema.registry.url": url,
    }

    options = parse_converter("key", config)

    assert options is not None and options.secrets == {"schema.registry.url": url}
    assert "hidden" not in repr(options) + repr(options.settings(AvroSettings))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("schema.registry.url", "registry:8081"),
        ("use.latest.version", "true"),
        ("basic.auth.credentials.source", "SASL_INHERIT"),
        ("basic.auth.credentials.source", "USER_INFO"),
        ("bearer.auth.credentials.source", "STATIC_TOKEN"),
        ("schema.registry.ssl.truststore.type", "JKS"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(key: str, text: str) -> None:
    config = {
        "value.converter": ConverterClass.AVRO.value,
        "value.converter.schema.registry.url": "http://registry:8081",
        f"value.converter.{key}": text,
    }

    with pytest.raises(ConfigErrors) as refusal:
        parse_converter("value", config)

    assert all(name.startswith("value.converter.") for name in refusal.value.by_key)


def test_a_registry_must_be_named() -> None:
    with pytest.raises(ConfigErrors, match=r"value\.converter\.schema\.registry\.url"):
        parse_converter("value", {"value.converter": ConverterClass.PROTOBUF.value})


@pytest.mark.parametrize(
    ("role", "name"),
    [("header", ConverterClass.AVRO), ("value", ConverterClass.SIMPLE_HEADER)],
)
def test_a_converter_of_another_role_is_refused(role: Any, name: ConverterClass) -> None:
    with pytest.raises(ConfigErrors, match=rf"{role}\.converter"):
        parse_converter(role, {f"{role}.converter": name.value})


def test_no_class_is_no_converter() -> None:
    assert parse_converter("header", {}) is None


# Texts, bytes and numbers


def test_strings_are_those_of_the_real_sink() -> None:
    case = load_case("09")
    by_offset = {(record.partition, record.offset): record for record in case.records}
    converter, seen = opened(ConverterClass.STRING), 0

    for key in case.objects:
        partition, start = (int(part) for part in key.rpartition(".")[0].split("+")[-2:])
        for i, text in enumerate(case.rows(key).rows):
            column = one_column(converter, by_offset[partition, start + i].value)
            assert column.schema == OPTIONAL_STRING
            assert column.array.to_pylist() == [text]
            seen += 1

    assert seen == 70


def test_strings_of_another_encoding_come_and_go() -> None:
    converter = opened(ConverterClass.STRING, **{"converter.encoding": "ISO-8859-1"})

    column = one_column(converter, b"na\xefve", None)

    assert column.array.to_pylist() == ["naïve", None]
    assert converter.restore(column).to_pylist() == [b"na\xefve", None]


@given(st.lists(st.none() | st.text().map(str.encode)))
def test_utf8_strings_come_back_as_they_were(values: list[bytes | None]) -> None:
    converter = opened(ConverterClass.STRING)

    for column in columns(converter, *values):
        assert converter.restore(column).to_pylist() == values


@pytest.mark.parametrize("name", [ConverterClass.BYTES, "x.y.AlreadyBytesConverter"])
def test_bytes_stay_as_they_are(name: str) -> None:
    column = one_column(opened(name), b"\xff\x00", None, b"")

    assert column.schema == OPTIONAL_BYTES
    assert opened(name).restore(column).to_pylist() == [b"\xff\x00", None, b""]


@pytest.mark.parametrize(
    ("name", "form", "values"),
    [
        (ConverterClass.LONG, ">q", [-(2**63), 0, 2**63 - 1]),
        (ConverterClass.INTEGER, ">i", [-(2**31), 7]),
        (ConverterClass.SHORT, ">h", [-32768, 7]),
        (ConverterClass.FLOAT, ">f", [1.5, -0.25]),
        (ConverterClass.DOUBLE, ">d", [1.1, -1e300]),
        (ConverterClass.BOOLEAN, ">?", [True, False, True]),
    ],
)
def test_numbers_are_javas_and_come_back(name: str, form: str, values: list[Any]) -> None:
    encoded = [*(struct.pack(form, value) for value in values), None]
    converter = opened(name)

    column = one_column(converter, *encoded)

    assert column.array.to_pylist() == [*values, None]
    assert converter.restore(column).to_pylist() == encoded


def test_a_number_of_another_width_is_an_error_of_its_own() -> None:
    good = struct.pack(">q", 5)

    pieces = list(opened(ConverterClass.LONG).convert(binary(b"abc", good, None, b"", good)))

    assert_covers(pieces, 5)
    assert [isinstance(piece.result, RecordError) for piece in pieces] == [True, False, True, False]


# SINETStream

ENVELOPE = bytes.fromhex("c3011f9c0c91eb33664f8096c4c7eb5b126d6573736167652030")
"""A message of SINETStream's own tests: "message 0", sent at 1577804400000."""


def test_sinetstream_envelopes_are_opened_and_closed() -> None:
    newer = b"\xdf\x03\x00\x00\x00\x00" + ENVELOPE
    column = one_column(SinetStreamConverter(), ENVELOPE, newer, None, b"plain", ENVELOPE[:-1])

    assert column.schema == MESSAGE
    assert column.array.to_pylist() == [
        {"tstamp": 1577804400000, "msg": b"message 0"},
        {"tstamp": 1577804400000, "msg": b"message 0"},
        None,
        {"tstamp": None, "msg": b"plain"},
        {"tstamp": None, "msg": ENVELOPE[:-1]},
    ]
    restored = SinetStreamConverter().restore(column).to_pylist()
    assert restored == [ENVELOPE, ENVELOPE, None, b"plain", ENVELOPE[:-1]]


def test_a_message_in_no_envelope_gets_kafkas_time() -> None:
    value = one_column(SinetStreamConverter(), ENVELOPE, b"plain")
    rows = Rows(
        topic="t",
        partition=0,
        offsets=np.array([0, 1]),
        timestamps=np.array([5, 1_700_000_000_123]),
        key=one_column(opened(ConverterClass.BYTES), None, None),
        value=value,
        headers=pa.array([[], []], HEADERS_TYPE),
    )

    times = fill_times(rows).value.array.field("tstamp").to_pylist()

    assert times == [1577804400000, 1_700_000_000_123_000]


# Avro

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


def avro_schema(told: Any, *references: Reference) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps(told), references)


def avro_bytes(told: Any, value: Any) -> bytes:
    plain = json.loads(json.dumps(told).replace('"logicalType"', '"plainType"'))
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(plain), value)
    return target.getvalue()


def avro_converter(registry: Registry, **settings: Any) -> AvroConverter:
    told = AvroSettings(urls=("http://x",), **settings)
    return AvroConverter(told, registry, Subject("value", "t"))


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
        avro_schema(inner), avro_schema(outer, Reference("c.Item", "t-value", 1))
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


# JSON Schema


def json_converter(told: Any, **settings: Any) -> JsonSchemaConverter:
    registry = MemoryRegistry(RegisteredSchema("JSON", json.dumps(told)))
    made = JsonSchemaSettings(urls=("http://x",), **settings)
    return JsonSchemaConverter(made, registry, Subject("value", "t"))


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
        ProtobufSettings(urls=("http://x",)), registry, Subject("value", "t")
    )

    for converter in (json_converter({}), protobuf):
        with pytest.raises(RecordError) as refusal:
            converter.restore(column)
        assert "JsonConverter" in (refusal.value.hint or "")


# Protobuf

PROTO = """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "other.proto";

message Unused {}
message Order {
  string id = 1;
  optional int32 amount = 2;
  uint64 big = 3;
  State state = 4;
  repeated string tags = 5;
  map<string, int64> counts = 6;
  google.protobuf.Timestamp at = 7;
  google.type.Date day = 8;
  google.protobuf.StringValue note = 9;
  oneof payment { string card = 10; Cash cash = 11; }
  Item item = 12;
  enum State { NEW = 0; SENT = 1; }
  message Cash { double given = 1; }
}
message Tree { string name = 1; repeated Tree children = 2; }
"""
OTHER = 'syntax = "proto3";\npackage shop;\nmessage Item { sint32 n = 1; }\n'


def proto_registry() -> MemoryRegistry:
    return MemoryRegistry(
        RegisteredSchema("PROTOBUF", OTHER),
        RegisteredSchema("PROTOBUF", PROTO, (Reference("other.proto", "t-value", 1),)),
    )


def proto_converter(**settings: Any) -> ProtobufConverter:
    told = ProtobufSettings(urls=("http://x",), **settings)
    return ProtobufConverter(told, proto_registry(), Subject("value", "t"))


def field(number: int, data: bytes) -> bytes:
    """A field with a length, as Protobuf writes it."""
    return bytes([number << 3 | 2, len(data)]) + data


FULL = (
    field(1, b"o1")
    + b"\x10\x05"
    + b"\x18"
    + b"\xff" * 9
    + b"\x01"
    + b"\x20\x01"
    + field(5, b"a")
    + field(5, b"b")
    + field(6, field(1, b"k") + b"\x10\x07")
    + field(7, b"\x08\x02\x10\xc0\x84\x3d")
    + field(8, b"\x08\xe8\x0f\x10\x0c\x18\x03")
    + field(9, field(1, b"hi"))
    + field(11, b"\x09" + struct.pack("<d", 2.5))
    + field(12, b"\x08\x03")
)


def test_protobuf_messages_become_confluents_structs() -> None:
    # The second message of the file: one number, 1, both as zigzag.
    column = one_column(proto_converter(), framed(2, b"\x02\x02" + FULL), framed(2, b"\x02\x02"))

    assert column.schema is not None
    assert (column.schema.name, column.schema.version) == ("Order", 2)
    assert [f.name for f in column.schema.fields] == [
        "payment_0", "id", "amount", "big", "state", "tags", "counts", "at", "day", "note", "item",
    ]  # fmt: skip
    assert all(f.schema.optional for f in column.schema.fields)
    full, empty = column.array.to_pylist()
    assert full == {
        "payment_0": {"card": None, "cash": {"given": 2.5}},
        "id": "o1",
        "amount": 5,
        "big": -1,
        "state": "SENT",
        "tags": ["a", "b"],
        "counts": [("k", 7)],
        "at": 2001,
        "day": 20060,
        "note": {"value": "hi"},
        "item": {"n": -2},
    }
    assert empty == {
        "payment_0": None,
        "id": "",
        "amount": None,
        "big": 0,
        "state": "NEW",
        "tags": [],
        "counts": [],
        "at": None,
        "day": None,
        "note": None,
        "item": None,
    }


def test_protobuf_settings_change_the_form() -> None:
    converter = proto_converter(
        flatten_unions=True, int_for_enums=True, wrapper_for_nullables=True, enhanced=True
    )

    column = one_column(converter, framed(2, b"\x02\x02" + FULL))

    assert column.schema is not None and column.schema.name == "shop.Order"
    (row,) = column.array.to_pylist()
    assert (row["card"], row["cash"], row["state"], row["note"]) == (None, {"given": 2.5}, 1, "hi")


def test_protobuf_messages_of_one_schema_may_be_of_several_types() -> None:
    cash = framed(2, b"\x04\x02\x00" + b"\x09" + struct.pack("<d", 1.0))  # Order.Cash: 1, 0
    first = framed(2, b"\x00")  # short for the first message

    made = columns(proto_converter(), cash, first, cash)

    assert [column.schema.name for column in made if column.schema] == ["Cash", "Unused", "Cash"]
    assert made[0].array.to_pylist() == [{"given": 1.0}]


def test_a_protobuf_message_that_contains_itself_stays_json() -> None:
    tree = field(1, b"top") + field(2, field(1, b"leaf"))

    column = one_column(proto_converter(), framed(2, b"\x02\x04" + tree))

    assert column.schema is None
    wanted = {"name": "top", "children": [{"name": "leaf"}]}
    assert json.loads(column.array.to_pylist()[0]) == wanted


@pytest.mark.parametrize("tail", [b"", b"\x02", b"\x02\x7f", b"\x02\x02\x0a\x05a", b"\x08\x02"])
def test_a_damaged_protobuf_message_is_an_error(tail: bytes) -> None:
    (piece,) = proto_converter().convert(binary(framed(2, tail)))

    assert isinstance(piece.result, RecordError)


def test_a_schema_that_does_not_compile_is_an_error_of_its_records(
    capfd: pytest.CaptureFixture[str],
) -> None:
    registry = MemoryRegistry(RegisteredSchema("PROTOBUF", 'syntax = "proto3";\nmessage'))
    converter = ProtobufConverter(
        ProtobufSettings(urls=("http://x",)), registry, Subject("value", "t")
    )

    (piece,) = converter.convert(binary(framed(1, b"\x00")))

    assert isinstance(piece.result, RecordError)
    assert "protoc" in piece.result.message
    assert "registered.proto" in capfd.readouterr().err


@given(st.lists(st.none() | st.binary(max_size=12), max_size=6))
def test_no_message_makes_a_registry_converter_fail_as_a_whole(values: list[bytes | None]) -> None:
    registry = MemoryRegistry(avro_schema("int"))
    known = [value if value is None else b"\x00\x00\x00\x00\x01" + value for value in values]

    assert_covers(list(avro_converter(registry).convert(binary(*known))), len(values))


# The client

Answer = tuple[int, bytes]


@contextmanager
def answering(answers: Callable[[str], Answer]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server on this machine that answers GET requests; it keeps what it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append({"path": self.path} | dict(self.headers))
            status, body = answers(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def answering_paths(answers: dict[str, Answer]) -> Iterator[str]:
    with answering(answers.__getitem__) as (url, _):
        yield url


def test_the_registry_is_asked_once_for_each_id_with_credentials() -> None:
    with answering(lambda _: (200, b'{"schema": "\\"int\\""}')) as (url, asked):
        registry = Registry((url,), user=("me", "hidden"))
        schemas = [registry.schema(7), registry.schema(7)]

    assert schemas == [RegisteredSchema("AVRO", '"int"')] * 2
    assert [one["path"] for one in asked] == ["/schemas/ids/7"]
    assert asked[0]["authorization"] == "Basic bWU6aGlkZGVu"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, RecordError), (401, AccessDeniedError), (403, AccessDeniedError), (422, RecordError)],
)
def test_a_refusal_is_told_apart_by_its_kind(status: int, kind: type[Exception]) -> None:
    with (
        answering(lambda _: (status, b"{}")) as (url, asked),
        pytest.raises(kind) as refusal,
    ):
        Registry((url,)).schema(41)

    assert len(asked) == 1
    assert refusal.type is kind
    if status == 404:
        assert "schema id 41" in str(refusal.value)


def test_a_registry_that_fails_is_asked_again_and_then_given_up_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkeep.registry.client._PAUSE_S", 0.001)
    states = iter([500, 503, 200])
    with answering(lambda _: (next(states), b'{"schema": "\\"int\\""}')) as (url, asked):
        assert Registry((url,)).schema(1).text == '"int"'
    assert len(asked) == 3

    with answering(lambda _: (500, b"")) as (url, _), pytest.raises(TransientError, match="500"):
        Registry((url,)).schema(1)


def test_the_next_address_is_taken_when_one_does_not_answer() -> None:
    with answering(lambda _: (200, b'["a"]')) as (url, _):
        assert Registry(("http://127.0.0.1:1", url)).subjects() == ["a"]


def test_a_page_that_is_no_registry_is_named() -> None:
    with (
        answering(lambda _: (200, b"<html>")) as (url, _),
        pytest.raises(UsageError, match="does not answer like"),
    ):
        Registry((url,)).subjects()


def test_versions_of_other_subjects_count_only_when_they_agree() -> None:
    registry = MemoryRegistry(avro_schema("int"))
    registry._versions[1] = {"a-value": 3, "b-value": 3}
    other = Subject("value", "t")

    assert other.version(registry, 1) == 3
    registry._versions[1] = {"a-value": 3, "b-value": 4}
    assert other.version(registry, 1) is None
    assert replace(other, topic="b").version(registry, 1) == 4
