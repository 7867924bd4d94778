"""Schemaless JSON documents as Avro records ``io.confluent.connect.avro.Anything``, and back.

The record has one member for each type, and the one that is set holds the value: a number is a
``long`` or a ``double``, an object an array of keys and values in their order. So that nothing is
lost, two members are set where one would not do: a number that no double is stands in ``double`` as
near as can be and in ``string`` as its text; a text with half a character, or a value nested too
deeply for one record, in ``string`` readably and in ``bytes`` as JSON.
"""

from __future__ import annotations

import base64
import io
import math
import struct
from typing import Any

import fastavro

from kafkeep.data.avro_schema import anything
from kafkeep.data.exact_json import Pairs as JsonPairs
from kafkeep.data.exact_json import RawJson, dump_json, is_int64, parse_json

_MEMBERS = ["boolean", "bytes", "double", "float", "int", "long", "string", "array", "map"]
_PLAIN = ["boolean", "double", "float", "int", "long"]
_DOUBLE = struct.Struct("<d")
_SCHEMA = fastavro.parse_schema(anything())
_NULL = bytes(len(_MEMBERS))


def encode_anything(text: bytes) -> bytes:
    """Return the record of one JSON document."""
    parts: list[bytes] = []
    _encode(parse_json(text), parts)
    return b"".join(parts)


def _long(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return _long(len(data)) + data


def _frame(member: str) -> tuple[bytes, bytes]:
    place = _MEMBERS.index(member)
    return bytes(place) + b"\x02", bytes(len(_MEMBERS) - place - 1)


_FRAMES = {member: _frame(member) for member in _MEMBERS}


def _member(member: str, *data: bytes) -> bytes:
    before, after = _FRAMES[member]
    return before + b"".join(data) + after


def _encode(value: Any, parts: list[bytes]) -> None:
    match value:
        case None:
            parts.append(_NULL)
        case bool():
            parts.append(_member("boolean", b"\x01" if value else b"\x00"))
        case str():
            parts.append(_encode_text(value))
        case int() if is_int64(value):
            parts.append(_member("long", _long(value)))
        case int():
            parts.append(_encode_raw(RawJson(str(value))))
        case float():
            parts.append(_member("double", _DOUBLE.pack(value)))
        case RawJson():
            parts.append(_encode_raw(value))
        case list():
            before, after = _FRAMES["array"]
            parts += (before, _long(len(value)) if value else b"")
            for item in value:
                _encode(item, parts)
            parts += (b"\x00", after)
        case _:
            pairs = value.pairs if isinstance(value, JsonPairs) else value.items()
            before, after = _FRAMES["map"]
            parts += (before, _long(len(pairs)) if pairs else b"")
            for key, item in pairs:
                parts.append(_encode_text(key))
                _encode(item, parts)
            parts += (b"\x00", after)


def _encode_text(text: str) -> bytes:
    try:
        return _member("string", _sized(text.encode()))
    except UnicodeEncodeError:
        return _encode_both(text.encode(errors="replace"), dump_json(text))


def _encode_both(readable: bytes, exact: bytes) -> bytes:
    # bytes is the member at place 1, string at 6
    return b"\x00\x02" + _sized(exact) + bytes(4) + b"\x02" + _sized(readable) + bytes(2)


def _encode_raw(raw: RawJson) -> bytes:
    text = raw.text.encode()
    if not raw.is_number:
        return _encode_both(text, text)
    near = float(raw.text)
    limit = math.nextafter(math.inf, 0)
    near = max(-limit, min(limit, near))
    # double is the member at place 2, string at 6
    return bytes(2) + b"\x02" + _DOUBLE.pack(near) + bytes(3) + b"\x02" + _sized(text) + bytes(2)


def decode_anything(data: bytes, count: int) -> list[bytes]:
    """Return the JSON texts of ``count`` records that follow each other."""
    source = io.BytesIO(data)
    texts = []
    for _ in range(count):
        record = fastavro.schemaless_reader(source, _SCHEMA, None)
        texts.append(dump_json(_value(record)))
    return texts


def _value(record: Any) -> Any:  # noqa: PLR0911
    text, data = record["string"], record["bytes"]
    if text is not None and record["double"] is not None:
        return RawJson(text)
    if data is not None:
        return RawJson(data.decode()) if text is not None else base64.b64encode(data).decode()
    if record["map"] is not None:
        pairs = [(_key(entry["key"]), _value(entry["value"])) for entry in record["map"]]
        found = dict(pairs)
        return found if len(found) == len(pairs) else JsonPairs(pairs)
    if record["array"] is not None:
        return [_value(item) for item in record["array"]]
    number = next((record[member] for member in _PLAIN if record[member] is not None), None)
    if number is None:
        return text
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)  # JSON has no such number
    return number


def _key(record: Any) -> str:
    value = _value(record)
    if isinstance(value, RawJson) and not value.is_number:
        return str(parse_json(value.text.encode()))
    return value if isinstance(value, str) else dump_json(value).decode()
