"""Read the contents of a target partition: from entries to batches for Produce. In tasks.

Whole windows take the fast path. For a selection, only frames that may hold selected records are
read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.decode import decode, iter_decode
from kafkeep.kafka.batch.rewrite import ReadyBatch, regroup
from kafkeep.kafka.batch.scan import Batches
from kafkeep.numba_setup import Int64s
from kafkeep.objects.prefetch import ByteRangeReader, read_in_order
from kafkeep.objects.segment.reader import iter_segment
from kafkeep.objects.sink.read_windows import Window, iter_windows
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.restore.selection import ALL_TIMES, TimeRange, WindowSlice


def iter_slices(
    store: ByteRangeReader,
    slices: Iterable[WindowSlice],
    times: TimeRange = ALL_TIMES,
    *,
    skip_records: int = 0,
    restore_aborted: bool = False,
    options: ReadOptions = NO_OPTIONS,
) -> Iterator[ReadyBatch]:
    """Yield the selected records of one partition after the first ``skip_records``; see iter_ready.

    Whole windows take the fast path. For a slice, only its frames are fetched.
    """
    for whole, group in groupby(slices, key=lambda part: part.whole):
        if whole:
            skip_records = yield from iter_ready(
                store,
                [entry for part in group for entry in part.window.entries],
                skip_records=skip_records,
                restore_aborted=restore_aborted,
                options=options,
            )
            continue
        for part in group:
            if part.window.is_segment and not part.timed:
                skip_records = yield from _iter_frames(store, part, skip_records, restore_aborted)
            else:
                records = iter_records(store, part, times, restore_aborted, options)
                skip_records = yield from iter_built(records, skip_records)


def _iter_frames(
    store: ByteRangeReader, part: WindowSlice, skip_records: int, restore_aborted: bool
) -> Generator[ReadyBatch, None, int]:
    """Yield some batches of a segment; return the number of records still to skip."""
    found = 0

    def counted() -> Iterator[Batches]:
        nonlocal found
        for batches in iter_segment(
            store, part.window.entries[0], part.range, aborted=restore_aborted
        ):
            found += count_inside(batches, part.range)
            yield batches

    yield from regroup(
        counted(),
        range=part.range,
        skip_records=skip_records,
        max_batch_bytes=MAX_BATCH_BYTES,
    )
    return max(0, skip_records - found)


def count_inside(batches: Batches, range: OffsetRange) -> int:
    """Count the records in ``range``; only batches at its edges are decoded."""
    data = batches.select(~batches.is_control)
    inside = (data.base_offsets >= range.start) & (data.last_offsets < range.end)
    edges = data.select(~inside)
    cut = decode(edges, range=range).num_rows if len(edges) else 0
    return int(data.record_counts[inside].sum()) + cut


def iter_built(
    records: Iterator[pa.RecordBatch], skip_records: int
) -> Generator[ReadyBatch, None, int]:
    """Yield rows as batches, after the skipped ones; return the number still to skip."""
    # Formats and converters take a while to import; whole segments need none of them.
    from kafkeep.objects.encode_batches import iter_ready_batches  # noqa: PLC0415

    left = skip_records

    def rest() -> Iterator[pa.RecordBatch]:
        nonlocal left
        for batch in records:
            skipped = min(left, batch.num_rows)
            left -= skipped
            if skipped < batch.num_rows:
                yield batch.slice(skipped)

    yield from iter_ready_batches(rest())
    return left


def iter_records(
    store: ByteRangeReader,
    part: WindowSlice,
    times: TimeRange,
    restore_aborted: bool,
    options: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield the selected records of a slice as rows."""
    keep = time_filter(times if part.timed else ALL_TIMES)
    if part.window.is_segment:
        chunks = iter_segment(
            store, part.window.entries[0], part.range, aborted=restore_aborted,
            from_ms=times.from_ms, until_ms=times.until_ms,
        )  # fmt: skip
        for batches in chunks:
            for rows in iter_decode(batches, part.range):
                yield from keep(rows)
        return
    from kafkeep.objects.records import inside, iter_window  # noqa: PLC0415

    files = [e for file in part.window.files() for e in file.entries]
    with read_in_order(store, files) as reader:
        for rows in iter_window(reader, part.window, options=options):
            yield from keep(inside(rows, part.range))


def wanted_times(at: Int64s, times: TimeRange) -> npt.NDArray[np.bool_]:
    """Return a mask of the selected times."""
    wanted = np.ones(len(at), dtype=np.bool_)
    if times.from_ms is not None:
        wanted &= at >= times.from_ms
    if times.until_ms is not None:
        wanted &= at < times.until_ms
    return wanted


