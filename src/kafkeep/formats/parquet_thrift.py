"""Thrift's compact protocol, as much of it as Parquet's headers and footer need.

Every value is made from the inside out: a struct is given its fields as values already. A value
that is read stays in its bytes until its parts are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkeep.data.varint import varint, zigzag_varint

_TRUE, _FALSE, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 5, 6, 8, 9, 12
_WIDTHS = {_TRUE: 0, _FALSE: 0, 3: 1, 7: 8}
"""Of values that always take so many bytes."""
_END = b"\0"
_SHORT_LIST = 15


class Value(NamedTuple):
    """A value as it is written, and the number of its type."""

    kind: int
    body: bytes


def flag(given: bool) -> Value:
    """Return a boolean as the field of a struct."""
    return Value(_TRUE if given else _FALSE, b"")


def i32(number: int) -> Value:
    """Return an int32."""
    return Value(_I32, zigzag_varint(number))


def i64(number: int) -> Value:
    """Return an int64."""
    return Value(_I64, zigzag_varint(number))


def binary(data: bytes) -> Value:
    """Return bytes."""
    return Value(_BINARY, varint(len(data)) + data)


def text(given: str) -> Value:
    """Return a text, as its UTF-8 bytes."""
    return binary(given.encode())


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Return a struct: ids as keys, which rise by 15 at most; a field that is None is left out."""
    parts, last = [], 0
    for number, value in fields.items():
        if value is not None:
            parts += [bytes([(number - last) << 4 | value.kind]), value.body]
            last = number
    return Value(_STRUCT, b"".join([*parts, _END]))


def listed(values: Sequence[Value]) -> Value:
    """Return a list of values of one type; one without values is written as one of structs."""
    kind, count = values[0].kind if values else _STRUCT, len(values)
    short = count < _SHORT_LIST
    head = bytes([(count if short else _SHORT_LIST) << 4 | kind])
    long_count = b"" if short else varint(count)
    return Value(_LIST, b"".join([head, long_count, *(value.body for value in values)]))


def split_struct(value: Value) -> dict[int, Value]:
    """Return the fields of a struct that was read."""
    fields, _ = _read_fields(value.body, 0)
    return fields


def split_list(value: Value) -> list[Value]:
    """Return the values of a list that was read; those of booleans cannot be."""
    kind, count, at = _read_list_head(value.body, 0)
    found = []
    for _ in range(count):
        end = _skip(value.body, at, kind)
        found.append(Value(kind, value.body[at:end]))
        at = end
    return found


def read_struct(data: bytes) -> Value:
    """Return the struct that ``data`` begins with."""
    return Value(_STRUCT, data[: _skip(data, 0, _STRUCT)])


def _read_fields(data: bytes, at: int) -> tuple[dict[int, Value], int]:
    fields: dict[int, Value] = {}
    number = 0
    while data[at] != 0:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if step:
            number += step
        else:
            raw, at = _read_varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        end = _skip(data, at, kind)
        fields[number] = Value(kind, data[at:end])
        at = end
    return fields, at + 1


def _read_list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the type of a list's values, how many there are, and where they begin."""
    kind, count = data[at] & 15, data[at] >> 4
    at += 1
    if count == _SHORT_LIST:
        count, at = _read_varint(data, at)
    return kind, count, at


def _skip(data: bytes, at: int, kind: int) -> int:
    """Return where a value ends."""
    if kind in _WIDTHS:
        return at + _WIDTHS[kind]
    if kind == _STRUCT:
        return _read_fields(data, at)[1]
    if kind == _LIST:
        inner, count, at = _read_list_head(data, at)
        for _ in range(count):
            at = _skip(data, at, inner)
        return at
    number, at = _read_varint(data, at)
    return at + number if kind == _BINARY else at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
