"""Read the records of a partition from objects of any format. Runs in tasks; reads the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.numba_setup import Int64s
from kafkeep.objects.prefetch import MEMORY_BYTES, ByteRangeReader
from kafkeep.objects.segment.reader import iter_segment
from kafkeep.objects.sink.read_rows import iter_file
from kafkeep.objects.sink.read_windows import (
    UNKNOWN,
    StoredFile,
    Window,
    first_offset,
    iter_windows,
)
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.records.arrow import number_array, view_numbers

LEAST_MEMORY_BYTES = 256 * 1024


def iter_records(
    store: ObjectStore,
    entries: Sequence[Entry],
    range: OffsetRange | None = None,
    *,
    options: ReadOptions = NO_OPTIONS,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one partition in ``RECORD_SCHEMA``, ordered by offset.

    Segments are decoded without aborted records. Records are changed as ``options`` say. For the
    order of a sink's records see ``iter_window``. Only objects that may hold records of ``range``
    are read. Raise DamagedError, with the object's key, when an object differs from its entry in
    the log.
    """
    for window in iter_windows(entries):
        wanted = window.range if range is None else window.range.overlap(range)
        if wanted is None:
            continue
        if window.is_segment:
            yield from _segment_records(store, window.entries[0], wanted, options)
        else:
            for batch in iter_window(store, window, options=options):
                found = inside(batch, wanted)
                if found.num_rows:
                    yield found


def _segment_records(
    store: ObjectStore, entry: Entry, wanted: OffsetRange, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    change = None
    if options.changes is not None:
        # Converters and transforms take a while to import; segments as they are need none.
        from kafkeep.objects.record_changes import open_segment_change  # noqa: PLC0415

        change = open_segment_change(options.changes, entry, read_only=not options.registers)
    for batches in iter_segment(store, entry, wanted):
        for records in iter_decode(batches, wanted):
            if change is None:
                yield records
            else:
                yield from change(records)


def iter_window(
    store: ByteRangeReader,
    window: Window,
    *,
    options: ReadOptions = NO_OPTIONS,
    files: Sequence[StoredFile] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a sink's window, or of some of its files, always in the same order.

    Files with known offsets come first, merged by offset. The other files follow one by one,
    ordered by the offset in their names. Their records have the offset ``UNKNOWN``.
    """
    chosen = window.files() if files is None else files
    if any(file.main.is_cut for file in chosen):
        stored = [file.stored for file in chosen]
        for batch in iter_window(store, window, options=options, files=stored):
            yield inside(batch, window.range)
        return
    memory = max(LEAST_MEMORY_BYTES, MEMORY_BYTES // max(1, len(chosen)))
    read = partial(iter_file, store, options=options, memory_bytes=memory)
    known = [file for file in chosen if file.knows_offsets]
    yield from merge([_stream(file, partial(read, file)) for file in known])
    for file in chosen:
        if not file.knows_offsets:
            yield from read(file)


def _stream(file: StoredFile, open: partial[Iterator[pa.RecordBatch]]) -> FileStream:
    return FileStream(file.main.key, file.main.records, first_offset(file.main), open)


def inside(batch: pa.RecordBatch, wanted: OffsetRange) -> pa.RecordBatch:
    """Return the records inside ``wanted``, and all records whose offset is unknown."""
    offsets = batch.column("offset")
    numbers = np.frombuffer(
        offsets.buffers()[1], dtype=np.int64, count=len(offsets), offset=offsets.offset * 8
    )
    keep = ((numbers >= wanted.start) & (numbers < wanted.end)) | (numbers == UNKNOWN)
    if keep.all():
        return batch
    return batch.take(number_array(pa.int64(), np.flatnonzero(keep).astype(np.int64)))


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
