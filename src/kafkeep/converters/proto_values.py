"""Values of Protobuf messages, as columns of the schemas of ``proto_types`` hold them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from google.protobuf.descriptor import (  # type: ignore[import-untyped]
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    OneofDescriptor,
)

from kafkeep.config.converter_settings import ProtobufSettings
from kafkeep.converters.proto_types import (
    DECIMAL_MESSAGE,
    WRAPPERS,
    has_optional_keyword,
    is_map,
    real_oneof,
    real_oneofs,
    union_name,
)
from kafkeep.errors import RecordError

Change = Callable[[Any], Any]
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def to_column(message: Descriptor, settings: ProtobufSettings) -> Change:
    """Return what turns a whole message into a value as ``pa.array`` takes it."""
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
    """Return what reads a field out of its message; None where it is not there."""
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
    # A protobuf map has no order of its own: the order of its keys is the same everywhere.
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
    """Wrap an unsigned number as Java does, which has no other long."""
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
