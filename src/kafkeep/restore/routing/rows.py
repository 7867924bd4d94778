"""Read the records of one archived partition, filtered, changed, with shifted times. In tasks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.decode import to_arrow
from kafkeep.kafka.batch.filter import matching
from kafkeep.kafka.batch.rewrite import TARGET_BYTES, BatchMerger, ReadyBatch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.batch.unpack import RecordFields, iter_unpacked, walk_records
from kafkeep.objects.prefetch import ByteRangeReader
from kafkeep.objects.segment.reader import iter_segment
from kafkeep.objects.sink.read_windows import SEGMENT
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.restore.read import (
    MAX_BATCH_BYTES,
    iter_built,
    iter_records,
    time_filter,
    wanted_times,
)
from kafkeep.restore.routing.routing import Routing
from kafkeep.restore.selection import ALL_TIMES, TimeRange, WindowSlice

UNPACKED_BYTES = 4 << 20
NO_TIME = -1
"""A record without a time; it is not shifted."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Reads the slices of one archived partition."""

    store: ByteRangeReader
    slices: Sequence[WindowSlice]
    times: TimeRange = ALL_TIMES
    restore_aborted: bool = False
    options: ReadOptions = NO_OPTIONS

    def behind(self, records: int) -> tuple[SourceRows, int]:
        """Leave out whole slices of the first ``records``; return the number still to skip.

        Only for a routing that drops no record.
        """
        first = 0
        for part in self.slices:
            if not part.exact or part.records > records:
                break
            records -= part.records
            first += 1
        return replace(self, slices=self.slices[first:]), records

    def rows(self, routing: Routing) -> Iterator[tuple[RecordFields, int]]:
        """Yield the records that pass the filter, changed and shifted, and their codec."""
        source = self
        if routing.changes is not None:
            source = replace(self, options=replace(self.options, asked=routing.changes))
        for part in self.slices:
            for rows, codec in source._checked(part):
                kept = rows
                if routing.filter:
                    mask = matching(rows, routing.filter)
                    kept = rows if mask.all() else rows.select(mask)
                if len(kept):
                    yield shifted(kept, routing.shift_ms), codec

    def _checked(self, part: WindowSlice) -> Iterator[tuple[RecordFields, int]]:
        """Yield a part's records; DamagedError if their number differs from the log."""
        if not part.window.is_segment:  # the reader of rows counts them
            records = iter_records(self.store, part, self.times, self.restore_aborted, self.options)
            yield from _walked(records, 0)
            return
        change, times = self._change(part), self.times if part.timed else ALL_TIMES
        found = 0
        for rows, codec in self._segment(part, times):
            found += len(rows)
            if change is None:
                yield _inside(rows, times), codec
            elif len(rows):
                wanted = time_filter(times)(to_arrow(rows))
                yield from _walked((made for batch in wanted for made in change(batch)), codec)
        counted = part.exact or (part.whole and self.restore_aborted)
        if counted and found != part.records:
            raise DamagedError(
                f"{part.window.entries[0].key}: the log counts {part.records} records, "
                f"{found} were found"
            )

    def _segment(self, part: WindowSlice, times: TimeRange) -> Iterator[tuple[RecordFields, int]]:
        """Yield the records of batches that may hold selected times."""
        for batches in iter_segment(
            self.store,
            part.window.entries[0],
            part.range,
            aborted=self.restore_aborted,
            from_ms=times.from_ms,
            until_ms=times.until_ms,
        ):
            data = batches.select(~batches.is_control & (batches.record_counts > 0))
            for unpacked in iter_unpacked(data, max_bytes=UNPACKED_BYTES):
                yield walk_records(unpacked, part.range), int(unpacked.batches.codec.max(initial=0))

    def _change(
        self, part: WindowSlice
    ) -> Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]] | None:
        """Return the transform of a segment's records; None if they do not change."""
        if self.options.changes is None:
            return None
        # Converters and transforms take a while to import; segments as they are need none.
        from kafkeep.objects.record_changes import open_segment_change  # noqa: PLC0415

        return open_segment_change(self.options.changes, part.window.entries[0])


def _walked(records: Iterator[pa.RecordBatch], codec: int) -> Iterator[tuple[RecordFields, int]]:
    for batch in iter_built(records, 0):
        yield walk_batch(batch), codec


def walk_batch(batch: ReadyBatch) -> RecordFields:
    """Return the records of one uncompressed batch, with the offsets they had."""
    [part] = iter_unpacked(scan_batches(batch.body))
    offsets = batch.offsets
    if offsets is None:
        offsets = np.arange(batch.first_offset, batch.first_offset + batch.records, dtype=np.int64)
    return replace(walk_records(part), offsets=offsets)


def shifted(rows: RecordFields, shift_ms: int) -> RecordFields:
    """Shift the times of records that have one."""
    if not shift_ms:
        return rows
    moved = np.where(rows.timestamps == NO_TIME, NO_TIME, rows.timestamps + shift_ms)
    return replace(rows, timestamps=moved)


def _inside(rows: RecordFields, times: TimeRange) -> RecordFields:
    if times == ALL_TIMES:
        return rows
    wanted = wanted_times(rows.timestamps, times)
    return rows if wanted.all() else rows.select(wanted)


_TIMES_AT = 27


def needs_rows(routing: Routing, entries: Iterable[Entry]) -> bool:
    """Return whether records must be decoded one by one.

    A shift of times changes only the header of a batch, unless some records have no time.
    """
    if routing.filter or routing.changes is not None:
        return True
    timed = all(entry.format == SEGMENT and entry.min_timestamp >= 0 for entry in entries)
    return bool(routing.shift_ms) and not timed


def iter_routed_batches(
    source: SourceRows, routing: Routing, skip_records: int = 0
) -> Iterator[ReadyBatch]:
    """Yield the filtered records after the first ``skip_records`` as batches for Produce."""
    if not routing.drops:
        source, skip_records = source.behind(skip_records)
    merger = BatchMerger(TARGET_BYTES, MAX_BATCH_BYTES)
    for rows, codec in source.rows(routing):
        skipped = min(skip_records, len(rows))
        skip_records -= skipped
        if codec != merger.codec:
            yield from merger.flush()
            merger.start(codec)
        yield from merger.add(rows.select(slice(skipped, None)))
    yield from merger.flush()


def shift_headers(batches: Iterable[ReadyBatch], shift_ms: int) -> Iterator[ReadyBatch]:
    """Shift the times of whole batches without decompressing them."""
    for batch in batches:
        base, latest = struct.unpack_from(">qq", batch.body, _TIMES_AT)
        struct.pack_into(">qq", batch.body, _TIMES_AT, base + shift_ms, latest + shift_ms)
        yield batch
