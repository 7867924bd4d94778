"""References to config providers in a value: ``${provider:path:key}`` or ``${provider:key}``. Pure.

Read in one pass. A regular expression for them takes hours for a few kilobytes of ``${a:``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Reference(NamedTuple):
    """Where a reference stands in a value, and what it names."""

    start: int
    stop: int
    provider: str
    path: str
    key: str


def iter_references(text: str) -> Iterator[Reference]:
    """Yield the references in a value, from left to right, as Kafka finds them."""
    stop = 0
    while (start := text.find("${", stop)) >= 0 and (end := text.find("}", start)) >= 0:
        stop = end + 1
        provider, colon, rest = text[start + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield Reference(start, stop, provider, *((path, key) if second else ("", rest)))


def is_reference(text: str) -> bool:
    """Tell whether a value is one reference and nothing else."""
    first = next(iter_references(text), None)
    return first is not None and (first.start, first.stop) == (0, len(text))


def without_references(text: str) -> str:
    """Return what is left of a value without its references."""
    parts, end = [], 0
    for one in iter_references(text):
        parts.append(text[end : one.start])
        end = one.stop
    return "".join([*parts, text[end:]])
