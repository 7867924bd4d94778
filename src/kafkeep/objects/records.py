"""Read the records of a partition from objects of any format. Runs in tasks; reads the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.objects.prefetch import MEMORY_BYTES, ByteRangeReader
from kafkeep.objects.segment.reader import iter_segment
from kafkeep.objects.sink.merge import FileStream, merge
from kafkeep.objects.sink.read_rows import iter_file
from kafkeep.objects.sink.read_windows import (
    UNKNOWN,
    StoredFile,
    Window,
    first_offset,
    iter_windows,
)
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.records.arrow import number_array

LEAST_MEMORY_BYTES = 256 * 1024


def iter_records(
    store: ObjectStore,
    entries: Sequence[Entry],
    range: OffsetRange | None = None,
    *,
    options: ReadOptions = NO_OPTIONS,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one partition in ``RECORD_SCHEMA``, ordered by offset.

    Segments are decoded without aborted records. For the order of a sink's records see
    ``iter_window``. Only objects that may hold records of ``range`` are read. Raise DamagedError,
    with the object's key, when an object differs from its entry in the log.
    """
    for window in iter_windows(entries):
        wanted = window.range if range is None else window.range.overlap(range)
        if wanted is None:
            continue
        if window.is_segment:
            for batches in iter_segment(store, window.entries[0], wanted):
                yield from iter_decode(batches, wanted)
        else:
            for batch in iter_window(store, window, options=options):
                found = inside(batch, wanted)
                if found.num_rows:
                    yield found


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
