"""Read the characters of a pattern: escapes, classes in brackets, flags and comments. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from kafkeep.errors import UsageError
from kafkeep.options.java_regex import char_set
from kafkeep.options.java_regex.char_set import Ranges

_MAX_LENGTH = 1 << 16
_MAX_WORK = 1 << 20
"""The limit of output and work for a translation, which takes a fraction of a second."""
_RANGE_WORK = 8
_MAX_CLASS_DEPTH = 20
_SHOWN = 80
_BLANKS = " \t\n\x0b\f\r"
_COMMENT = re.compile("#[^\n\r\x85\u2028\u2029]*")
_PROPERTY = re.compile(r"\{([^}]*)\}|([^{])")
_NUMBERS = (
    re.compile(r"x\{([0-9A-Fa-f]{1,8})\}"),
    re.compile(r"x([0-9A-Fa-f]{2})"),
    re.compile(r"u([0-9A-Fa-f]{4})"),
)
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_LOW_HALF = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_REFUSED = {
    "k": "a back-reference (\\k)",
    "G": "\\G",
    "X": "\\X",
    "N": "\\N{…}",
}
LINEAR = "a pattern must run in linear time"
_FLAG_NAMES = {"m": "lines", "u": "Unicode case", "U": "Unicode classes"}
_HIGH_HALVES, _LOW_HALVES, _AFTER_HALVES = 0xD800, 0xDC00, 0xE000


def shown(text: str) -> str:
    """Return a pattern for messages: quoted, and shortened if it is long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


@dataclass(frozen=True, slots=True)
class Flags:
    """The active flags: (?i), (?s), (?d) and (?x)."""

    any_case: bool = False
    dot_all: bool = False
    unix_lines: bool = False
    comments: bool = False

    def changed(self, on: str, off: str, reader: Reader) -> Flags:
        """Return the flags after ``(?on-off)``."""
        fields = {"i": "any_case", "s": "dot_all", "d": "unix_lines", "x": "comments"}
        changes = {}
        for letters, value in ((on, True), (off, False)):
            for letter in letters:
                if value and letter in _FLAG_NAMES:
                    reader.refuse(f"the flag (?{letter}) ({_FLAG_NAMES[letter]})")
                if letter not in fields and letter not in _FLAG_NAMES:
                    reader.fail(f"there is no flag (?{letter})")
                if letter in fields:
                    changes[fields[letter]] = value
        return replace(self, **changes)


