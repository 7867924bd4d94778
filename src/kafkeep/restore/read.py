"""Read what a target partition gets: entries in, batches ready to be produced out. In tasks."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.contents.ahead import Ranges, read_in_order
from kafkeep.contents.options import NO_OPTIONS, ReadOptions
from kafkeep.contents.segments import iter_segment
from kafkeep.contents.windows import Window, iter_windows
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch import Batches
from kafkeep.kafka.records import decode
from kafkeep.kafka.rewrite import ReadyBatch, regroup

MAX_BATCH_BYTES = 4 << 20


def iter_ready(
    store: Ranges,
    entries: Sequence[Entry],
    *,
    skip_records: int = 0,
    restore_aborted: bool = False,
    options: ReadOptions = NO_OPTIONS,
) -> Generator[ReadyBatch, None, int]:
    """Yield the partition's records, less the first ``skip_records``, as batches for Produce.

    Returns how many records are still to be skipped.

    Every stored batch's CRC is checked before it is used, and the SHA-256 of every other object.
    DamagedError names the object. The order is the same each time.
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
    store: Ranges, windows: Sequence[Window], skip_records: int, options: ReadOptions
) -> Iterator[ReadyBatch]:
    # Formats and converters take a while to import; segments need none of them.
    from kafkeep.contents.ready import iter_ready_batches  # noqa: PLC0415

    left = list(windows)
    while left and left[0].records <= skip_records:
        skip_records -= left.pop(0).records
    entries = (e for window in left for file in window.files() for e in file.entries)
    with read_in_order(store, entries) as reader:
        yield from iter_ready_batches(_iter_records(reader, left, skip_records, options))


def _iter_records(
    store: Ranges, windows: Sequence[Window], skip_records: int, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a sink's windows, less the first ones."""
    from kafkeep.contents.records import iter_window  # noqa: PLC0415

    for window in windows:
        for batch in iter_window(store, window, options=options):
            left = batch.slice(min(skip_records, batch.num_rows))
            skip_records = max(0, skip_records - batch.num_rows)
            if left.num_rows:
                yield left


def _skip_entries(
    run: list[Entry], skip_records: int, restore_aborted: bool
) -> tuple[list[Entry], int]:
    """Leave out the entries that are skipped whole, without reading them."""
    first = 0
    for entry in run:
        if entry.records > skip_records or (entry.aborted and not restore_aborted):
            break
        skip_records -= entry.records
        first += 1
    return run[first:], skip_records


def _iter_run(
    store: Ranges, run: list[Entry], skip_records: int, restore_aborted: bool
) -> Generator[ReadyBatch, None, int]:
    """Yield one run's batches; return how many records are still to be skipped after it."""
    covered = OffsetRange(run[0].range.start, run[-1].range.end)
    found = 0

    def counted(reader: Ranges) -> Iterator[Batches]:
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

    Inside a run every batch lies in the entries' ranges; only a run's first batch can begin
    before it and is cut there, and its last one can end after it.
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
    store: Ranges, entries: Iterable[Entry], restore_aborted: bool
) -> Iterator[Batches]:
    for entry in entries:
        yield from iter_segment(store, entry, entry.range, aborted=restore_aborted)
