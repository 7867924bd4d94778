"""Sets of characters as sorted ranges of code points, and the sets that Java names. Pure."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

Ranges = tuple[tuple[int, int], ...]
"""First and last code points; sorted, with at least one code point between ranges."""

LAST = sys.maxunicode
_UPPER_A, _LOWER_A, _LETTERS = ord("A"), ord("a"), 26


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(one for each in sets for one in each):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """Return every character that is not in the set."""
    kept, start = [], 0
    for first, last in ranges:
        if start < first:
            kept.append((start, first - 1))
        start = last + 1
    if start <= LAST:
        kept.append((start, LAST))
    return tuple(kept)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    return complement(union(complement(left), complement(right)))


def with_both_cases(ranges: Ranges) -> Ranges:
    """Add the other case of each ASCII letter; Java's (?i) folds only these."""
    letters = [
        at
        for at in range(_LETTERS)
        if _holds(ranges, _UPPER_A + at) or _holds(ranges, _LOWER_A + at)
    ]
    both = [(base + at, base + at) for base in (_UPPER_A, _LOWER_A) for at in letters]
    return union(ranges, both)


def _holds(ranges: Ranges, point: int) -> bool:
    return any(first <= point <= last for first, last in ranges)


def to_re2(ranges: Ranges) -> str:
    """Return the set in the syntax of RE2."""
    if not ranges:
        return rf"[^\x{{0}}-\x{{{LAST:x}}}]"
    return "[" + "".join(map(_range_to_re2, ranges)) + "]"


def _range_to_re2(ends: tuple[int, int]) -> str:
    first, last = ends
    return rf"\x{{{first:x}}}" if first == last else rf"\x{{{first:x}}}-\x{{{last:x}}}"


def _of(text: str) -> Ranges:
    """Return the ranges of a text that consists of pairs of first and last characters."""
    return union([(ord(text[at]), ord(text[at + 1])) for at in range(0, len(text), 2)])


DIGIT = _of("09")
_UPPER, _LOWER = _of("AZ"), _of("az")
_ALPHA = union(_UPPER, _LOWER)
_ALNUM = union(_ALPHA, DIGIT)
WORD = union(_ALNUM, _of("__"))
SPACE = _of("\t\r  ")
HORIZONTAL_SPACE = _of(
    "\t\t  \xa0\xa0\u1680\u1680\u180e\u180e\u2000\u200a\u202f\u202f\u205f\u205f\u3000\u3000"
)
VERTICAL_SPACE = _of("\n\r\x85\x85\u2028\u2029")
_PUNCT = _of("!/:@[`{~")
LINE_ENDS = _of("\n\n\r\r\x85\x85\u2028\u2029")
NEWLINE = _of("\n\n")

SHORTHANDS = {
    "d": DIGIT,
    "w": WORD,
    "s": SPACE,
    "h": HORIZONTAL_SPACE,
    "v": VERTICAL_SPACE,
}
"""``\\d`` and the like; the capital letter is the complement."""

_POSIX = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": _of("\0\x7f"),
    "Alpha": _ALPHA,
    "Digit": DIGIT,
    "Alnum": _ALNUM,
    "Punct": _PUNCT,
    "Graph": union(_ALNUM, _PUNCT),
    "Print": _of(" ~"),
    "Blank": _of("\t\t  "),
    "Cntrl": _of("\0\x1f\x7f\x7f"),
    "XDigit": _of("09AFaf"),
    "Space": SPACE,
    "all": ((0, LAST),),
    "L1": _of("\0\xff"),
}
_CASED = ("Lu", "Ll", "Lt")
_CATEGORY_GROUPS = {"LC": _CASED, "LD": ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")}


def named_set(name: str, *, any_case: bool) -> Ranges | None:
    r"""Return the set of ``\p{name}``: a POSIX class or a general category; None if unknown."""
    if name in _POSIX:
        return _ALPHA if any_case and name in ("Lower", "Upper") else _POSIX[name]
    name = name.removeprefix("Is")
    if any_case and name in _CASED:
        name = "LC"
    categories = _categories()
    wanted = _CATEGORY_GROUPS.get(name) or [
        one for one in categories if one == name or (len(name) == 1 and one[0] == name)
    ]
    return union(*(categories[one] for one in wanted)) if wanted else None


@lru_cache(maxsize=1)
def _categories() -> dict[str, Ranges]:
    """Return the characters of each general category. Slow: it iterates over all of Unicode."""
    found: dict[str, list[tuple[int, int]]] = {}
    start, now = 0, unicodedata.category("\0")
    for point in range(1, LAST + 2):
        category = unicodedata.category(chr(point)) if point <= LAST else ""
        if category != now:
            found.setdefault(now, []).append((start, point - 1))
            start, now = point, category
    return {name: tuple(ranges) for name, ranges in found.items()}
