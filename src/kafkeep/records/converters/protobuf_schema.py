"""Convert Protobuf messages to Connect schemas and values, as Confluent's converter does; pure.

By default, every field is optional and enums are texts. A oneof is a struct with an optional member
for each of its fields. Google's timestamp, date and time of day become Connect's types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

from google.protobuf.descriptor import (  # type: ignore[import-untyped]
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    OneofDescriptor,
)

from kafkeep.errors import RecordError
from kafkeep.options.sink.converter_settings import ProtobufSettings
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Kind, Schema

SPACE = "io.confluent.connect.protobuf"
_TAG = f"{SPACE}.Tag"
_TYPE = f"{SPACE}.Type"
_ENUM = f"{SPACE}.Enum"
_UNION = f"{SPACE}.Union"

_KINDS = {
    FieldDescriptor.TYPE_INT32: Kind.INT32,
    FieldDescriptor.TYPE_SINT32: Kind.INT32,
    FieldDescriptor.TYPE_SFIXED32: Kind.INT32,
    FieldDescriptor.TYPE_UINT32: Kind.INT64,
    FieldDescriptor.TYPE_FIXED32: Kind.INT64,
    FieldDescriptor.TYPE_INT64: Kind.INT64,
    FieldDescriptor.TYPE_UINT64: Kind.INT64,
    FieldDescriptor.TYPE_SINT64: Kind.INT64,
    FieldDescriptor.TYPE_FIXED64: Kind.INT64,
    FieldDescriptor.TYPE_SFIXED64: Kind.INT64,
    FieldDescriptor.TYPE_FLOAT: Kind.FLOAT32,
    FieldDescriptor.TYPE_DOUBLE: Kind.FLOAT64,
    FieldDescriptor.TYPE_BOOL: Kind.BOOLEAN,
    FieldDescriptor.TYPE_STRING: Kind.STRING,
    FieldDescriptor.TYPE_BYTES: Kind.BYTES,
}
_TYPE_NAMES = {
    FieldDescriptor.TYPE_SINT32: "sint32",
    FieldDescriptor.TYPE_SFIXED32: "sfixed32",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_FIXED32: "fixed32",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_SINT64: "sint64",
    FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_SFIXED64: "sfixed64",
}
WRAPPERS = {
    "google.protobuf.DoubleValue": Kind.FLOAT64,
    "google.protobuf.FloatValue": Kind.FLOAT32,
    "google.protobuf.Int64Value": Kind.INT64,
    "google.protobuf.UInt64Value": Kind.INT64,
    "google.protobuf.Int32Value": Kind.INT32,
    "google.protobuf.UInt32Value": Kind.INT64,
    "google.protobuf.BoolValue": Kind.BOOLEAN,
    "google.protobuf.StringValue": Kind.STRING,
    "google.protobuf.BytesValue": Kind.BYTES,
}
TIMES = {
    "google.protobuf.Timestamp": Schema(kind=Kind.INT64, name=TIMESTAMP, version=1),
    "google.type.Date": Schema(kind=Kind.INT32, name=DATE, version=1),
    "google.type.TimeOfDay": Schema(kind=Kind.INT32, name=TIME, version=1),
}
DECIMAL_MESSAGE = "confluent.type.Decimal"


class RecursiveMessageError(Exception):
    """The message is recursive, so no column can hold it."""


def real_oneofs(message: Descriptor) -> list[OneofDescriptor]:
    """Return the declared oneofs, without those that protoc adds for optional proto3 fields."""
    return [one for one in message.oneofs if not _is_synthetic(one)]


def real_oneof(field: FieldDescriptor) -> OneofDescriptor | None:
    """Return the declared oneof that a field belongs to, or None."""
    oneof = field.containing_oneof
    return None if oneof is None or _is_synthetic(oneof) else oneof


def _is_synthetic(oneof: OneofDescriptor) -> bool:
    return len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}"


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a repeated field is a map."""
    message = field.message_type
    return message is not None and message.GetOptions().map_entry


def union_name(oneof: OneofDescriptor, settings: ProtobufSettings) -> str:
    """Return the name of the struct that represents a oneof."""
    number = oneof.containing_type.oneofs.index(oneof)
    return f"{oneof.name}_{number}" if settings.index_for_unions else str(oneof.name)


