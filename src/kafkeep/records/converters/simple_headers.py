"""The text that Connect's SimpleHeaderConverter makes of a header's bytes; pure.

It infers a type from the text: number, boolean, time, list or map. The sink then prints the value
as Java does, so ``007`` becomes ``7``. This loses information, so it applies only if the
configuration names this converter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?")
_DATE = re.compile(r"(\d+)-(\d+)-(\d+)")
_CLOCK = re.compile(r"(\d+):(\d+):(\d+)\.(\d+)Z")
_STAMP = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)Z")
_LONG = range(-(2**63), 2**63)
_INTEGERS = (("int8", 2**7), ("int16", 2**15), ("int32", 2**31), ("int64", 2**63))
_RANKS = ("int8", "int16", "int32", "int64", "float", "double")

TIMES = ("clock", "date", "stamp")


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A value; ``kind`` is its Connect type."""

    kind: str
    value: Any = None


WORDS = {
    "null": HeaderValue("null"),
    "true": HeaderValue("bool", True),
    "false": HeaderValue("bool", False),
}


def parse_number(token: str) -> HeaderValue | None:
    """Parse a number into the smallest type that fits; a fraction can lose digits in a float."""
    if not _NUMBER.fullmatch(token):
        return None
    number = Decimal(token)
    exponent = number.as_tuple().exponent
    if number.adjusted() < 20 and number == int(number) and int(number) in _LONG:
        whole = int(number)
        kind = next(kind for kind, limit in _INTEGERS if -limit <= whole < limit)
        return HeaderValue(kind, whole)
    if exponent != 0:
        with np.errstate(over="ignore"):
            narrow = np.float32(token)
        if np.isfinite(narrow):
            return HeaderValue("float", narrow)
        if np.isfinite(np.float64(token)):
            return HeaderValue("double", np.float64(token))
    return HeaderValue("decimal", number)


def parse_time(token: str) -> HeaderValue | None:
    """Parse a date, a time of day or both, by length; days overflow as in Java."""
    token = token.replace("\\:", ":")
    try:
        match len(token):
            case 13 if found := _CLOCK.match(token):
                return HeaderValue("clock", _clock_ms(found.groups()))
            case 24 if found := _STAMP.match(token):
                ms = _date_ms(found.groups()[:3]) + _clock_ms(found.groups()[3:])
                return HeaderValue("stamp", ms)
            case 10 if found := _DATE.match(token):
                return HeaderValue("date", _date_ms(found.groups()))
    except OverflowError:
        pass
    return None


def print_value(value: HeaderValue, *, inside: bool = False) -> str:  # noqa: PLR0911
    """Return the value in Java's text form."""
    match value.kind:
        case "null":
            return "null"
        case "bool":
            return str(value.value).lower()
        case "text":
            return _quoted(value.value) if inside else value.value
        case "float" | "double":
            return print_float(value.value)
        case "list":
            return "[" + ",".join(print_value(item, inside=True) for item in value.value) + "]"
        case "map":
            pairs = [
                print_value(key, inside=True) + ":" + print_value(item, inside=True)
                for key, item in value.value
            ]
            return "{" + ",".join(pairs) + "}"
        case "clock" | "date" | "stamp":
            return _print_time(value.value)
        case _:
            return str(value.value)


def print_float(number: np.floating[Any]) -> str:
    """Return a float like Java's ``toString``: plain from 0.001 to ten million, else with an E."""
    if number == 0:
        return "-0.0" if np.signbit(number) else "0.0"
    if 1e-3 <= abs(number) < 1e7:
        return np.format_float_positional(number, trim="0")
    digits, _, exponent = np.format_float_scientific(number, trim="0").partition("e")
    return f"{digits}E{int(exponent)}"


def common_kind(kinds: list[str]) -> str | None:
    """Return the type that fits all items, or None if there is none or all are null."""
    found = set(kinds) - {"null"}
    if len(found) == 1:
        return found.pop()
    numbers = [kind for kind in found if kind in _RANKS]
    if len(numbers) == len(found):
        return max(numbers, key=_RANKS.index, default=None)
    times = found - set(numbers)
    return times.pop() if len(times) == 1 and times <= {"date", "stamp"} else None


