"""Split JSON objects into members and join them again as text; pure.

Unchanged members keep their bytes: number formats, escapes, order, and the blanks around colons.
Columns of texts are split level by level into spans (``FieldSpans``). Single texts are split into
members (``JsonMember``). All texts must be valid, as ``check_texts`` ensures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.numba_setup import Bytes, Int64s, view_bytes
from kafkeep.records.arrow import gather, view_binary
from kafkeep.records.json import members


class FieldKind(IntEnum):
    """The type of the JSON value in a span."""

    MISSING = members.MISSING
    NULL = members.NULL
    FALSE = members.FALSE
    TRUE = members.TRUE
    NUMBER = members.NUMBER
    STRING = members.STRING
    OBJECT = members.OBJECT
    ARRAY = members.ARRAY


@dataclass(frozen=True, slots=True)
class FieldSpans:
    """One JSON value for each row: bytes ``[start, end)`` of ``data``, and a ``FieldKind``.

    Strings include their quotes. A missing value has an empty span. A null row is missing.
    """

    data: Bytes
    starts: Int64s
    ends: Int64s
    kinds: Bytes

    def __len__(self) -> int:
        return len(self.starts)

    def texts(self) -> pa.Array:
        """Return the raw texts as binary; null where missing."""
        return gather(self.data, self.starts, self.ends, self.kinds != members.MISSING)

    def where(self, rows: NDArray[np.bool_] | Int64s | slice) -> FieldSpans:
        """Return the spans of the selected rows."""
        return FieldSpans(self.data, self.starts[rows], self.ends[rows], self.kinds[rows])


def _empty(data: Bytes, rows: int) -> FieldSpans:
    starts, ends = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    return FieldSpans(data, starts, ends, np.zeros(rows, dtype=np.uint8))


def find_documents(texts: pa.Array) -> FieldSpans:
    """Return the documents without the white space around them."""
    view = view_binary(texts)
    spans = _empty(view.data, len(view))
    members.find_documents(
        view.data, view.offsets, view.valid, view.first, spans.starts, spans.ends, spans.kinds
    )
    return spans


def find_fields(texts: pa.Array, path: Sequence[str]) -> FieldSpans:
    """Return the values at a path of nested object keys.

    Keys are compared after unescaping. If an object repeats a key, the last one counts.
    """
    spans = find_documents(texts)
    for name in path:
        spans = split_objects(spans, [name])[0]
    return spans


def field_texts(texts: pa.Array, path: Sequence[str]) -> pa.Array:
    """Return the raw JSON texts at a path as binary; null where there is none."""
    return find_fields(texts, path).texts()


def split_objects(spans: FieldSpans, names: Sequence[str]) -> list[FieldSpans]:
    """Return the values under each name; a row that is not an object has none."""
    keys = [name.encode("utf-8", "surrogatepass") for name in names]
    offsets = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum([len(key) for key in keys], out=offsets[1:])
    shape = (len(keys), len(spans))
    starts, ends = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    kinds = np.zeros(shape, dtype=np.uint8)
    members.split_objects(
        spans.data, spans.starts, spans.ends, spans.kinds,
        view_bytes(b"".join(keys)), offsets, starts, ends, kinds,
    )  # fmt: skip
    return [FieldSpans(spans.data, starts[i], ends[i], kinds[i]) for i in range(len(keys))]


def find_changes(spans: FieldSpans) -> NDArray[np.bool_]:
    """Mark each text that differs from the previous one; missing values are skipped."""
    changed = np.zeros(len(spans), dtype=np.bool_)
    members.mark_changes(spans.data, spans.starts, spans.ends, spans.kinds, changed)
    return changed


def count_members(spans: FieldSpans) -> Int64s:
    """Return the number of members of each object or array, 0 for others; count repeated keys."""
    counts = np.zeros(len(spans), dtype=np.int64)
    members.count_members(spans.data, spans.starts, spans.ends, spans.kinds, counts)
    return counts


def split_members(spans: FieldSpans) -> tuple[Int64s, FieldSpans, FieldSpans]:
    """Return list offsets, keys and values of all members of arrays and objects.

    Array members have no key, so their keys are missing.
    """
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(count_members(spans), out=offsets[1:])
    keys = _empty(spans.data, int(offsets[-1]))
    values = _empty(spans.data, int(offsets[-1]))
    members.split_members(
        spans.data, spans.starts, spans.ends, spans.kinds, offsets,
        keys.starts, keys.ends, keys.kinds, values.starts, values.ends, values.kinds,
    )  # fmt: skip
    return offsets, keys, values


_STRING = rb'"(?:[^"\\]|\\.)*"'
_KEY = re.compile(rb"([ \t\r\n]*)(" + _STRING + rb")([ \t\r\n]*:[ \t\r\n]*)", re.DOTALL)
_SCALAR = re.compile(_STRING + rb'|[^\[\]{}",: \t\r\n]+', re.DOTALL)
_NESTING = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_BLANKS = b" \t\r\n"

_KINDS = {
    ord("{"): "object",
    ord("["): "array",
    ord('"'): "string",
    ord("t"): "boolean",
    ord("f"): "boolean",
    ord("n"): "null",
}


class JsonMember(NamedTuple):
    """A member of an object: the bytes of its quoted key and of its value."""

    key: bytes
    value: bytes
    colon: bytes = b":"
    lead: bytes = b""
    """The blanks before the key."""

    @property
    def name(self) -> str:
        """The unescaped key."""
        return decode_string(self.key)


def kind_of(text: bytes) -> str:
    """Return ``object``, ``array``, ``string``, ``boolean``, ``null``, ``integer`` or ``float``."""
    bare = text.lstrip(_BLANKS)
    kind = _KINDS.get(bare[0])
    if kind is None:
        return "float" if any(sign in bare for sign in (b".", b"e", b"E")) else "integer"
    return kind


def decode_string(text: bytes) -> str:
    """Return the text of a JSON string; keep an escaped lone surrogate."""
    bare = text.strip(_BLANKS)
    if b"\\" not in bare:
        return bare[1:-1].decode()
    return str(json.loads(bare))


def encode_string(text: str) -> bytes:
    """Return the text as a JSON string with as few escapes as possible."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return json.dumps(text).encode()  # a lone surrogate has no other form


