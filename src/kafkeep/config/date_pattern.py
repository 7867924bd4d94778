"""Patterns of Java's ``SimpleDateFormat``, read into fields and texts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from kafkeep.errors import UsageError

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
