"""Protobuf messages with a registry, into columns."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from tests.support.converting import MemoryRegistry, binary, columns, framed, one_column

from kafkeep.archive.schemas import RegisteredSchema, SchemaReference
from kafkeep.errors import RecordError
from kafkeep.options.sink.converter_settings import ProtobufSettings
from kafkeep.records.converters.converter import TopicSubject
from kafkeep.records.converters.protobuf import ProtobufConverter

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
        RegisteredSchema("PROTOBUF", PROTO, (SchemaReference("other.proto", "t-value", 1),)),
    )


def proto_converter(**settings: Any) -> ProtobufConverter:
    told = ProtobufSettings(urls=("http://x",), **settings)
    return ProtobufConverter(told, proto_registry(), TopicSubject("value", "t"))


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
        ProtobufSettings(urls=("http://x",)), registry, TopicSubject("value", "t")
    )

    (piece,) = converter.convert(binary(framed(1, b"\x00")))

    assert isinstance(piece.result, RecordError)
    assert "protoc" in piece.result.message
    assert "registered.proto" in capfd.readouterr().err