class ProtoReading:
    """The state of converting one message type to a Connect schema."""

    def __init__(self, settings: ProtobufSettings) -> None:
        self.settings = settings
        self.open: list[str] = []

    def root(self, message: Descriptor) -> Schema:
        """Return the schema of whole values."""
        if self.settings.wrapper_for_raw and message.full_name in WRAPPERS:
            return Schema(kind=WRAPPERS[message.full_name])
        return self.struct(message)

    def struct(self, message: Descriptor) -> Schema:
        """Return the struct of a message: first its oneofs, then the fields outside of oneofs."""
        if message.full_name in self.open:
            raise RecursiveMessageError(message.full_name)
        self.open.append(message.full_name)
        fields: list[Field] = []
        for oneof in real_oneofs(message):
            members = [Field(f.name, self._member(f)) for f in oneof.fields]
            if self.settings.flatten_unions:
                fields += members
            else:
                name = f"{_UNION}.{oneof.full_name if self.settings.enhanced else oneof.name}"
                union = Schema(kind=Kind.STRUCT, name=name, optional=True, fields=tuple(members))
                fields.append(Field(union_name(oneof, self.settings), union))
        fields += [Field(f.name, self._field(f)) for f in message.fields if real_oneof(f) is None]
        self.open.pop()
        name = message.full_name if self.settings.enhanced else message.name
        return Schema(kind=Kind.STRUCT, name=name, fields=tuple(fields))

    def _member(self, field: FieldDescriptor) -> Schema:
        return self._field(field).as_optional()

    def _field(self, field: FieldDescriptor) -> Schema:
        schema = self._single(field)
        if field.is_repeated and schema.kind is not Kind.MAP:
            schema = Schema(kind=Kind.ARRAY, items=schema.as_optional(), optional=True)
        if self.settings.optional_for_nullables:
            optional = schema.optional or has_optional_keyword(field)
        else:
            optional = schema.optional or not self.settings.wrapper_for_nullables
        return _with(schema.as_optional(optional), (_TAG, str(field.number)))

    def _single(self, field: FieldDescriptor) -> Schema:
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self._enum(field)
        if field.message_type is not None:
            return self._message(field).as_optional()
        small = {"int8": Kind.INT8, "int16": Kind.INT16}.get(
            field_meta(field, "connect.type") or ""
        )
        kind = _KINDS[field.type]
        if kind is Kind.INT32 and small is not None:
            return Schema(kind=small)
        name = _TYPE_NAMES.get(field.type)
        return _with(Schema(kind=kind), *([(_TYPE, name)] if name else []))

    def _message(self, field: FieldDescriptor) -> Schema:
        message = field.message_type
        if is_map(field):
            key, value = (self._field(message.fields_by_name[one]) for one in ("key", "value"))
            name = _map_name(message.full_name if self.settings.enhanced else message.name)
            return Schema(kind=Kind.MAP, name=name, keys=key, items=value)
        if message.full_name in TIMES:
            return TIMES[message.full_name]
        if message.full_name == DECIMAL_MESSAGE:
            scale = ("scale", field_meta(field, "scale") or "0")
            schema = Schema(kind=Kind.BYTES, name=DECIMAL, version=1, parameters=(scale,))
            precision = field_meta(field, "precision")
            return _with(schema, *([("connect.decimal.precision", precision)] if precision else []))
        if self.settings.wrapper_for_nullables and message.full_name in WRAPPERS:
            return Schema(kind=WRAPPERS[message.full_name])
        return self.struct(message)

    def _enum(self, field: FieldDescriptor) -> Schema:
        enum = field.enum_type
        kind = Kind.INT32 if self.settings.int_for_enums else Kind.STRING
        name = enum.full_name if self.settings.enhanced else enum.name
        values = [(f"{_ENUM}.{value.name}", str(value.number)) for value in enum.values]
        return _with(Schema(kind=kind, name=name, optional=True), (_ENUM, enum.name), *values)


def has_optional_keyword(field: FieldDescriptor) -> bool:
    """Return whether an absent field differs from a field with its default value."""
    if field.is_repeated or real_oneof(field) is not None:
        return False
    return bool(field.has_presence) and field.message_type is None


def field_meta(field: FieldDescriptor, name: str) -> str | None:
    """Return a parameter of Confluent's ``field_meta`` option."""
    extension = field.file.pool.FindExtensionByName  # of the pool that the schema was compiled into
    try:
        found = extension("confluent.field_meta")
    except KeyError:
        return None
    options: Any = field.GetOptions()
    for known, value in options.ListFields():
        if known.full_name == found.full_name:
            return dict(value.params).get(name)
    return None


