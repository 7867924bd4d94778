"""JSON objects split into members and joined again as text.

What is not changed keeps its bytes: numbers as they were written, escapes, order, and the blanks
around colons. Columns of texts are split level by level into spans (``FieldSpans``), single texts
into members (``JsonMember``). All texts are valid: ``check_texts`` has read them.
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
    """What stands in a span."""

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

    Strings have their quotes. What is missing has an empty span; a null row is missing.
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
        """Return some of the rows."""
        return FieldSpans(self.data, self.starts[rows], self.ends[rows], self.kinds[rows])


def _empty(data: Bytes, rows: int) -> FieldSpans:
    starts, ends = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    return FieldSpans(data, starts, ends, np.zeros(rows, dtype=np.uint8))


def find_documents(texts: pa.Array) -> FieldSpans:
    """Return the documents themselves, without the white space around them."""
    view = view_binary(texts)
    spans = _empty(view.data, len(view))
    members.find_documents(
        view.data, view.offsets, view.valid, view.first, spans.starts, spans.ends, spans.kinds
    )
    return spans


def find_fields(texts: pa.Array, path: Sequence[str]) -> FieldSpans:
    """Return the values at a path of object keys, one in another.

    Keys are compared as text, not as it is escaped; of equal keys the last one counts.
    """
    spans = find_documents(texts)
    for name in path:
        spans = split_objects(spans, [name])[0]
    return spans


def field_texts(texts: pa.Array, path: Sequence[str]) -> pa.Array:
    """Return the raw JSON texts at a path as binary, null where there is none."""
    return find_fields(texts, path).texts()


def split_objects(spans: FieldSpans, names: Sequence[str]) -> list[FieldSpans]:
    """Return the values under each of the names; missing too where the row is no object."""
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
    """Mark each text that differs from the one before, missing ones left out of account."""
    changed = np.zeros(len(spans), dtype=np.bool_)
    members.mark_changes(spans.data, spans.starts, spans.ends, spans.kinds, changed)
    return changed


def count_members(spans: FieldSpans) -> Int64s:
    """Return how many members each object or array has (equal keys counted each), else 0."""
    counts = np.zeros(len(spans), dtype=np.int64)
    members.count_members(spans.data, spans.starts, spans.ends, spans.kinds, counts)
    return counts


def split_members(spans: FieldSpans) -> tuple[Int64s, FieldSpans, FieldSpans]:
    """Return offsets as of an Arrow list, keys and values of all members of arrays and objects.

    Keys of an array's members are missing.
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
    """One member of an object: the bytes of its key, with quotes, and of its value."""

    key: bytes
    value: bytes
    colon: bytes = b":"
    lead: bytes = b""
    """Blanks before the key."""

    @property
    def name(self) -> str:
        """The key as a text, without escapes."""
        return decode_string(self.key)


def kind_of(text: bytes) -> str:
    """Return ``object``, ``array``, ``string``, ``boolean``, ``null``, ``integer`` or ``float``."""
    bare = text.lstrip(_BLANKS)
    kind = _KINDS.get(bare[0])
    if kind is None:
        return "float" if any(sign in bare for sign in (b".", b"e", b"E")) else "integer"
    return kind


def decode_string(text: bytes) -> str:
    """Return what a JSON string says; an escaped lone surrogate stays one."""
    bare = text.strip(_BLANKS)
    if b"\\" not in bare:
        return bare[1:-1].decode()
    return str(json.loads(bare))


def encode_string(text: str) -> bytes:
    """Write a JSON string; only what must be escaped is."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return json.dumps(text).encode()  # a lone surrogate has no other form


def split_object(text: bytes) -> list[JsonMember]:
    """Take an object apart; ValueError when ``text`` is something else."""
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
    """Put members together in their order."""
    parts: list[bytes] = []
    for member in members:
        parts.append(b"," + member.lead if parts else b"{")
        parts.append(member.key + member.colon + member.value)
    return b"".join([*parts, b"}"]) if parts else b"{}"


def find_member(members: Iterable[JsonMember], name: str) -> bytes | None:
    """Return the value under ``name``, the last one if there are several, or None."""
    found = None
    for member in members:
        if member.name == name:
            found = member.value
    return found


def set_member(members: list[JsonMember], name: str, value: bytes) -> list[JsonMember]:
    """Return the members with ``name`` set: in its place, or else at the end.

    Of several members of that name one remains, so that no reader sees an old value.
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
