"""Compare two record streams in bounded memory: bytes while they are equal, then digests.

Where the streams differ, a window of digests of each is aligned. The window grows until enough of
it is equal again. Runs in tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.compare.digest import NO_ROWS, AlignedBlock, DigestRows, align, digest_rows, join_rows
from kafkeep.numba_setup import Int64s
from kafkeep.records.arrow import view_numbers

FIRST_WINDOW = 1 << 10
LARGEST_WINDOW = 1 << 18
"""Records of each stream; 48 bytes are kept of each."""
MOST_KEPT = 1 << 18
"""Unmatched records of each stream that are classified; more are only counted."""
MOST_COMPARED = 1 << 16
_GROWTH = 4
_PLACES = 5


class RecordStream:
    """One stream and its read position; ``expected`` estimates its number of records."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], fields: Collection[str], expected: int = 0
    ) -> None:
        self._batches = batches
        self._fields = fields
        self._head: pa.RecordBatch | None = None
        self._expected = expected
        self.taken = 0

    @property
    def remaining(self) -> int:
        """The estimated number of remaining records."""
        return max(0, self._expected - self.taken)

    def head(self) -> pa.RecordBatch | None:
        """Return some of the next records; None at the end."""
        while self._head is None or not self._head.num_rows:
            self._head = next(self._batches, None)
            if self._head is None:
                return None
        return self._head

    def skip(self, count: int) -> None:
        """Skip records of the head."""
        assert self._head is not None
        self._head = self._head.slice(count)
        self.taken += count

    def take(self, count: int) -> DigestRows:
        """Return the next ``count`` records as digests; fewer only at the end."""
        pieces = []
        while count > 0 and (head := self.head()) is not None:
            piece = head.slice(0, min(count, head.num_rows))
            pieces.append(digest_rows(piece, self._fields))
            self.skip(piece.num_rows)
            count -= piece.num_rows
        return join_rows(pieces)


@dataclass(slots=True)
class UnmatchedRecords:
    """Records of one stream that the other does not have there.

    ``gaps`` holds the number of matched records before each record. Records of both streams with
    the same number are in the same place.
    """

    count: int = 0
    _rows: list[DigestRows] = field(default_factory=list)
    _gaps: list[Int64s] = field(default_factory=list)
    _kept: int = 0

    def add(self, rows: DigestRows, gap: int) -> None:
        """Add records; those beyond the limit are only counted."""
        self.count += len(rows)
        kept = rows.pick(slice(0, max(0, MOST_KEPT - self._kept)))
        if len(kept):
            self._rows.append(kept)
            self._gaps.append(np.full(len(kept), gap, dtype=np.int64))
            self._kept += len(kept)

    @property
    def rows(self) -> DigestRows:
        """The kept records."""
        return join_rows(self._rows)

    @property
    def gaps(self) -> Int64s:
        """The place of each kept record."""
        return np.concatenate(self._gaps) if self._gaps else np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class StreamComparison:
    """The result of two streams: the number of equal records, and the unmatched ones."""

    matched: int = 0
    displaced: int = 0
    """Matched records at a different offset."""
    displaced_at: list[tuple[int, int]] = field(default_factory=list)
    lacking: UnmatchedRecords = field(default_factory=UnmatchedRecords)
    """Records of the archive that the target does not have there."""
    added: UnmatchedRecords = field(default_factory=UnmatchedRecords)
    """Records of the target that the archive does not have there."""

    def match(self, ours: Int64s, theirs: Int64s) -> None:
        """Count equal records, given their offsets in archive and target."""
        self.matched += len(ours)
        self._count_moved(ours, theirs)

    def _count_moved(self, ours: Int64s, theirs: Int64s) -> None:
        other: NDArray[np.bool_] = ours != theirs
        if other.any():
            self.displaced += int(other.sum())
            for place in np.flatnonzero(other)[: _PLACES - len(self.displaced_at)].tolist():
                self.displaced_at.append((int(ours[place]), int(theirs[place])))


def compare_streams(
    archive: RecordStream, target: RecordStream, fields: Collection[str]
) -> StreamComparison:
    """Read both streams to the end and return the differences."""
    found = StreamComparison()
    while (ours := archive.head()) is not None and (theirs := target.head()) is not None:
        count = _count_alike(ours, theirs, fields)
        if count:
            found.match(_offsets(ours, count), _offsets(theirs, count))
            archive.skip(count)
            target.skip(count)
        else:
            _realign(archive, target, found)
    for side, unmatched in ((archive, found.lacking), (target, found.added)):
        while len(rows := side.take(FIRST_WINDOW * 16)):
            unmatched.add(rows, found.matched)
    return found


def _offsets(batch: pa.RecordBatch, count: int) -> Int64s:
    numbers: Int64s = view_numbers(batch.column("offset"), np.int64)[:count]
    return numbers


def _count_alike(ours: pa.RecordBatch, theirs: pa.RecordBatch, fields: Collection[str]) -> int:
    """Return the number of equal records at the start; 0 if there are few."""
    count: int = min(ours.num_rows, theirs.num_rows, MOST_COMPARED)
    while count:
        a, b = ours.slice(0, count), theirs.slice(0, count)
        if all(a.column(name).equals(b.column(name)) for name in fields):
            return count
        count = count // 2 if count > FIRST_WINDOW // 4 else 0
    return 0


def _realign(archive: RecordStream, target: RecordStream, found: StreamComparison) -> None:
    """Align windows until both streams are at the same record, or one has ended."""
    ours = theirs = NO_ROWS
    size = FIRST_WINDOW
    while True:
        ours = join_rows((ours, archive.take(_lacks(ours, theirs, size))))
        theirs = join_rows((theirs, target.take(_lacks(theirs, ours, size))))
        if not len(ours) or not len(theirs):
            found.lacking.add(ours, found.matched)
            found.added.add(theirs, found.matched)
            return
        blocks = align(ours.digests, theirs.digests)
        alike = sum(block.size for block in blocks)
        ended = archive.head() is None and target.head() is None
        if alike * _GROWTH < min(len(ours), len(theirs)) and not ended and size < LARGEST_WINDOW:
            size *= _GROWTH
            continue
        if not alike:
            # Large windows have no record in common: skip records of the longer stream.
            longer = archive.remaining + len(ours) > target.remaining + len(theirs)
            if ended or longer:
                found.lacking.add(ours, found.matched)
                ours = NO_ROWS
            if ended or not longer:
                found.added.add(theirs, found.matched)
                theirs = NO_ROWS
            if ended:
                return
            continue
        ours, theirs = _take_aligned(ours, theirs, blocks, found)
        size = FIRST_WINDOW
        if not len(ours) and not len(theirs):
            return


def _lacks(mine: DigestRows, others: DigestRows, size: int) -> int:
    """Return the number of records to read to reach the other stream, or to fill a window."""
    if not len(mine) and len(others):
        return len(others)
    return size - len(mine)


def _take_aligned(
    ours: DigestRows, theirs: DigestRows, blocks: list[AlignedBlock], found: StreamComparison
) -> tuple[DigestRows, DigestRows]:
    """Count the aligned records and those before them; return the rows after the last match."""
    at_a = at_b = 0
    for a, b, size in blocks:
        found.lacking.add(ours.pick(slice(at_a, a)), found.matched)
        found.added.add(theirs.pick(slice(at_b, b)), found.matched)
        at_a, at_b = a + size, b + size
        found.match(ours.offsets[a:at_a], theirs.offsets[b:at_b])
    return ours.pick(slice(at_a, None)), theirs.pick(slice(at_b, None))