class Reader:
    """A position in a pattern, and the active flags there."""

    def __init__(self, text: str, original: str) -> None:
        self._text = text
        self._original = original
        self._at = 0
        self._work = 0
        self.flags = Flags()
        if len(original) > _MAX_LENGTH:
            self.fail(f"it is longer than {_MAX_LENGTH} characters")

    @property
    def at_end(self) -> bool:
        """True if all characters were read."""
        return self._at >= len(self._text)

    def peek(self) -> str:
        """Return the next character without reading it; empty at the end."""
        return self._text[self._at : self._at + 1]

    def take(self) -> str:
        if self.at_end:
            self.fail("it ends in a backslash")
        self._at += 1
        return self._text[self._at - 1]

    def step_back(self) -> None:
        """Undo the last ``take``."""
        self._at -= 1

    def take_if(self, text: str) -> bool:
        """Read ``text`` if it comes next."""
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def take_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read the match of ``pattern`` at this position, if there is one."""
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def skip_comments(self) -> bool:
        """Skip blanks and comments if (?x) is active; return True."""
        while self.flags.comments and not self.at_end:
            if self.peek() in _BLANKS:
                self._at += 1
            elif self.take_match(_COMMENT) is None:
                break
        return True

    def spend(self, work: int) -> None:
        """Count work; refuse a pattern that needs too much."""
        self._work += work
        if self._work > _MAX_WORK:
            self.fail("it is too large after its classes are expanded")

    def error(self, problem: str) -> UsageError:
        """Return the error for a pattern that is invalid in Java too, or too large."""
        return UsageError(f"{shown(self._original)} is not a valid pattern: {problem}")

    def fail(self, problem: str) -> NoReturn:
        raise self.error(problem)

    def refuse(self, what: str, why: str = "", *, hint: str | None = None) -> NoReturn:
        """Raise UsageError for a construct that Java supports and RE2 does not."""
        reason = f": {why}" if why else ""
        text = f"{shown(self._original)} has {what}, which is not supported{reason}"
        raise UsageError(text, hint=hint)

    def shorthand(self) -> Ranges | None:
        r"""Read a class after its backslash: ``d``, ``W``, ``p{L}`` …; None when there is none."""
        letter = self.peek()
        if letter in ("p", "P"):
            self.take()
            ranges = self._property(letter)
        elif letter and letter.lower() in char_set.SHORTHANDS:
            self.take()
            ranges = char_set.SHORTHANDS[letter.lower()]
        else:
            return None
        return ranges if letter.islower() else char_set.complement(ranges)

    def _property(self, letter: str) -> Ranges:
        found = self.take_match(_PROPERTY) or self.fail(f"\\{letter} has no name")
        name = found[1] if found[1] is not None else found[2]
        for prefix in ("general_category=", "gc="):
            name = name.removeprefix(prefix)
        ranges = char_set.named_set(name, any_case=self.flags.any_case)
        if ranges is None:
            raise UsageError(
                f"{shown(self._original)} has \\{letter}{{{name}}}, which is not supported: use "
                "a POSIX name (Alpha, Digit …) or a Unicode category (L, Lu, Nd …)"
            )
        return ranges

    def escaped_char(self) -> int:
        """Read an escaped character after its backslash."""
        for pattern in _NUMBERS:
            if found := self.take_match(pattern):
                return self._code_point(int(found[1], 16))
        if found := self.take_match(_OCTAL):
            return int(found[1], 8)
        letter = self.take()
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "c":
            return ord(self.take()) ^ 64
        if "1" <= letter <= "9":
            self.refuse(f"a back-reference (\\{letter})", LINEAR)
        if letter in _REFUSED:
            self.refuse(_REFUSED[letter])
        if letter.isascii() and letter.isalnum():
            self.fail(f"there is no \\{letter}")
        return ord(letter)

    def _code_point(self, point: int) -> int:
        if _HIGH_HALVES <= point < _LOW_HALVES and (low := self.take_match(_LOW_HALF)):
            return 0x10000 + ((point - _HIGH_HALVES) << 10) + int(low[1], 16) - _LOW_HALVES
        if _HIGH_HALVES <= point < _AFTER_HALVES or point > char_set.LAST:
            self.fail(f"{point:x} is not a character")
        return point

    def char_class(self, depth: int = 1) -> Ranges:
        """Read a class after its opening bracket, including the closing one."""
        if depth > _MAX_CLASS_DEPTH:
            self.fail(f"classes are nested more than {_MAX_CLASS_DEPTH} deep")
        negated = self.take_if("^")
        ranges = self._class_items(depth)
        while self._text.startswith("&&", self._at):
            self._at += 2
            if self.peek() == "]":
                self.fail("&& needs a class before and behind it")
            right = self._class_items(depth)
            self.spend(_RANGE_WORK * (len(ranges) + len(right)))
            ranges = char_set.intersection(ranges, right)
        self._at += 1
        return char_set.complement(ranges) if negated else ranges

    def _class_items(self, depth: int) -> Ranges:
        """Read single characters, ranges and classes, up to a closing bracket or ``&&``."""
        items: list[tuple[int, int]] = []
        count = 0
        while self.skip_comments() and not self._items_end(count):
            ranges = self.char_class(depth + 1) if self.take_if("[") else self._class_item()
            self.spend(_RANGE_WORK * len(ranges))
            items.extend(ranges)
            count += 1
        return char_set.union(items)

    def _items_end(self, count: int) -> bool:
        if self.at_end:
            self.fail("a class is not closed")
        if self._text.startswith("&&", self._at):
            if not count or self._text.startswith("&&&", self._at):
                self.fail("&& needs a class before and behind it")
            return True
        return self.peek() == "]" and count > 0

    def _class_item(self) -> Ranges:
        """Read a shorthand, a character or a range."""
        if self.peek() == "\\":
            self.take()
            if (ranges := self.shorthand()) is not None:
                return ranges
            first = self.escaped_char()
        else:
            first = ord(self.take())
        last = first
        self.skip_comments()
        if self.peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("[", "]", ""):
            self.take()
            self.skip_comments()
            last = self.escaped_char() if self.take_if("\\") else ord(self.take())
        if last < first:
            self.fail(f"the range {chr(first)}-{chr(last)} is reversed")
        ranges = ((first, last),)
        return char_set.with_both_cases(ranges) if self.flags.any_case else ranges
