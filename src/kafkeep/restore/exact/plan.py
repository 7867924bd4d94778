"""Plan a restore at original offsets, and cut each partition into steps. The plan is pure.

The steps write every offset of the target: filler up to the first record, deleted afterwards;
records in batches without holes; holes. What a step writes, and its sequence, follow
from the archive and the offset alone, so any attempt can continue where the target ends. Holes
inside of a batch are filled with tombstones under a key of kafkeep's own. Tasks iterate over steps.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import OffsetRange
from kafkeep.check_result import Check, CheckStatus
from kafkeep.kafka.admin.fill_offsets import LARGEST_FILLER, filler_batch
from kafkeep.kafka.batch.decode import RECORD_SCHEMA, decode
from kafkeep.kafka.batch.layout import RESERVED_KEY
from kafkeep.kafka.batch.rewrite import ReadyBatch, regroup
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.numba_setup import Int64s
from kafkeep.objects.sink.read_windows import ENVELOPE, SEGMENT, first_offset
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.units import format_duration
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.restore.read import MAX_BATCH_BYTES
from kafkeep.restore.selection import WindowSlice, whole_slices

HOLE_MS = 7
"""Duration of one empty transaction; it fills one offset of every waiting partition of a task."""
FILLED_PER_MS = 3000
LONGEST_FILL_MS = 10 * 60_000
LANES = 16
"""The maximum number of transactional ids, and so of tasks, of one restore."""


@dataclass(frozen=True, slots=True)
class Filling:
    """The number of offsets of one partition without a record: before its first one, and after."""

    before: int
    holes: int
    perhaps: int = 0
    """Records that may leave a hole because a selection by time may leave them out."""


def filling(partition: PartitionPlan) -> Filling:
    """Count the holes by the log; a selection by time is known only after reading."""
    slices: Sequence[WindowSlice] = partition.all_slices()
    if not partition.cut:  # the first window and the last one are enough
        slices = whole_slices((*partition.entries[:1], *partition.entries[-1:]))
    if not slices:
        return Filling(0 if partition.cut else partition.end, 0)
    main = slices[0].window.entries[0]
    first = max(slices[0].range.start, main.index[0].offset if main.index else 0)
    end = max(slices[-1].range.end, 0 if partition.cut else partition.end)
    perhaps = sum(part.records for part in slices if part.timed)
    return Filling(first, max(0, end - first - partition.records), perhaps)


def needs_transactions(plan: RestorePlan, options: RestoreOptions) -> bool:
    """Return whether a task may have to fill a hole with transactions."""
    if options.fill_holes == "tombstones":
        return False
    return any(
        partition.cut or filling(partition).holes
        for topic in plan.topics
        for partition in topic.partitions
    )


def transactional_id(restore: str, lane: int) -> str:
    """Return a transactional id of the restore; the same in every attempt."""
    return f"kafkeep-restore-{restore}-{lane}"


def lanes(plan: RestorePlan) -> int:
    """Return the number of transactional ids of the restore; the same in every attempt."""
    return min(LANES, sum(len(topic.partitions) for topic in plan.topics))


def check_exact(plan: RestorePlan, options: RestoreOptions) -> list[Check]:
    """Describe the holes to fill; fail if offsets are unknown or filling would take too long."""
    return [check for topic in plan.topics for check in _check_topic(topic, options)]


def _check_topic(topic: TopicPlan, options: RestoreOptions) -> Iterator[Check]:
    has_rows = topic.formats - {SEGMENT}
    rows = (e for e in topic.entries if e.own_records and e.format != SEGMENT)
    for entry in rows if has_rows else ():
        if entry.converter != ENVELOPE and first_offset(entry) is None:
            yield Check(
                CheckStatus.FAIL,
                topic.target,
                f"{entry.key} does not hold the offsets of its records",
                "Restore it without --exact-offsets.",
            )
            return
    parts = {p.partition: filling(p) for p in topic.partitions}
    yield _check_filling(topic, parts, options)
    most = max((part.holes + part.perhaps for part in parts.values()), default=0) * HOLE_MS
    perhaps = sum(part.perhaps for part in parts.values())
    if perhaps and most > LONGEST_FILL_MS and options.fill_holes != "tombstones":
        what = (
            f"exact offsets: {perhaps:,} more may have no record, depending on record times: "
            f"filling them takes up to {format_duration(most)}"
        )
        hint = "Use --fill-holes tombstones; consumers see the tombstones."
        yield Check(CheckStatus.WARN, topic.target, what, hint)


def _check_filling(
    topic: TopicPlan, parts: Mapping[int, Filling], options: RestoreOptions
) -> Check:
    worst = max(parts, key=lambda number: parts[number].holes, default=0)
    holes = sum(part.holes for part in parts.values())
    before = sum(part.before for part in parts.values())
    longest = parts[worst].holes * HOLE_MS if parts else 0
    if options.fill_holes == "auto" and longest > LONGEST_FILL_MS:
        return Check(
            CheckStatus.FAIL,
            topic.target,
            f"{holes:,} offsets have no record, {parts[worst].holes:,} of them in partition "
            f"{worst}: filling them with empty transactions takes about {format_duration(longest)}",
            "Use --fill-holes tombstones, which consumers see, or accept the duration with "
            "--fill-holes transactions.",
        )
    ways = {"tombstones": "tombstones", "auto": "empty transactions"}
    way = ways.get(options.fill_holes, ways["auto"])
    time = before // FILLED_PER_MS + (0 if way == "tombstones" else longest)
    return Check(
        CheckStatus.WARN if time > LONGEST_FILL_MS else CheckStatus.PASS,
        topic.target,
        f"exact offsets: {before:,} before the first records are filled and deleted, {holes:,} "
        f"without a record are filled by {way}, about {format_duration(time)}",
    )


LARGEST_INSIDE = 10_000
"""Larger holes are filled with filler batches."""


def iter_filled(batch: ReadyBatch) -> Iterator[ReadyBatch]:
    """Yield batches without holes; a hole between two batches is large."""
    # Formats take a while to import; segments without holes need none of them.
    from kafkeep.objects.encode_batches import iter_ready_batches  # noqa: PLC0415

    assert batch.offsets is not None
    rows = decode(scan_batches(batch.body))
    offsets = batch.offsets
    edges = [0, *(np.flatnonzero(np.diff(offsets) > LARGEST_INSIDE) + 1).tolist(), len(offsets)]
    for i, j in pairwise(edges):
        yield from iter_ready_batches(_iter_rows(rows.slice(i, j - i), offsets[i:j]))


def _iter_rows(rows: pa.RecordBatch, offsets: Int64s) -> Iterator[pa.RecordBatch]:
    """Yield rows with tombstones between them, a bounded number at a time."""
    step = 5000
    for begin in range(0, len(offsets), step):
        mine = offsets[begin : begin + step]
        start = int(offsets[begin - 1]) + 1 if begin else int(mine[0])
        for first in range(start, int(mine[-1]) + 1, 1_000_000):
            last = min(first + 1_000_000, int(mine[-1]) + 1)
            low, high = np.searchsorted(mine, [first, last]).tolist()
            inside = rows.slice(begin + low, high - low)
            before = rows.column("timestamp")[max(0, begin + low - 1)].as_py()
            yield _with_tombstones(inside, mine[low:high], first, last, before)


def _with_tombstones(
    rows: pa.RecordBatch, offsets: Int64s, start: int, end: int, time: int
) -> pa.RecordBatch:
    """Return a row for each offset of ``[start, end)``; a tombstone has the time before it."""
    every = np.arange(start, end, dtype=np.int64)
    place = np.searchsorted(offsets, every, side="right") - 1
    is_record = np.zeros(len(every), dtype=np.bool_)
    is_record[offsets - start] = True
    times = np.concatenate(([time], rows.column("timestamp").to_numpy()))[place + 1]
    both = pa.concat_batches([rows, _tombstone()])
    taken = both.take(pa.array(np.where(is_record, place, rows.num_rows)))
    columns = [pa.array(every), pa.array(times), *taken.columns[2:]]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


@cache
def _tombstone() -> pa.RecordBatch:
    """Return one row. Arrow imports pandas to make it, which most restores do without."""
    row = {
        "offset": 0,
        "timestamp": 0,
        "timestamp_type": 0,
        "key": RESERVED_KEY,
        "value": None,
        "headers": [],
    }
    return pa.RecordBatch.from_pylist([row], schema=RECORD_SCHEMA)


NO_TIME = -1
_MAX_TIMESTAMP_AT = 35


class Send(NamedTuple):
    """A batch whose first record belongs at ``offset``."""

    offset: int
    records: int
    sequence: int
    body: bytearray
    filler: bool = False


class Hole(NamedTuple):
    """Offsets without a record, to fill with control records."""

    start: int
    end: int


class Trim(NamedTuple):
    """Delete the filler before ``offset``."""

    offset: int


Step = Send | Hole | Trim


class ReadPieces(Protocol):
    """Reads the records of slices, in order; batches may have holes."""

    def __call__(self, slices: Sequence[WindowSlice]) -> Iterator[ReadyBatch]:
        """Yield the records as batches."""


@dataclass(slots=True)
class ExactPartition:
    """The contents of one target partition, and its end offset."""

    slices: Sequence[WindowSlice]
    end: int
    """The offset up to which the partition is filled after its last record."""
    tombstones: bool
    read: ReadPieces
    _first: int | None = None

    @property
    def first(self) -> int:
        """The offset of the first record, where the log must start; ``end`` without records."""
        if self._first is None:
            ready = next(self.read(self.slices), None)
            self._first = self.end if ready is None else ready.first_offset
        return self._first

    @property
    def goal(self) -> int:
        """The final end offset: a target that ends later has other records."""
        return max(self.end, *(part.range.end for part in self.slices[-1:]), 0)

    def steps(self, start: int) -> Iterator[Step]:
        """Yield the steps for a target that ends at ``start``."""
        if start < self.first:
            yield from _fillers(start, self.first)
        if start <= self.first and self.first:
            yield Trim(self.first)
        yield from self._behind(max(start, self.first))

    def _behind(self, start: int) -> Iterator[Step]:
        """Yield records and holes from ``start`` on."""
        position, latest = start, NO_TIME
        for batch, before in self._numbered(start):
            if batch.last_offset < start:
                continue
            for part in self._dense(batch):
                if part.last_offset < start:
                    continue
                skip = max(0, start - part.first_offset)
                at = part.first_offset + skip
                sequence = at if self.tombstones else self.first + before + count_before(batch, at)
                yield from self._fill(position, at, latest)
                yield from _sends(part, skip, sequence)
                position = part.last_offset + 1
            (latest,) = struct.unpack_from(">q", batch.body, _MAX_TIMESTAMP_AT)
        yield from self._fill(position, self.end, latest)

    def _fill(self, start: int, end: int, latest: int) -> Iterator[Step]:
        if start >= end:
            return
        if self.tombstones:
            yield from _fillers(start, end, key=RESERVED_KEY, time=latest)
        else:
            yield Hole(start, end)

    def _numbered(self, start: int) -> Iterator[tuple[ReadyBatch, int]]:
        """Yield batches with the number of records before each, without reading earlier objects."""
        before = skipped = 0
        for part in self.slices:
            if part.range.end > start or not part.exact:
                break
            before += part.records
            skipped += 1
        for batch in self.read(self.slices[skipped:]):
            yield batch, before
            before += batch.records

    def _dense(self, batch: ReadyBatch) -> Iterator[ReadyBatch]:
        if batch.offsets is None:
            yield batch
        elif self.tombstones:
            yield from iter_filled(batch)
        else:
            yield from split_dense(batch)


def count_before(batch: ReadyBatch, offset: int) -> int:
    """Count the records of a batch before an offset."""
    if batch.offsets is None:
        return min(max(0, offset - batch.first_offset), batch.records)
    return int(np.searchsorted(batch.offsets, offset))


def split_dense(batch: ReadyBatch) -> Iterator[ReadyBatch]:
    """Split a batch where offsets are missing."""
    assert batch.offsets is not None
    offsets = batch.offsets
    edges = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
    for i, j in pairwise(edges):
        for part in cut(batch, i, j):
            first = int(offsets[part.first_offset])
            yield ReadyBatch(part.body, part.records, first, first + part.records - 1)


def cut(batch: ReadyBatch, i: int, j: int) -> Iterator[ReadyBatch]:
    """Yield the records ``[i, j)`` of a batch; their offsets are their places in it."""
    whole = scan_batches(batch.body)
    yield from regroup([whole], range=OffsetRange(i, j), max_batch_bytes=MAX_BATCH_BYTES)


def _sends(part: ReadyBatch, skip: int, sequence: int) -> Iterator[Send]:
    if not skip:
        yield Send(part.first_offset, part.records, sequence, part.body)
        return
    at = part.first_offset + skip
    for rest in cut(part, skip, part.records):
        yield Send(at, rest.records, sequence, rest.body)
        at, sequence = at + rest.records, sequence + rest.records


def _fillers(start: int, end: int, *, key: bytes = b"", time: int = NO_TIME) -> Iterator[Send]:
    """Yield filler; no control record precedes it, so offset and sequence are equal."""
    largest = LARGEST_FILLER // 10 if key else LARGEST_FILLER
    while start < end:
        count = min(largest, end - start)
        yield Send(start, count, start, filler_batch(count, time, key), filler=True)
        start += count
