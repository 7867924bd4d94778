"""Digest records, and align two sequences of digests. Pure.

Two records have the same digest if their compared fields are equal. Once streams
differ, only their digests are kept.
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
"""The compared fields of a record: the columns of ``DigestRows.parts``."""
KEY, VALUE = FIELDS.index("key"), FIELDS.index("value")
NOTHING = 0
"""The digest of a null key or value, and of a field that is not compared."""

Digests = NDArray[np.uint64]
_SECRET = os.urandom(16)
"""A new key in each process, so that nobody can construct records with equal digests."""
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
        """Return the rows that a slice, a mask or indices select."""
        return DigestRows(self.digests[which], self.parts[which], self.offsets[which])


NO_ROWS = DigestRows(
    np.empty(0, np.uint64), np.empty((0, len(FIELDS)), np.uint64), np.empty(0, np.int64)
)


def join_rows(several: Iterable[DigestRows]) -> DigestRows:
    """Concatenate rows."""
    found = [rows for rows in several if len(rows)]
    if len(found) < 2:
        return found[0] if found else NO_ROWS
    return DigestRows(
        np.concatenate([rows.digests for rows in found]),
        np.concatenate([rows.parts for rows in found]),
        np.concatenate([rows.offsets for rows in found]),
    )


def digest_rows(batch: pa.RecordBatch, fields: Collection[str]) -> DigestRows:
    """Return the rows of records in ``kafka.records.RECORD_SCHEMA``, of these fields only."""
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
    """Encode headers so that different headers have different bytes."""
    parts = []
    for header in headers:
        for text in (header["key"], header["value"]):
            parts.append(b"-" if text is None else b"%d:%b" % (len(text), text))
    return b"".join(parts)


_SMALL = 1 << 20
"""The maximum number of pairs compared one by one where no digest is unique."""


class AlignedBlock(NamedTuple):
    """``size`` equal neighbours, starting at ``a`` in one sequence and ``b`` in the other."""

    a: int
    b: int
    size: int


class _Stretch(NamedTuple):
    a: int
    a_end: int
    b: int
    b_end: int


def align(a: Digests, b: Digests) -> list[AlignedBlock]:
    """Return the blocks that both have in order; the longest alignment if no digest repeats.

    Digests that occur once in each are aligned first (the longest sequence that is in order in
    both). The stretches between them are aligned in the same way.
    """
    found: list[AlignedBlock] = []
    waiting = [_Stretch(0, len(a), 0, len(b))]
    while waiting:
        stretch = _trim(a, b, waiting.pop(), found)
        if stretch.a == stretch.a_end or stretch.b == stretch.b_end:
            continue
        anchors = _anchors(a[stretch.a : stretch.a_end], b[stretch.b : stretch.b_end])
        if not anchors:
            found.extend(_match_repeated(a, b, stretch))
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
    """Remove the equal beginning and end of a stretch."""
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
    """Align the digests that occur once in each."""
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
    """Return the indices of a longest increasing subsequence."""
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


def _match_repeated(a: Digests, b: Digests, stretch: _Stretch) -> Iterator[AlignedBlock]:
    """Match digests that occur several times; a stretch that is too large counts as different."""
    mine, theirs = a[stretch.a : stretch.a_end], b[stretch.b : stretch.b_end]
    if len(mine) * len(theirs) > _SMALL or not np.isin(mine, theirs).any():
        return
    matcher = SequenceMatcher(None, mine.tolist(), theirs.tolist(), autojunk=False)
    for block in matcher.get_matching_blocks():
        yield AlignedBlock(stretch.a + block.a, stretch.b + block.b, block.size)
