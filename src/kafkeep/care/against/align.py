"""Two sequences of numbers side by side: which stand in both, in the same order. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kafkeep.care.against.digest import Digests
from kafkeep.kernel import Int64s

_SMALL = 1 << 20
"""So many pairs at most are looked at one by one where nothing stands out."""


class Block(NamedTuple):
    """``size`` neighbours that are alike, from ``a`` on in one and ``b`` on in the other."""

    a: int
    b: int
    size: int


class _Stretch(NamedTuple):
    a: int
    a_end: int
    b: int
    b_end: int


def align(a: Digests, b: Digests) -> list[Block]:
    """Return what both have, in order; as much as can be where no number stands twice.

    What stands once in each is lined up first (the longest run that is in order in both), and
    what lies between is looked at in the same way.
    """
    found: list[Block] = []
    waiting = [_Stretch(0, len(a), 0, len(b))]
    while waiting:
        stretch = _trim(a, b, waiting.pop(), found)
        if stretch.a == stretch.a_end or stretch.b == stretch.b_end:
            continue
        anchors = _anchors(a[stretch.a : stretch.a_end], b[stretch.b : stretch.b_end])
        if not anchors:
            found.extend(_look_closely(a, b, stretch))
            continue
        at_a, at_b = stretch.a, stretch.b
        for block in anchors:
            start_a, start_b = stretch.a + block.a, stretch.b + block.b
            found.append(Block(start_a, start_b, block.size))
            waiting.append(_Stretch(at_a, start_a, at_b, start_b))
            at_a, at_b = start_a + block.size, start_b + block.size
        waiting.append(_Stretch(at_a, stretch.a_end, at_b, stretch.b_end))
    return sorted(block for block in found if block.size)


def _trim(a: Digests, b: Digests, stretch: _Stretch, found: list[Block]) -> _Stretch:
    """Take off what is alike at the beginning and at the end."""
    start_a, end_a, start_b, end_b = stretch
    most = min(end_a - start_a, end_b - start_b)
    before = _alike(a[start_a : start_a + most], b[start_b : start_b + most])
    found.append(Block(start_a, start_b, before))
    most -= before
    after = _alike(a[end_a - most : end_a][::-1], b[end_b - most : end_b][::-1])
    found.append(Block(end_a - after, end_b - after, after))
    return _Stretch(start_a + before, end_a - after, start_b + before, end_b - after)


def _alike(a: Digests, b: Digests) -> int:
    parted = np.flatnonzero(a != b)
    return int(parted[0]) if len(parted) else len(a)


def _anchors(a: Digests, b: Digests) -> list[Block]:
    """Line up what stands once in each."""
    once_a, at_a = _once(a)
    once_b, at_b = _once(b)
    _, in_a, in_b = np.intersect1d(once_a, once_b, assume_unique=True, return_indices=True)
    if not len(in_a):
        return []
    places_a, places_b = at_a[in_a], at_b[in_b]
    order = np.argsort(places_a)
    places_a, places_b = places_a[order], places_b[order]
    rising = longest_rising(places_b)
    return list(_runs(places_a[rising], places_b[rising]))


def _once(values: Digests) -> tuple[Digests, Int64s]:
    numbers, places, counts = np.unique(values, return_index=True, return_counts=True)
    single = counts == 1
    return numbers[single], places[single].astype(np.int64)


def _runs(places_a: Int64s, places_b: Int64s) -> Iterator[Block]:
    """Join neighbours into blocks."""
    breaks = np.flatnonzero((np.diff(places_a) != 1) | (np.diff(places_b) != 1)) + 1
    edges = [0, *breaks.tolist(), len(places_a)]
    for first, last in pairwise(edges):
        yield Block(int(places_a[first]), int(places_b[first]), last - first)


def longest_rising(values: Int64s) -> Int64s:
    """Return where the members of a longest rising subsequence stand."""
    if bool(np.all(values[1:] > values[:-1])):
        return np.arange(len(values), dtype=np.int64)
    ends: list[int] = []
    places: list[int] = []
    before = np.full(len(values), -1, dtype=np.int64)
    for place, value in enumerate(values.tolist()):
        at = bisect_left(ends, value)
        if at:
            before[place] = places[at - 1]
        if at == len(ends):
            ends.append(value)
            places.append(place)
        else:
            ends[at], places[at] = value, place
    chosen = []
    place = places[-1]
    while place >= 0:
        chosen.append(place)
        place = int(before[place])
    return np.array(chosen[::-1], dtype=np.int64)


def _look_closely(a: Digests, b: Digests, stretch: _Stretch) -> Iterator[Block]:
    """Match what stands several times; a stretch too large for that has nothing in common."""
    mine, theirs = a[stretch.a : stretch.a_end], b[stretch.b : stretch.b_end]
    if len(mine) * len(theirs) > _SMALL or not np.isin(mine, theirs).any():
        return
    matcher = SequenceMatcher(None, mine.tolist(), theirs.tolist(), autojunk=False)
    for block in matcher.get_matching_blocks():
        yield Block(stretch.a + block.a, stretch.b + block.b, block.size)
