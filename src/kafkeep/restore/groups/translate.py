"""Count the restored records before an archived offset, exactly. On the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kafkeep.archive.entry import IndexPoint, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import PreflightError
from kafkeep.objects.sink.read_windows import ENVELOPE, first_offset
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.restore.exact.steps import count_before
from kafkeep.restore.plan import PartitionPlan
from kafkeep.restore.read import iter_slices
from kafkeep.restore.routing.routing import SAME, Routing
from kafkeep.restore.routing.rows import SourceRows
from kafkeep.restore.selection import WindowSlice


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

    The log counts the objects before it; only the frame that holds the offset is read. Where
    records are dropped, all of them are read.
    PreflightError when objects do not hold the offsets of their records.
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
                f"{entry.key} does not tell the offsets of its records: groups cannot be restored",
                hint="Leave out --groups.",
            )


def _counts_from_start(part: WindowSlice) -> bool:
    """Whether the index counts only records of the entry's range."""
    index = part.window.entries[0].index
    return bool(index) and index[0].offset >= part.range.start


def _frame_before(part: WindowSlice, offset: int) -> tuple[int, int]:
    """Return where the frame that holds ``offset`` begins, and the records before it."""
    points: Sequence[IndexPoint] = part.window.entries[0].index
    point = max((p for p in points if p.offset < offset), default=None)
    return (part.range.start, 0) if point is None else (point.offset, point.records)
