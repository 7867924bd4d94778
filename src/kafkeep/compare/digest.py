"""Digest records, and align two sequences of digests. Pure.

Two records have the same digest if their compared fields are equal. Digests are all that is kept
of streams once they differ.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.numba_setup import Int64s
from kafkeep.records.arrow import view_numbers, view_offsets

FIELDS = ("timestamp", "key", "value", "headers")
"""What is compared of a record, and the columns of ``DigestRows.parts``."""
KEY, VALUE = FIELDS.index("key"), FIELDS.index("value")
NOTHING = 0
"""The part of a key or value that is null, and of a field that is left out."""

Digests = NDArray[np.uint64]
_SECRET = os.urandom(16)
"""Nobody can make two records that are taken for one: it is new in each process."""
_WEIGHTS: Digests = np.frombuffer(os.urandom(8 * len(FIELDS)), dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class DigestRows:
    """Records of one stream: a digest of each, of each of its fields, and its offset."""

    digests: Digests
    parts: Digests
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.digests)

    def pick(self, which: Any) -> DigestRows:
        """Return the rows that a slice, a mask or numbers pick."""
        return DigestRows(self.digests[which], self.parts[which], self.offsets[which])


NO_ROWS = DigestRows(
    np.empty(0, np.uint64), np.empty((0, len(FIELDS)), np.uint64), np.empty(0, np.int64)
)


def join_rows(several: Iterable[DigestRows]) -> DigestRows:
    """Put rows behind one another."""
    found = [rows for rows in several if len(rows)]
    if len(found) < 2:
        return found[0] if found else NO_ROWS
    return DigestRows(
        np.concatenate([rows.digests for rows in found]),
        np.concatenate([rows.parts for rows in found]),
        np.concatenate([rows.offsets for rows in found]),
    )


def digest_rows(batch: pa.RecordBatch, fields: Collection[str]) -> DigestRows:
    """Return the rows of records in ``kafka.records.RECORD_SCHEMA``, by these fields alone."""
    parts = np.zeros((batch.num_rows, len(FIELDS)), dtype=np.uint64)
    for place, field in enumerate(FIELDS):
        if field in fields:
            parts[:, place] = _digest(field, batch.column(field))
    offsets = view_numbers(batch.column("offset"), np.int64).copy()
    return DigestRows((parts * _WEIGHTS).sum(axis=1, dtype=np.uint64), parts, offsets)


def digest_texts(texts: pa.Array) -> Digests:
    """Return a digest of each value of a binary column; ``NOTHING`` for null."""
    return _joined(texts.to_pylist())


def _digest(field: str, column: pa.Array) -> Digests:
    if field == "timestamp":
        return view_numbers(column, np.int64).astype(np.uint64)
    if field != "headers":
        return digest_texts(column)
    edges = view_offsets(column)
    if edges[0] == edges[-1]:
        return np.zeros(len(column), dtype=np.uint64)
    return _joined(_header_bytes(headers) if headers else None for headers in column.to_pylist())


def _joined(values: Iterable[bytes | None]) -> Digests:
    return np.frombuffer(b"".join(_iter_digests(values)), dtype=np.uint64)


def _iter_digests(values: Iterable[bytes | None]) -> Iterator[bytes]:
    nothing = NOTHING.to_bytes(8, "little")
    for value in values:
        yield nothing if value is None else blake2b(value, digest_size=8, key=_SECRET).digest()


def _header_bytes(headers: list[dict[str, bytes | None]]) -> bytes:
    """Write headers so that different ones are never alike."""
    parts = []
    for header in headers:
        for text in (header["key"], header["value"]):
            parts.append(b"-" if text is None else b"%d:%b" % (len(text), text))
    return b"".join(parts)


_SMALL = 1 << 20
"""Most pairs that are compared one by one where no digest is unique."""


class AlignedBlock(NamedTuple):
    """``size`` neighbours that are alike, from ``a`` on in one and ``b`` on in the other."""

    a: int
    b: int
    size: int


class _Stretch(NamedTuple):
    a: int
    a_end: int
    b: int
    b_end: int


def align(a: Digests, b: Digests) -> list[AlignedBlock]:
    """Return what both have, in order; as much as possible if no number occurs twice.

    Numbers that occur once in each are aligned first (the longest run that is in order in both),
    and what lies between is treated in the same way.
    """
    found: list[AlignedBlock] = []
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
            found.append(AlignedBlock(start_a, start_b, block.size))
            waiting.append(_Stretch(at_a, start_a, at_b, start_b))
            at_a, at_b = start_a + block.size, start_b + block.size
        waiting.append(_Stretch(at_a, stretch.a_end, at_b, stretch.b_end))
    return sorted(block for block in found if block.size)


def _trim(a: Digests, b: Digests, stretch: _Stretch, found: list[AlignedBlock]) -> _Stretch:
    """Take off what is alike at the beginning and at the end."""
    start_a, end_a, start_b, end_b = stretch
    most = min(end_a - start_a, end_b - start_b)
    before = _alike(a[start_a : start_a + most], b[start_b : start_b + most])
    found.append(AlignedBlock(start_a, start_b, before))
    most -= before
    after = _alike(a[end_a - most : end_a][::-1], b[end_b - most : end_b][::-1])
    found.append(AlignedBlock(end_a - after, end_b - after, after))
    return _Stretch(start_a + before, end_a - after, start_b + before, end_b - after)


def _alike(a: Digests, b: Digests) -> int:
    compared = np.flatnonzero(a != b)
    return int(compared[0]) if len(compared) else len(a)


def _anchors(a: Digests, b: Digests) -> list[AlignedBlock]:
    """Align what occurs once in each."""
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


def _runs(places_a: Int64s, places_b: Int64s) -> Iterator[AlignedBlock]:
    """Join neighbours into blocks."""
    breaks = np.flatnonzero((np.diff(places_a) != 1) | (np.diff(places_b) != 1)) + 1
    edges = [0, *breaks.tolist(), len(places_a)]
    for first, last in pairwise(edges):
        yield AlignedBlock(int(places_a[first]), int(places_b[first]), last - first)


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


def _look_closely(a: Digests, b: Digests, stretch: _Stretch) -> Iterator[AlignedBlock]:
    """Match what occurs several times; a stretch that is too large counts as different."""
    mine, theirs = a[stretch.a : stretch.a_end], b[stretch.b : stretch.b_end]
    if len(mine) * len(theirs) > _SMALL or not np.isin(mine, theirs).any():
        return
    matcher = SequenceMatcher(None, mine.tolist(), theirs.tolist(), autojunk=False)
    for block in matcher.get_matching_blocks():
        yield AlignedBlock(stretch.a + block.a, stretch.b + block.b, block.size)
