"""Parse JSON documents into Python values without loss, and write them again; pure.

A number that neither int64 nor double represents exactly becomes ``RawJson``. An object that
repeats a key becomes ``Pairs``. All other values are None, bool, int, float, str, list and dict.
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
    """A JSON text kept as is: an inexact number, or a value that is nested too deeply."""

    text: str

    @property
    def is_number(self) -> bool:
        return self.text[:1] in "-0123456789"


@dataclass(frozen=True, slots=True)
class Pairs:
    """An object that repeats a key."""

    pairs: list[tuple[str, Any]]


MAX_DEPTH = 200
"""More deeply nested documents stay raw, because code that walks documents is recursive."""


def parse_json(text: bytes) -> Any:
    """Return the value of one valid JSON document."""
    value = _parse(text)
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_deep(value):
        return RawJson(text.decode())
    return value


def _parse(text: bytes) -> Any:
    try:
        value = orjson.loads(text)
        # If the value is written as the same text, apart from white space, then parsing lost
        # nothing: no digit of a number and no repeated key.
        if orjson.dumps(value).translate(None, _SPACE) == text.translate(None, _SPACE):
            return value
    except (orjson.JSONDecodeError, TypeError, RecursionError):
        pass  # too deep, or a lone surrogate: both are valid JSON, so the decoder below reads them
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
    """Return the JSON text of a value from ``parse_json``, or of a value built from such parts."""
    try:
        return orjson.dumps(value, default=_fragment, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:
        return _dump(value).encode()


def is_int64(value: int) -> bool:
    """Return whether a number fits into a signed 64-bit integer."""
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
