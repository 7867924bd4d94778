"""What a PromQL expression asks for: metric names, and the labels it picks them by."""

from __future__ import annotations

import re
from pathlib import Path

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*+)\s*+(?:\{([^}]*)\})?+(?!\()")
_WORDS = {"by", "on", "or", "and", "unless", "offset", "le", "inf", "nan", "bool"}
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)")


def selectors(expression: str) -> dict[str, set[str]]:
    """Return each metric and the labels that are matched on it."""
    plain = _STRING.sub('""', expression)
    assert plain.count("(") == plain.count(")"), expression
    plain = re.sub(r"\[[^\]]*\]|\boffset\s+\w+", " ", plain)
    plain = _GROUPING.sub(" ", plain)
    found: dict[str, set[str]] = {}
    for name, matched in _SELECTOR.findall(plain):
        if name not in _WORDS and "_" in name:
            found.setdefault(name, set()).update(_LABEL.findall(matched))
    return found


def groupings(expression: str) -> set[str]:
    """Return the labels it groups or joins by."""
    return {
        label.strip()
        for inside in _GROUPING.findall(expression)
        for label in inside.split(",")
        if label.strip()
    }


def strimzi_names() -> dict[str, set[str]]:
    """Return what Strimzi's board and alerts ask a worker for, with the labels they need."""
    path = Path(__file__).parents[1] / "unit/connect/metrics/strimzi_metrics.txt"
    lines = [line.split() for line in path.read_text().splitlines()]
    return {words[0]: set(words[1:]) for words in lines if words[0] not in ("#", "-")}
