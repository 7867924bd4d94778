"""The text that Connect's SimpleHeaderConverter makes of a header's bytes.

It guesses a type from the text (numbers, booleans, times, lists, maps), and the sink prints the
value again: ``007`` becomes ``7``. Lossy, and kept so for those who ask for it by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kafkeep.converters import simple_values as values
from kafkeep.converters.simple_values import Value

_BREAKS = re.compile(r'[:,{}\[\]"]')


class _NotAValue(Exception):
    """What looked like a list or a map is none."""


def simple_text(text: str) -> str | None:
    """Return what is printed for a header's text; None for ``null``. Never fails."""
    if not text:
        return text
    try:
        value = _Reader(text).read(inside=False)
        return None if value.kind == "null" else values.print_value(value)
    except (OverflowError, RecursionError):  # a year 100000, a thousand lists in each other
        return text


def _tokens(text: str, at: int) -> Iterator[tuple[int, str]]:
    """Yield where each token ends and what it is: a delimiter that no backslash hides, or a run."""
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
    """A text being read, token by token."""

    text: str
    at: int = 0

    def next(self) -> str:
        """Take one token, blank ones too; empty at the end."""
        end, token = next(_tokens(self.text, self.at), (self.at, ""))
        self.at = end
        return token

    def take(self, wanted: str) -> bool:
        """Take a token if it is this one, with any blanks around it."""
        token = self.next()
        while token and not _trim(token) and self.more():
            token = self.next()
        if _trim(token) == wanted:
            return True
        self.at -= len(token)  # blanks in front stay taken, as in the original
        return False

    def more(self) -> bool:
        return self.at < len(self.text)

    def read(self, *, inside: bool) -> Value:
        """Read one value; a text on its own can always be read, one in a list may not."""
        if inside and self.take('"'):
            return self._quoted()
        for word, value in values.WORDS.items():
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

    def _quoted(self) -> Value:
        parts: list[str] = []
        while self.more() and not self.take('"'):
            parts.append(self.next())
        content = "".join(parts)
        guessed = _Reader(content).read(inside=False) if content else None
        if guessed is not None and guessed.kind in values.TIMES:
            return guessed
        return Value("text", content)

    def _single(self, inside: bool) -> Value:
        token = self.next()
        if not _trim(token):
            return Value("text", token)
        token = _trim(token)
        if token[0].isdecimal() and (time := self._time(token)) is not None:
            return time
        if token[0].isdecimal() or token[0] in "+-":
            number = values.parse_number(token)
            if number is not None:
                return number
        if inside:
            raise _NotAValue
        return Value("text", self.text)

    def _time(self, token: str) -> Value | None:
        """Read a time of day or a date; a colon ends a token, so four more may belong to it."""
        start = self.at
        rest = [self.next() for _ in range(4)]
        if rest[-1]:
            time = values.parse_time(token + "".join(rest))
            if time is not None:
                return time
        self.at = start
        return values.parse_time(token)

    def _list(self) -> Value:
        items: list[Value] = []
        while self.more():
            if self.take("]"):
                return Value("list", _aligned(items))
            if self.take(","):
                raise _NotAValue
            items.append(self.read(inside=True))
            at = self.at
            if self.take("]"):
                self.at = at
            elif not self.take(","):
                raise _NotAValue
        raise _NotAValue

    def _map(self) -> Value:
        pairs: dict[Value, Value] = {}
        while self.more():
            if self.take("}"):
                keys, items = _aligned([*pairs]), _aligned([*pairs.values()])
                return Value("map", tuple(dict(zip(keys, items, strict=True)).items()))
            if self.take(","):
                raise _NotAValue
            key = self.read(inside=True)
            if key.kind == "null" or not self.take(":"):
                raise _NotAValue
            pairs[key] = self.read(inside=True)
            self.take(",")
        raise _NotAValue


def _aligned(items: list[Value]) -> tuple[Value, ...]:
    """Give all items the type they have in common."""
    kind = values.common_kind([item.kind for item in items])
    try:
        return tuple(values.align(item, kind) for item in items)
    except (ValueError, OverflowError) as error:
        raise _NotAValue from error


def _trim(token: str) -> str:
    """Strip as Java's trim does: everything up to a space."""
    return token.strip("".join(chr(code) for code in range(33)))
