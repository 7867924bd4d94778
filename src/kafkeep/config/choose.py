"""Parsers for option values that are names rather than numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from kafkeep.archive.names import topic_name
from kafkeep.errors import UsageError

_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint that names the nearest known word, or None when nothing is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else None


def one_of(what: str, *choices: str) -> Callable[[str], str]:
    """Make a parser that takes exactly one of ``choices``."""

    def parse(text: str) -> str:
        if text not in choices:
            raise UsageError(
                f"{what} is {text!r}, but must be one of {', '.join(choices)}",
                hint=did_you_mean(text, choices),
            )
        return text

    return parse


def names(text: str) -> tuple[str, ...]:
    """Split ``a,b,c``; blanks around names go, empty names and repeats are refused."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise UsageError(f"a name is empty in {text!r}", hint="Write names as a,b,c.")
    if len(set(parts)) != len(parts):
        raise UsageError(f"a name stands twice in {text!r}")
    return parts


def topic_names(text: str) -> tuple[str, ...]:
    """Split ``a,b,c`` into names that topics may have."""
    return tuple(map(topic_name, names(text)))


def truth(text: str) -> bool:
    """Understand ``true`` and ``false``."""
    bare = text.strip().lower()
    if bare not in ("true", "false"):
        raise UsageError(f"{text!r} is neither true nor false")
    return bare == "true"


def number(low: int, high: int) -> Callable[[str], int]:
    """Make a parser for a whole number from ``low`` to ``high``."""

    def parse(text: str) -> int:
        bare = text.strip()
        if not _NUMBER.fullmatch(bare) or not low <= int(bare) <= high:
            raise UsageError(f"{text[:40]!r} is not a whole number from {low} to {high}")
        return int(bare)

    return parse


def commit_number(text: str) -> int:
    """Understand the number of a commit."""
    if not _NUMBER.fullmatch(text.strip()):
        raise UsageError(
            f"{text[:40]!r} is not the number of a commit",
            hint="Commits count from 0; kafkeep info names the last one.",
        )
    return int(text)


def positive(what: str) -> Callable[[str], int]:
    """Make a parser for a whole number above zero that 64 bits hold."""

    def parse(text: str) -> int:
        bare = text.strip()
        if not _NUMBER.fullmatch(bare) or not 0 < int(bare) < 2**63:
            raise UsageError(f"{what} is {text[:40]!r}, but must be a whole number above zero")
        return int(bare)

    return parse
