"""JSON documents as Python values that keep what Python's own lose, and their texts again.

Numbers that an int64 or a double does not hold exactly are ``RawJson``, objects with a key twice
are ``Pairs``; all else are the usual None, bool, int, float, str, list and dict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class RawJson:
    """A value as its JSON text: a number that no int64 or double is, or nested too deeply."""

    text: str

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return self.text[:1] in "-0123456789"


@dataclass(frozen=True, slots=True)
class Pairs:
    """An object that has a key twice."""

    pairs: list[tuple[str, Any]]


MAX_DEPTH = 200
"""Documents nested deeper are not taken apart: those who walk them recurse."""


def parse_json(text: bytes) -> Any:
    """Return the value of one valid JSON document."""
    value = _parse(text)
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_deep(value):
        return RawJson(text.decode())
    return value


def _parse(text: bytes) -> Any:
    try:
        value = orjson.loads(text)
        # Written again it is the same but for white space, so nothing was lost: no digit of a
        # number, no key that is there twice.
        if orjson.dumps(value).translate(None, _SPACE) == text.translate(None, _SPACE):
            return value
    except (orjson.JSONDecodeError, TypeError, RecursionError):
        pass  # too deep or half a character: legal, and read below
    try:
        return _DECODER.decode(text.decode())
    except RecursionError:
        return RawJson(text.decode())


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _members(outer)]
        if not level:
            return False
    return True


def _members(value: Any) -> Iterable[Any]:
    match value:
        case list():
            return value
        case dict():
            return value.values()
        case Pairs():
            return [member for _, member in value.pairs]
        case _:
            return ()


def dump_json(value: Any) -> bytes:
    """Return the text of a value that ``parse_json`` gave, or of any made of such parts."""
    try:
        return orjson.dumps(value, default=_fragment, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:
        return _dump(value).encode()


def is_int64(value: int) -> bool:
    """Say whether a number fits into 64 bits."""
    return -(1 << 63) <= value < 1 << 63


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Pairs:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Pairs(pairs)


def _float(text: str) -> float | RawJson:
    number = float(text)
    try:
        exact = math.isfinite(number) and Decimal(text) == Decimal(repr(number))
    except InvalidOperation:
        exact = False
    return number if exact else RawJson(text)


def _int(text: str) -> int | float | RawJson:
    if text == "-0":
        return -0.0
    if len(text) > 20:
        return RawJson(text)
    number = int(text)
    return number if is_int64(number) else RawJson(text)


_SPACE = b" \t\r\n"
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_int=_int)


def _fragment(value: Any) -> orjson.Fragment:
    return orjson.Fragment(_dump(value))


def _dump(value: Any) -> str:
    match value:
        case RawJson():
            return value.text
        case Pairs():
            return "{" + ",".join(f"{_dump(k)}:{_dump(v)}" for k, v in value.pairs) + "}"
        case dict():
            return "{" + ",".join(f"{_dump(k)}:{_dump(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(_dump(item) for item in value) + "]"
        case _:
            return json.dumps(value, allow_nan=False)