def _with(schema: Schema, *parameters: tuple[str, str]) -> Schema:
    return replace(schema, parameters=tuple(sorted((*schema.parameters, *parameters))))


def _map_name(entry: str) -> str:
    """Return the field name for a map entry: ``AddressBookEntry`` becomes ``address_book``."""
    space, dot, name = entry.rpartition(".")
    words = re.sub(r"(?<=.)([A-Z])", r"_\1", name.removesuffix("Entry")).lower()
    return f"{space}{dot}{words}"


Change = Callable[[Any], Any]
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def to_column(message: Descriptor, settings: ProtobufSettings) -> Change:
    """Return a function from a whole message to a value that ``pa.array`` takes."""
    if settings.wrapper_for_raw and message.full_name in WRAPPERS:
        return _wrapped
    return _struct(message, settings)


def _struct(message: Descriptor, settings: ProtobufSettings) -> Change:
    steps: list[tuple[str, Change]] = []
    for oneof in real_oneofs(message):
        steps += _union_steps(oneof, settings)
    for field in message.fields:
        if real_oneof(field) is None:
            steps.append((field.name, _member(field, settings)))
    return lambda value: {name: step(value) for name, step in steps}


def _union_steps(oneof: OneofDescriptor, settings: ProtobufSettings) -> list[tuple[str, Change]]:
    changes = {field.name: _single(field, settings) for field in oneof.fields}
    if settings.flatten_unions:
        return [(field.name, _present(field.name, changes[field.name])) for field in oneof.fields]

    def chosen(value: Any) -> Any:
        name = value.WhichOneof(oneof.name)
        return None if name is None else {name: changes[name](getattr(value, name))}

    return [(union_name(oneof, settings), chosen)]


def _member(field: FieldDescriptor, settings: ProtobufSettings) -> Change:
    """Return a function that reads a field of a message; it returns None for an absent field."""
    name = field.name
    if is_map(field):
        return _map(field, settings)
    change = _single(field, settings)
    if field.is_repeated:
        return lambda value: [change(one) for one in getattr(value, name)]
    if field.message_type is not None or has_optional_keyword(field):
        return _present(name, change)
    return lambda value: change(getattr(value, name))


def _present(name: str, change: Change) -> Change:
    return lambda value: change(getattr(value, name)) if value.HasField(name) else None


def _map(field: FieldDescriptor, settings: ProtobufSettings) -> Change:
    name = field.name
    change = _single(field.message_type.fields_by_name["value"], settings)
    # Protobuf maps have no order. Sorting by key gives the same order everywhere.
    return lambda value: [(key, change(one)) for key, one in sorted(getattr(value, name).items())]


def _single(field: FieldDescriptor, settings: ProtobufSettings) -> Change:
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _same if settings.int_for_enums else _enum(field.enum_type)
    if field.message_type is not None:
        return _message(field.message_type, settings)
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return _signed
    return _same


def _message(message: Descriptor, settings: ProtobufSettings) -> Change:
    if message.full_name in _KNOWN:
        return _KNOWN[message.full_name]
    if settings.wrapper_for_nullables and message.full_name in WRAPPERS:
        return _wrapped
    return _struct(message, settings)


def _enum(enum: EnumDescriptor) -> Change:
    names = {value.number: value.name for value in reversed(enum.values)}
    return lambda number: names.get(number) or f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}"


def _same(value: Any) -> Any:
    return value


def _signed(value: int) -> int:
    """Convert an unsigned 64-bit number to Java's signed long."""
    return value - 2**64 if value >= 2**63 else value


def _wrapped(value: Any) -> Any:
    found = value.value
    return _signed(found) if isinstance(found, int) and not isinstance(found, bool) else found


def _timestamp(value: Any) -> int:
    return int(value.seconds * 1000 + value.nanos // 1_000_000)


def _date(value: Any) -> int:
    try:
        return date(value.year, value.month, value.day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise RecordError(f"{value.year}-{value.month}-{value.day} is no date") from error


def _time_of_day(value: Any) -> int:
    seconds = (value.hours * 60 + value.minutes) * 60 + value.seconds
    return int(seconds * 1000 + value.nanos // 1_000_000)


def _decimal(value: Any) -> bytes:
    return bytes(value.value)


_KNOWN: dict[str, Change] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.type.Date": _date,
    "google.type.TimeOfDay": _time_of_day,
    DECIMAL_MESSAGE: _decimal,
}
