"""Parse date patterns: Joda's, for ``path.format``, and Java's ``SimpleDateFormat``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from kafkeep.errors import UsageError

_MAX_LENGTH = 1000
"""S3 limits object names to 1,024 bytes."""
_LETTERS = "GCYxweEyDMdaKhHkmsSzZ"


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a Joda pattern: a letter and its number of repetitions, or a literal text."""

    letter: str
    count: int
    text: str

    @property
    def is_text(self) -> bool:
        """True if it prints words, which depend on the locale."""
        return self.letter in ("G", "E", "a") or (self.letter == "M" and self.count >= 3)


def iter_tokens(pattern: str) -> Iterator[Token]:
    """Yield the tokens of a Joda pattern, including unknown letters.

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
    """Check a path pattern; remove a trailing delimiter, as in Confluent's sink."""
    if len(text) > _MAX_LENGTH:
        raise UsageError(f"a path pattern has at most {_MAX_LENGTH} characters, not {len(text)}")
    pattern = text.removesuffix("/")
    if not pattern.strip():
        return ""
    tokens = list(iter_tokens(pattern))
    for token in tokens:
        if token.letter and token.letter not in _LETTERS:
            raise UsageError(
                f"{token.letter * token.count!r} in {text!r} is not a valid date field",
                hint=f"Joda's letters are {_LETTERS}; put other text in 'quotes'.",
            )
    # The output of letters is never empty, a dot or a control character.
    for part in "".join("0" if token.letter else token.text for token in tokens).split("/"):
        if part in ("", ".", "..") or "\\" in part or not part.isprintable():
            raise UsageError(f"{text!r} gives {part!r} as a part of the path")
    return pattern


LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
_WRITE_ONLY = frozenset("wWFY")


@dataclass(frozen=True, slots=True)
class DateField:
    """A letter of the pattern, and its number of repetitions."""

    letter: str
    count: int


DatePattern = tuple[DateField | str, ...]


def parse_date_pattern(text: str) -> DatePattern:
    """Parse a pattern. Quotes enclose literal text; two quotes are a literal quote.

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
        raise UsageError(f"X can be repeated at most three times in the date format {text!r}")
    return _joined(parts)


def date_pattern(text: str) -> str:
    """Return ``text`` if it is a valid pattern; UsageError otherwise."""
    parse_date_pattern(text)
    return text


def unreadable_letters(pattern: DatePattern) -> str:
    """Return the letters that are supported for formatting, but not for parsing."""
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