def split_object(text: bytes) -> list[JsonMember]:
    """Split an object into members; raise ValueError if ``text`` is not an object."""
    start = text.find(b"{")
    if start < 0 or text[:start].strip(_BLANKS):
        raise ValueError("not a JSON object")
    members: list[JsonMember] = []
    at = start + 1
    while key := _KEY.match(text, at):
        begin = key.end()
        end = _value_end(text, begin)
        members.append(JsonMember(key[2], text[begin:end], key[3], key[1]))
        comma = text.find(b",", end)
        if comma < 0 or text[end:comma].strip(_BLANKS):
            break
        at = comma + 1
    return members


def _value_end(text: bytes, begin: int) -> int:
    if text[begin] not in b"{[":
        scalar = _SCALAR.match(text, begin)
        if scalar is None:
            raise ValueError("not a JSON value")
        return scalar.end()
    depth = 0
    for token in _NESTING.finditer(text, begin):
        sign = token[0]
        if sign in {b"{", b"["}:
            depth += 1
        elif sign in {b"}", b"]"}:
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError("not a JSON value")


def join_object(members: Iterable[JsonMember]) -> bytes:
    """Return an object with these members, in order."""
    parts: list[bytes] = []
    for member in members:
        parts.append(b"," + member.lead if parts else b"{")
        parts.append(member.key + member.colon + member.value)
    return b"".join([*parts, b"}"]) if parts else b"{}"


def find_member(members: Iterable[JsonMember], name: str) -> bytes | None:
    """Return the value under ``name``, the last one if it is repeated, or None."""
    found = None
    for member in members:
        if member.name == name:
            found = member.value
    return found


def set_member(members: list[JsonMember], name: str, value: bytes) -> list[JsonMember]:
    """Return the members with ``name`` replaced in place, or added at the end.

    If the name is repeated, only the last member remains, so that no reader sees an old value.
    """
    places = [i for i, member in enumerate(members) if member.name == name]
    if not places:
        return [*members, JsonMember(encode_string(name), value)]
    gone = set(places[:-1])
    return [
        member._replace(value=value) if i == places[-1] else member
        for i, member in enumerate(members)
        if i not in gone
    ]