def time_filter(times: TimeRange) -> Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]]:
    """Return a function that keeps the rows with selected times, as one batch or none."""

    def keep(rows: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        if times != ALL_TIMES:
            at = rows.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
            wanted = wanted_times(at, times)
            if not wanted.all():
                rows = rows.take(pa.array(np.flatnonzero(wanted)))
        return (rows,) if rows.num_rows else ()

    return keep


MAX_BATCH_BYTES = 4 << 20


def iter_ready(
    store: ByteRangeReader,
    entries: Sequence[Entry],
    *,
    skip_records: int = 0,
    restore_aborted: bool = False,
    options: ReadOptions = NO_OPTIONS,
) -> Generator[ReadyBatch, None, int]:
    """Yield the partition's records after the first ``skip_records`` as batches for Produce.

    Returns the number of records still to skip.

    Every stored batch's CRC is checked before it is used, and the SHA-256 of every other object.
    DamagedError names the object. The order is deterministic.
    """
    for segments, windows in groupby(iter_windows(entries), key=lambda w: w.is_segment):
        if not segments:
            several = list(windows)
            yield from _iter_sink(store, several, skip_records, options)
            skip_records = max(0, skip_records - sum(window.records for window in several))
            continue
        for whole in _runs(window.entries[0] for window in windows):
            run, skip_records = _skip_entries(whole, skip_records, restore_aborted)
            if run:
                skip_records = yield from _iter_run(store, run, skip_records, restore_aborted)
    return skip_records


def _iter_sink(
    store: ByteRangeReader, windows: Sequence[Window], skip_records: int, options: ReadOptions
) -> Iterator[ReadyBatch]:
    # Formats and converters take a while to import; segments need none of them.
    from kafkeep.objects.encode_batches import iter_ready_batches  # noqa: PLC0415

    left = list(windows)
    while left and left[0].records <= skip_records:
        skip_records -= left.pop(0).records
    entries = (e for window in left for file in window.files() for e in file.entries)
    with read_in_order(store, entries) as reader:
        yield from iter_ready_batches(_iter_records(reader, left, skip_records, options))


def _iter_records(
    store: ByteRangeReader, windows: Sequence[Window], skip_records: int, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a sink's windows, after the skipped ones."""
    from kafkeep.objects.records import iter_window  # noqa: PLC0415

    for window in windows:
        for batch in iter_window(store, window, options=options):
            left = batch.slice(min(skip_records, batch.num_rows))
            skip_records = max(0, skip_records - batch.num_rows)
            if left.num_rows:
                yield left


def _skip_entries(
    run: list[Entry], skip_records: int, restore_aborted: bool
) -> tuple[list[Entry], int]:
    """Leave out entries that are skipped completely, without reading them."""
    first = 0
    for entry in run:
        if entry.records > skip_records or (entry.aborted and not restore_aborted):
            break
        skip_records -= entry.records
        first += 1
    return run[first:], skip_records


def _iter_run(
    store: ByteRangeReader, run: list[Entry], skip_records: int, restore_aborted: bool
) -> Generator[ReadyBatch, None, int]:
    """Yield one run's batches; return the number of records still to skip after it."""
    covered = OffsetRange(run[0].range.start, run[-1].range.end)
    found = 0

    def counted(reader: ByteRangeReader) -> Iterator[Batches]:
        nonlocal found
        for batches in _iter_chunks(reader, run, restore_aborted):
            found += int(batches.record_counts.sum())
            if len(batches) and batches.base_offsets[0] < covered.start:
                outside = OffsetRange(0, covered.start)
                found -= decode(batches.select(slice(0, 1)), range=outside).num_rows
            if len(batches) and batches.last_offsets[-1] >= covered.end:  # of a cut entry
                outside = OffsetRange(covered.end, int(batches.last_offsets[-1]) + 1)
                found -= decode(batches.select(slice(-1, None)), range=outside).num_rows
            yield batches

    with read_in_order(store, run) as reader:
        yield from regroup(
            counted(reader),
            range=covered,
            skip_records=skip_records,
            max_batch_bytes=MAX_BATCH_BYTES,
        )
    logged = sum(entry.records for entry in run)
    if found != logged and (restore_aborted or not any(entry.aborted for entry in run)):
        raise DamagedError(
            f"{run[0].partition_id}: the log counts {logged} records from offset "
            f"{covered.start} on, their objects hold {found}"
        )
    return max(0, skip_records - found)


def _runs(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Split entries where offsets are missing between them, and after one that was cut.

    Within a run every batch is inside the entries' ranges, with two exceptions: the first batch
    can start before the run and is cut there, and the last can end after it.
    """
    run: list[Entry] = []
    for entry in entries:
        if run and (run[-1].range.end != entry.range.start or run[-1].is_cut):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _iter_chunks(
    store: ByteRangeReader, entries: Iterable[Entry], restore_aborted: bool
) -> Iterator[Batches]:
    for entry in entries:
        yield from iter_segment(store, entry, entry.range, aborted=restore_aborted)
