"""Convert schemaless JSON documents to ``io.confluent.connect.avro.Anything`` and back. Pure.

The Avro record has one member for each type. The member that is set holds the value. A number is a
``long`` or a ``double``. An object is an array of keys and values in their order.

Two members are set if one alone would lose information. For a number that a double cannot hold
exactly, ``double`` has the nearest value and ``string`` the text of the number. For a text with an
unpaired surrogate, and for a value nested too deeply, ``string`` has a readable form and ``bytes``
the JSON.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.errors import DamagedError
from kafkeep.numba_setup import Bytes, Int64s, zigzag_varint
from kafkeep.records.json.exact import Pairs, RawJson, dump_json, is_int64, parse_json

_MEMBERS = ["boolean", "bytes", "double", "float", "int", "long", "string", "array", "map"]
_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_NULL = bytes(len(_MEMBERS))


def encode_anything(text: bytes) -> bytes:
    """Return the Avro record of one JSON document."""
    parts: list[bytes] = []
    _encode(parse_json(text), parts)
    return b"".join(parts)


class AnythingRows:
    """Schemaless rows, encoded one by one."""

    def __init__(self, array: pa.Array) -> None:
        self._rows = [encode_anything(text) for text in array.to_pylist()]
        self.sizes: Int64s = np.array([len(row) for row in self._rows], dtype=np.int64)

    def write(self, start: int, stop: int, out: Bytes) -> int:
        whole = b"".join(self._rows[start:stop])
        out[: len(whole)] = np.frombuffer(whole, dtype=np.uint8)
        return len(whole)


def _sized(data: bytes) -> bytes:
    return zigzag_varint(len(data)) + data


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
            parts.append(_member("long", zigzag_varint(value)))
        case int():
            parts.append(_encode_raw(RawJson(str(value))))
        case float():
            parts.append(_member("double", _DOUBLE.pack(value)))
        case RawJson():
            parts.append(_encode_raw(value))
        case list():
            before, after = _FRAMES["array"]
            parts += (before, zigzag_varint(len(value)) if value else b"")
            for item in value:
                _encode(item, parts)
            parts += (b"\x00", after)
        case _:
            pairs = value.pairs if isinstance(value, Pairs) else value.items()
            before, after = _FRAMES["map"]
            parts += (before, zigzag_varint(len(pairs)) if pairs else b"")
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
    # bytes is member 1, string is member 6
    return b"\x00\x02" + _sized(exact) + bytes(4) + b"\x02" + _sized(readable) + bytes(2)


def _encode_raw(raw: RawJson) -> bytes:
    text = raw.text.encode()
    if not raw.is_number:
        return _encode_both(text, text)
    near = float(raw.text)
    limit = math.nextafter(math.inf, 0)
    near = max(-limit, min(limit, near))
    # double is member 2, string is member 6
    return bytes(2) + b"\x02" + _DOUBLE.pack(near) + bytes(3) + b"\x02" + _sized(text) + bytes(2)


def decode_anything(data: bytes, count: int) -> list[bytes]:
    """Return the JSON texts of the ``count`` Avro records in ``data``.

    Raise DamagedError unless ``data`` is exactly that many records.
    """
    reader = _Reader(data)
    try:
        texts = [dump_json(reader.value()) for _ in range(count)]
    except (IndexError, ValueError, TypeError, struct.error, RecursionError) as error:
        raise DamagedError(f"an Avro block is not readable: {error}") from error
    if reader.at != len(data):
        raise DamagedError("an Avro block has bytes behind its last row")
    return texts


class _Reader:
    """Reads consecutive records. ``at`` is the position of the next one."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self) -> Any:
        """Read one record. Usually a single member is set."""
        data, count = self.data, len(_MEMBERS)
        ahead = data[self.at : self.at + count]
        place = len(ahead) - len(ahead.lstrip(b"\x00"))
        if place == count:
            self.at += count
            return None
        self.at += place
        first = self._member(place)
        after = count - place - 1
        if data[self.at : self.at + after] == bytes(after):
            self.at += after
            return _bare(_MEMBERS[place], first)
        found = {_MEMBERS[place]: first}
        for other in range(place + 1, count):
            if data[self.at] == 0:
                self.at += 1
            else:
                found[_MEMBERS[other]] = self._member(other)
        return _several(found)

    def _member(self, place: int) -> Any:  # noqa: PLR0911
        if self.data[self.at] != 2:
            raise ValueError("a union has no such member")
        self.at += 1
        match _MEMBERS[place]:
            case "boolean":
                self.at += 1
                return self.data[self.at - 1] != 0
            case "double":
                self.at += 8
                return _DOUBLE.unpack_from(self.data, self.at - 8)[0]
            case "float":
                self.at += 4
                return float(str(np.float32(_FLOAT.unpack_from(self.data, self.at - 4)[0])))
            case "bytes":
                return self._sized()
            case "string":
                return self._sized().decode()
            case "array":
                return self._items(self.value)
            case "map":
                return self._items(lambda: (_key(self.value()), self.value()))
            case _:
                return self._long()

    def _items(self, read: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while count := self._long():
            if count < 0:
                count = -count
                self._long()
            found += [read() for _ in range(count)]
        return found

    def _long(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("a number is not readable")

    def _sized(self) -> bytes:
        size = self._long()
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError("a length points outside of its block")
        self.at += size
        return self.data[self.at - size : self.at]


def _bare(member: str, value: Any) -> Any:
    match member:
        case "map":
            found = dict(value)
            return found if len(found) == len(value) else Pairs(value)
        case "bytes":
            return base64.b64encode(value).decode()
        case "double" | "float" if not math.isfinite(value):
            return str(value)  # JSON has no NaN or infinity
        case _:
            return value


def _several(found: dict[str, Any]) -> Any:
    text = found.get("string")
    if text is not None and "double" in found:
        return RawJson(text)
    if text is not None and "bytes" in found:
        return RawJson(found["bytes"].decode())
    return _bare(*next(iter(found.items())))


def _key(value: Any) -> str:
    if isinstance(value, RawJson) and not value.is_number:
        value = parse_json(value.text.encode())
    return value if isinstance(value, str) else dump_json(value).decode()
