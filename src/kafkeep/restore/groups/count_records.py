"""Count the records that consumer groups have read, and those before an offset. Reads the store.

Objects are counted by the log where that is exact; otherwise their records are read. On the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kafkeep.archive.entry import IndexPoint, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import PreflightError
from kafkeep.kafka.batch.unpack import RecordFields
from kafkeep.numba_setup import Int64s
from kafkeep.objects.sink.read_windows import ENVELOPE, first_offset
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.restore.exact.plan import count_before
from kafkeep.restore.groups.plan import Positions, ReadCount
from kafkeep.restore.plan import PartitionPlan, TopicPlan
from kafkeep.restore.read import iter_slices
from kafkeep.restore.routing.distribute import blocks_of, merge
from kafkeep.restore.routing.routing import SAME, Routing
from kafkeep.restore.routing.rows import SourceRows
from kafkeep.restore.selection import WindowSlice
from kafkeep.restore.work import shares

AT_ONCE = 62
"""The number of groups per pass: each has a bit in place of a record's offset."""


def count_read(
    store: ObjectStore,
    topic: TopicPlan,
    groups: Sequence[Positions],
    *,
    restore_aborted: bool,
    options: ReadOptions,
) -> list[dict[int, ReadCount]]:
    """Return what each group has read of each target partition; reads the whole topic.

    PreflightError if objects do not hold the offsets of their records.
    """
    sources = [partition for partition in topic.partitions if partition.ranges != ()]
    for part in (part for source in sources for part in source.all_slices()):
        check_offsets(part)

    def blocks(
        source: PartitionPlan, some: Sequence[Positions]
    ) -> Iterator[tuple[RecordFields, int]]:
        rows = SourceRows(store, source.all_slices(), source.times, restore_aborted, options)
        ends = np.array([group.get(source.partition, 0) for group in some], dtype=np.int64)
        for records, codec in rows.rows(topic.routing):
            yield _marked(records, ends), codec

    found: list[dict[int, ReadCount]] = []
    for start in range(0, len(groups), AT_ONCE):
        some = groups[start : start + AT_ONCE]
        tallies = {number: _Tally(len(some)) for number in shares(topic)}
        streams = [blocks_of(blocks(s, some), s.partition, topic.routing) for s in sources]
        for block in merge(streams):
            for number in np.unique(block.targets).tolist():
                tallies[number].add(block.rows.offsets[block.targets == number])
        found += [
            {n: tally.of(place) for n, tally in tallies.items()} for place in range(len(some))
        ]
    return found


def _marked(records: RecordFields, ends: Int64s) -> RecordFields:
    """Replace each offset by bits, one per group that has read it."""
    read = records.offsets[:, None] < ends[None, :]
    bits = np.left_shift(1, np.arange(len(ends), dtype=np.int64))
    marks: Int64s = (read * bits[None, :]).sum(axis=1, dtype=np.int64)
    return RecordFields(
        records.buffer,
        marks,
        records.timestamps,
        records.timestamp_types,
        records.fields,
        records.ends,
        records.totals,
    )


class _Tally:
    """The read positions of several groups in one target partition."""

    def __init__(self, groups: int) -> None:
        self._read = np.zeros(groups, dtype=np.int64)
        self._unread = np.zeros(groups, dtype=np.int64)
        self._mixed = np.zeros(groups, dtype=np.bool_)

    def add(self, marks: Int64s) -> None:
        """Add the next records, in order."""
        for group in range(len(self._read)):
            read = (marks >> group & 1).astype(np.bool_)
            unread = np.flatnonzero(~read)
            first = 0 if self._unread[group] else (unread[0] if len(unread) else len(read))
            self._mixed[group] |= bool(read[first:].any())
            self._read[group] += int(read.sum())
            self._unread[group] += len(unread)

    def of(self, group: int) -> ReadCount:
        """Return what one group has read."""
        return ReadCount(int(self._read[group]), not self._mixed[group])


def count_records_before(
    store: ObjectStore,
    partition: PartitionPlan,
    offsets: Iterable[int],
    *,
    restore_aborted: bool,
    options: ReadOptions,
    routing: Routing = SAME,
) -> dict[int, int]:
    """Return the number of restored records before each offset.

    Earlier objects are counted by the log; only the frame that holds the offset is read. If
    records are dropped, all of them are read.
    PreflightError if objects do not hold the offsets of their records.
    """
    left = sorted(set(offsets))
    slices = partition.all_slices()
    if routing.drops:
        source = SourceRows(store, slices, partition.times, restore_aborted, options)
        return _count_filtered(source, routing, left)
    found: dict[int, int] = {}
    total = 0
    for part in slices:
        while left and left[0] <= part.range.start:
            found[left.pop(0)] = total
        if not left:
            break
        inside = [offset for offset in left if offset < part.range.end]
        if not inside and part.exact:
            total += part.records
            continue
        counts = _count(
            store, partition, part, inside, restore_aborted=restore_aborted, options=options
        )
        for offset in inside:
            found[offset] = total + counts[offset]
        left = left[len(inside) :]
        total += counts[part.range.end]
    return {**found, **dict.fromkeys(left, total)}


def _count(
    store: ObjectStore,
    partition: PartitionPlan,
    part: WindowSlice,
    inside: Sequence[int],
    *,
    restore_aborted: bool,
    options: ReadOptions,
) -> dict[int, int]:
    """Count the records of a slice before each offset inside of it, and before its end."""
    end = part.range.end
    if part.exact and part.window.records == len(part.range):
        return {offset: offset - part.range.start for offset in (*inside, end)}
    check_offsets(part)
    indexed = part.exact and part.window.is_segment and _counts_from_start(part)
    counts = {end: part.records} if indexed else {}
    for offset in inside if indexed else (*inside, end):
        start, before = _frame_before(part, offset) if indexed else (part.range.start, 0)
        before_it = WindowSlice(part.window, OffsetRange(start, offset), part.timed, 0, 0)
        batches = iter_slices(
            store, (before_it,), partition.times, restore_aborted=restore_aborted, options=options
        )
        counts[offset] = before + sum(count_before(batch, offset) for batch in batches)
    return counts


def _count_filtered(source: SourceRows, routing: Routing, offsets: Sequence[int]) -> dict[int, int]:
    for part in source.slices:
        check_offsets(part)
    counts = np.zeros(len(offsets), dtype=np.int64)
    for rows, _ in source.rows(routing):
        before = np.searchsorted(rows.offsets, offsets, side="left")
        counts += before
        if offsets and not before[-1]:
            break
    return dict(zip(offsets, counts.tolist(), strict=True))


def check_offsets(part: WindowSlice) -> None:
    """PreflightError when objects do not hold the offsets of their records."""
    for entry in part.window.entries:
        rows = entry.own_records and not part.window.is_segment
        if rows and entry.converter != ENVELOPE and first_offset(entry) is None:
            raise PreflightError(
                f"{entry.key} does not hold the offsets of its records: groups cannot be restored",
                hint="Leave out --groups.",
            )


def _counts_from_start(part: WindowSlice) -> bool:
    """Return whether the index counts only records of the entry's range."""
    index = part.window.entries[0].index
    return bool(index) and index[0].offset >= part.range.start


def _frame_before(part: WindowSlice, offset: int) -> tuple[int, int]:
    """Return the start of the frame that holds ``offset``, and the number of records before it."""
    points: Sequence[IndexPoint] = part.window.entries[0].index
    point = max((p for p in points if p.offset < offset), default=None)
    return (part.range.start, 0) if point is None else (point.offset, point.records)
