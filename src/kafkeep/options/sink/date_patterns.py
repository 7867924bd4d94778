"""Parse date patterns: Joda's, for ``path.format``, and Java's ``SimpleDateFormat``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from kafkeep.errors import UsageError

_MAX_LENGTH = 1000
"""Names of objects have at most 1,024 bytes."""
_LETTERS = "GCYxweEyDMdaKhHkmsSzZ"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a Joda pattern: a letter and how often it stands, or a text (no letter)."""

    letter: str
    count: int
    text: str

    @property
    def is_text(self) -> bool:
        """Whether it prints words, which depend on the locale."""
        return self.letter in ("G", "E", "a") or (self.letter == "M" and self.count >= 3)


def iter_tokens(pattern: str) -> Iterator[Token]:
    """Yield the pieces of a Joda pattern, known letters or not.

    A quote that is never closed runs to the end.
    """
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        start = at
        if letter.isascii() and letter.isalpha():
            while at < len(pattern) and pattern[at] == letter:
                at += 1
            yield Token(letter, at - start, "")
        else:
            text, at = _read_text(pattern, at)
            yield Token("", 0, text)


def _read_text(pattern: str, at: int) -> tuple[str, int]:
    text = ""
    quoted = False
    while at < len(pattern):
        letter = pattern[at]
        if pattern.startswith("''", at):
            text += "'"
            at += 1
        elif letter == "'":
            quoted = not quoted
        elif not quoted and letter.isascii() and letter.isalpha():
            break
        else:
            text += letter
        at += 1
    return text, at


def parse_path_format(text: str) -> str:
    """Check a pattern of paths; a delimiter at its end goes, as in Confluent's sink."""
    if len(text) > _MAX_LENGTH:
        raise UsageError(
            f"a pattern of paths has at most {_MAX_LENGTH} characters, not {len(text)}"
        )
    pattern = text.removesuffix("/")
    if not pattern.strip():
        return ""
    tokens = list(iter_tokens(pattern))
    for token in tokens:
        if token.letter and token.letter not in _LETTERS:
            raise UsageError(
                f"{token.letter * token.count!r} in {text!r} is no part of a time",
                hint=f"Joda's letters are {_LETTERS}; other words stand in 'quotes'.",
            )
    # What letters print never is empty, a dot or a control character.
    for part in "".join("0" if token.letter else token.text for token in tokens).split("/"):
        if part in ("", ".", "..") or "\\" in part or not part.isprintable():
            raise UsageError(f"{text!r} gives {part!r} as a part of the path")
    return pattern


LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
_WRITE_ONLY = frozenset("wWFY")


@dataclass(frozen=True, slots=True)
class DateField:
    """A letter of the pattern, and how often it stands there."""

    letter: str
    count: int


DatePattern = tuple[DateField | str, ...]


def parse_date_pattern(text: str) -> DatePattern:
    """Read a pattern; quotes hold plain text, two of them are one.

    UsageError when a letter has no meaning, or a quote is not closed.
    """
    parts: list[DateField | str] = []
    quoted = False
    for char, run in groupby(text):
        count = len(list(run))
        if char == "'":
            parts.append("'" * (count // 2))
            quoted ^= count % 2 == 1
        elif quoted or not (char.isascii() and char.isalpha()):
            parts.append(char * count)
        elif char in LETTERS:
            parts.append(DateField(char, count))
        else:
            raise UsageError(f"the letter {char!r} has no meaning in the date format {text!r}")
    if quoted:
        raise UsageError(f"a quote is not closed in the date format {text!r}")
    if any(isinstance(p, DateField) and p.letter == "X" and p.count > 3 for p in parts):
        raise UsageError(f"X stands at most three times in a date format, not as in {text!r}")
    return _joined(parts)


def date_pattern(text: str) -> str:
    """Check a pattern."""
    parse_date_pattern(text)
    return text


def unreadable_letters(pattern: DatePattern) -> str:
    """Return the letters by which times can be written, but not read here."""
    return "".join(p.letter for p in pattern if not isinstance(p, str) and p.letter in _WRITE_ONLY)


def _joined(parts: list[DateField | str]) -> DatePattern:
    joined: list[DateField | str] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        elif part != "":
            joined.append(part)
    return tuple(joined)
