"""Thrift's compact protocol, as much of it as Parquet's headers and footer need to be written.

Every value is made from the inside out: a struct is given its fields as values already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkeep.data.varint import varint, zigzag_varint

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_END = b"\0"
_SHORT_LIST = 15


class Value(NamedTuple):
    """A value as it is written, and the number of its type."""

    kind: int
    body: bytes


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
