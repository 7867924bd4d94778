"""``path.format``: Joda's patterns, taken apart and checked as the pattern of a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
