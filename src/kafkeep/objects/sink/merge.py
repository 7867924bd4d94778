"""Merge the files of a window, so that their records come in offset order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kafkeep.errors import DamagedError
from kafkeep.numba_setup import Int64s
from kafkeep.records.arrow import number_array, view_numbers

MERGED_BYTES = 64 << 20
"""The approximate size of one merged batch."""


@dataclass(slots=True)
class FileStream:
    """One file to merge: its number of records, its first offset if known, and how to open it."""

    name: str
    records: int
    first: int | None
    open: Callable[[], Iterator[pa.RecordBatch]]
    _batches: Iterator[pa.RecordBatch] | None = None
    _piece: pa.RecordBatch | None = None
    _offsets: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _read: int = 0
    _last: int = -1

    def advance(self) -> None:
        """Read the next batch unless one is held. Open the file on the first call."""
        if self._batches is None:
            self._batches = self.open()
        if self._piece is not None:
            return
        piece = next(self._batches, None)
        if piece is None:
            return
        self._offsets = view_numbers(piece.column("offset"), np.int64)
        if int(self._offsets[0]) <= self._last or np.any(np.diff(self._offsets) <= 0):
            raise DamagedError(f"{self.name}: its offsets do not ascend after {self._last}")
        self._piece, self._last = piece, int(self._offsets[-1])
        self._read += piece.num_rows

    @property
    def lowest(self) -> int | None:
        """The next offset; None when no record is left."""
        return int(self._offsets[0]) if self._piece is not None else None

    @property
    def known_to(self) -> int | None:
        """The offset up to which every record was read; None when all records were read."""
        return None if self._read >= self.records else self._last

    def weigh(self, bound: int) -> int:
        """Return the approximate size of the batch that ``take`` would return."""
        if self._piece is None:
            return 0
        rows = int(np.searchsorted(self._offsets, bound, side="right"))
        return int(self._piece.nbytes) * rows // int(self._piece.num_rows)

    def take(self, bound: int) -> pa.RecordBatch | None:
        """Remove and return the held records up to offset ``bound`` (inclusive)."""
        if self._piece is None:
            return None
        rows = int(np.searchsorted(self._offsets, bound, side="right"))
        taken = self._piece.slice(0, rows)
        if rows == self._piece.num_rows:
            self._piece = None
        else:
            self._piece, self._offsets = self._piece.slice(rows), self._offsets[rows:]
        return taken if rows else None

    def finish(self) -> None:
        """Read the file to its end, so that damage there is detected."""
        for _ in self._batches or ():
            raise DamagedError(f"{self.name}: more than {self.records} records")


def merge(streams: Sequence[FileStream]) -> Iterator[pa.RecordBatch]:
    """Yield the records of all streams in offset order.

    A file is opened when its first offset is reached. Memory use is one batch per open file.
    """
    waiting = sorted(streams, key=lambda s: -1 if s.first is None else s.first)
    opened: list[FileStream] = []
    while waiting or opened:
        _open_due(waiting, opened)
        bound = _bound(waiting, opened)
        taken = [piece for s in opened if (piece := s.take(bound)) is not None]
        if taken:
            yield _ordered(taken)
        for stream in opened:
            stream.advance()
        for stream in [s for s in opened if s.lowest is None]:
            stream.finish()
            opened.remove(stream)


def _open_due(waiting: list[FileStream], opened: list[FileStream]) -> None:
    """Open the files that may hold the next record, and all files with unknown first offset."""
    while waiting:
        first, lowest = waiting[0].first, [s.lowest for s in opened if s.lowest is not None]
        if first is not None and lowest and first > min(lowest):
            return
        stream = waiting.pop(0)
        stream.advance()
        if stream.lowest is not None:
            opened.append(stream)
        else:
            stream.finish()


def _bound(waiting: list[FileStream], opened: list[FileStream]) -> int:
    """Return the last offset up to which all records are read and fit in ``MERGED_BYTES``."""
    limits = [s.known_to for s in opened if s.known_to is not None]
    if waiting and waiting[0].first is not None:
        limits.append(waiting[0].first - 1)
    lowest = min((s.lowest for s in opened if s.lowest is not None), default=0)
    bound = min(limits, default=2**63 - 1)
    highest = max((s._last for s in opened), default=0)
    bound = min(bound, highest)
    while bound > lowest and sum(s.weigh(bound) for s in opened) > MERGED_BYTES:
        bound = lowest + (bound - lowest) // 2
    return bound


def _ordered(taken: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(taken) == 1:
        return taken[0]
    whole = pa.concat_batches(taken)
    offsets = view_numbers(whole.column("offset"), np.int64)
    if np.all(np.diff(offsets) > 0):
        return whole
    order = np.argsort(offsets, kind="stable").astype(np.int64)
    if np.any(np.diff(offsets[order]) == 0):
        raise DamagedError("two objects of one window hold the same offset")
    return whole.take(number_array(pa.int64(), order))
