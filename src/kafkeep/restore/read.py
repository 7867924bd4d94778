"""Read what a target partition gets: entries in, batches ready to be produced out. In tasks."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

import numpy as np

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.store import ObjectStore
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.kafka.batch import Batches, check_crcs
from kafkeep.kafka.records import decode
from kafkeep.kafka.rewrite import ReadyBatch, regroup
from kafkeep.kafka.segment import read_segment

MAX_BATCH_BYTES = 4 << 20


def iter_ready(
    store: ObjectStore,
    entries: Sequence[Entry],
    *,
    skip_records: int = 0,
    restore_aborted: bool = False,
) -> Iterator[ReadyBatch]:
    """Yield the partition's records, less the first ``skip_records``, as batches for Produce.

    Every stored batch's CRC is checked before it is used. DamagedError names the object.
    """
    for whole in _runs(entries):
        run, skip_records = _skip_entries(whole, skip_records, restore_aborted)
        if run:
            skip_records = yield from _iter_run(store, run, skip_records, restore_aborted)


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
    store: ObjectStore, run: list[Entry], skip_records: int, restore_aborted: bool
) -> Generator[ReadyBatch, None, int]:
    """Yield one run's batches; return how many records are still to be skipped after it."""
    covered = OffsetRange(run[0].range.start, run[-1].range.end)
    found = 0

    def counted() -> Iterator[Batches]:
        nonlocal found
        for batches in _iter_chunks(store, run, restore_aborted):
            found += int(batches.record_counts.sum())
            if len(batches) and batches.base_offsets[0] < covered.start:
                outside = OffsetRange(0, covered.start)
                found -= decode(batches.select(slice(0, 1)), range=outside).num_rows
            yield batches

    yield from regroup(
        counted(), range=covered, skip_records=skip_records, max_batch_bytes=MAX_BATCH_BYTES
    )
    logged = sum(entry.records for entry in run)
    if found != logged and (restore_aborted or not any(entry.aborted for entry in run)):
        raise DamagedError(
            f"{run[0].partition_id}: the log counts {logged} records from offset "
            f"{covered.start} on, their objects hold {found}"
        )
    return max(0, skip_records - found)


def _runs(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Split entries where offsets are missing between them.

    Inside a run every batch lies in the entries' ranges; only a run's first batch can begin
    before it, and is cut there.
    """
    run: list[Entry] = []
    for entry in entries:
        if run and run[-1].range.end != entry.range.start:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _iter_chunks(
    store: ObjectStore, entries: Iterable[Entry], restore_aborted: bool
) -> Iterator[Batches]:
    for entry in entries:
        try:
            for batches in read_segment(
                lambda start, end, key=entry.key: store.get_range(key, start, end),  # type: ignore[misc]
                entry.size_bytes,
                entry.index,
                entry.range,
            ):
                check_crcs(batches)
                yield batches if restore_aborted else _committed(batches, entry.aborted)
        except KeyMissingError as error:
            raise DamagedError(
                f"{entry.key} is missing: it held {entry.records} records of "
                f"{entry.partition_id}, offsets {entry.range.start} to {entry.range.end - 1}",
                hint="With --allow-missing the restore goes on without it.",
            ) from error
        except DamagedError as error:
            raise DamagedError(f"{entry.key}: {error.message}", hint=error.hint) from error


def _committed(batches: Batches, aborted: Sequence[OffsetRange]) -> Batches:
    if not aborted:
        return batches
    keep = np.ones(len(batches), dtype=np.bool_)
    for stretch in aborted:
        keep &= (batches.base_offsets < stretch.start) | (batches.base_offsets >= stretch.end)
    return batches.select(keep)