def align(value: HeaderValue, kind: str | None) -> HeaderValue:
    """Convert a list item to the common type; raise ValueError if that is not possible."""
    if kind is None or value.kind in (kind, "null"):
        return value
    if kind in TIMES:
        if value.kind in ("float", "double"):
            raise ValueError("a fraction is no time")
        return HeaderValue(kind, value.value * (_DAY_MS if kind == "date" else 1))
    if kind in ("float", "double"):
        return HeaderValue(kind, (np.float32 if kind == "float" else np.float64)(value.value))
    return HeaderValue(kind, value.value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _date_ms(parts: tuple[Any, ...]) -> int:
    year, month, day = (int(part) for part in parts)
    months = year * 12 + month - 1
    try:
        first = datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
        moment = first + timedelta(days=day - 1)
    except ValueError as error:
        raise OverflowError("a year that is out of range") from error
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _clock_ms(parts: tuple[Any, ...]) -> int:
    hours, minutes, seconds, ms = (int(part) for part in parts)
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + ms


def _print_time(ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=ms)
    clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if ms < _DAY_MS:
        return clock
    date = f"{moment.year:04d}-{moment:%m-%d}"
    return date if ms % _DAY_MS == 0 else f"{date}T{clock}"


_BREAKS = re.compile(r'[:,{}\[\]"]')


class _NotAValue(Exception):
    """The text starts like a list or a map but is neither."""


def simple_text(text: str) -> str | None:
    """Return the printed text for a header's text, or None for ``null``. Never fails."""
    if not text:
        return text
    try:
        value = _Reader(text).read(inside=False)
        return None if value.kind == "null" else print_value(value)
    except (OverflowError, RecursionError):  # a year 100000, or a thousand nested lists
        return text


def _tokens(text: str, at: int) -> Iterator[tuple[int, str]]:
    """Yield the end and text of each token: an unescaped delimiter, or the text between two."""
    escaped, start = False, at
    while at < len(text):
        char = text[at]
        if char == "\\":
            escaped = not escaped
        elif _BREAKS.match(char) and not escaped:
            if start < at:
                yield at, text[start:at]
            yield at + 1, char
            start = at + 1
        else:
            escaped = False
        at += 1
    if start < at:
        yield at, text[start:at]


@dataclass(slots=True)
class _Reader:
    """Reads a text token by token."""

    text: str
    at: int = 0

    def next(self) -> str:
        """Return the next token, including blank ones, or an empty text at the end."""
        end, token = next(_tokens(self.text, self.at), (self.at, ""))
        self.at = end
        return token

    def take(self, wanted: str) -> bool:
        """Consume a token if it equals ``wanted``, ignoring blanks around it."""
        token = self.next()
        while token and not _trim(token) and self.more():
            token = self.next()
        if _trim(token) == wanted:
            return True
        self.at -= len(token)  # leading blanks stay consumed, as in Connect
        return False

    def more(self) -> bool:
        return self.at < len(self.text)

    def read(self, *, inside: bool) -> HeaderValue:
        """Read one value; reading can fail inside a list, but not at the top level."""
        if inside and self.take('"'):
            return self._quoted()
        for word, value in WORDS.items():
            if self._word(word, inside):
                return value
        start = self.at
        try:
            if self.take("["):
                return self._list()
            if self.take("{"):
                return self._map()
        except _NotAValue:
            self.at = start
        return self._single(inside)

    def _word(self, word: str, inside: bool) -> bool:
        start = self.at
        if self.take(word) and (inside or not self.more()):
            return True
        self.at = start
        return False

    def _quoted(self) -> HeaderValue:
        parts: list[str] = []
        while self.more() and not self.take('"'):
            parts.append(self.next())
        content = "".join(parts)
        guessed = _Reader(content).read(inside=False) if content else None
        if guessed is not None and guessed.kind in TIMES:
            return guessed
        return HeaderValue("text", content)

    def _single(self, inside: bool) -> HeaderValue:
        token = self.next()
        if not _trim(token):
            return HeaderValue("text", token)
        token = _trim(token)
        if token[0].isdecimal() and (time := self._time(token)) is not None:
            return time
        if token[0].isdecimal() or token[0] in "+-":
            number = parse_number(token)
            if number is not None:
                return number
        if inside:
            raise _NotAValue
        return HeaderValue("text", self.text)

    def _time(self, token: str) -> HeaderValue | None:
        """Read a time of day or a date; colons split tokens, so it can include four more."""
        start = self.at
        rest = [self.next() for _ in range(4)]
        if rest[-1]:
            time = parse_time(token + "".join(rest))
            if time is not None:
                return time
        self.at = start
        return parse_time(token)

    def _list(self) -> HeaderValue:
        items: list[HeaderValue] = []
        while self.more():
            if self.take("]"):
                return HeaderValue("list", _aligned(items))
            if self.take(","):
                raise _NotAValue
            items.append(self.read(inside=True))
            at = self.at
            if self.take("]"):
                self.at = at
            elif not self.take(","):
                raise _NotAValue
        raise _NotAValue

    def _map(self) -> HeaderValue:
        pairs: dict[HeaderValue, HeaderValue] = {}
        while self.more():
            if self.take("}"):
                keys, items = _aligned([*pairs]), _aligned([*pairs.values()])
                return HeaderValue("map", tuple(dict(zip(keys, items, strict=True)).items()))
            if self.take(","):
                raise _NotAValue
            key = self.read(inside=True)
            if key.kind == "null" or not self.take(":"):
                raise _NotAValue
            pairs[key] = self.read(inside=True)
            self.take(",")
        raise _NotAValue


def _aligned(items: list[HeaderValue]) -> tuple[HeaderValue, ...]:
    """Convert all items to their common type."""
    kind = common_kind([item.kind for item in items])
    try:
        return tuple(align(item, kind) for item in items)
    except (ValueError, OverflowError) as error:
        raise _NotAValue from error


def _trim(token: str) -> str:
    """Strip like Java's ``trim``: all characters up to and including the space."""
    return token.strip("".join(chr(code) for code in range(33)))
