"""JSON objects taken apart and put together again as text.

What is not changed keeps its bytes: numbers as they were written, escapes, order, and the blanks
around colons. Texts are valid JSON; nobody has to check them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

import orjson

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


class Member(NamedTuple):
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


def split_object(text: bytes) -> list[Member]:
    """Take an object apart; ValueError when ``text`` is something else."""
    start = text.find(b"{")
    if start < 0 or text[:start].strip(_BLANKS):
        raise ValueError("not a JSON object")
    members: list[Member] = []
    at = start + 1
    while key := _KEY.match(text, at):
        begin = key.end()
        end = _value_end(text, begin)
        members.append(Member(key[2], text[begin:end], key[3], key[1]))
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


def join_object(members: Iterable[Member]) -> bytes:
    """Put members together in their order."""
    parts: list[bytes] = []
    for member in members:
        parts.append(b"," + member.lead if parts else b"{")
        parts.append(member.key + member.colon + member.value)
    return b"".join([*parts, b"}"]) if parts else b"{}"


def find_member(members: Iterable[Member], name: str) -> bytes | None:
    """Return the value under ``name``, the last one if there are several, or None."""
    found = None
    for member in members:
        if member.name == name:
            found = member.value
    return found


def set_member(members: list[Member], name: str, value: bytes) -> list[Member]:
    """Return the members with ``name`` set: in its place, or else at the end.

    Of several members of that name one remains, so that no reader sees an old value.
    """
    places = [i for i, member in enumerate(members) if member.name == name]
    if not places:
        return [*members, Member(encode_string(name), value)]
    gone = set(places[:-1])
    return [
        member._replace(value=value) if i == places[-1] else member
        for i, member in enumerate(members)
        if i not in gone
    ]
