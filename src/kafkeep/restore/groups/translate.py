"""How many restored records lie before an archived offset: counted exactly. On the driver."""

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
from kafkeep.restore.read import iter_pieces
from kafkeep.restore.routing.routing import SAME, Shape
from kafkeep.restore.routing.rows import SourceRows
from kafkeep.restore.selection import Piece


def count_records_before(
    store: ObjectStore,
    partition: PartitionPlan,
    offsets: Iterable[int],
    *,
    restore_aborted: bool,
    options: ReadOptions,
    shape: Shape = SAME,
) -> dict[int, int]:
    """Return the number of restored records before each offset.

    Objects before it are counted by the log; only the frame an offset lies in is read. Where
    records are dropped, all of them are read.
    PreflightError when objects do not tell the offsets of their records.
    """
    left = sorted(set(offsets))
    pieces = partition.all_pieces()
    if shape.drops:
        source = SourceRows(store, pieces, partition.times, restore_aborted, options)
        return _count_filtered(source, shape, left)
    found: dict[int, int] = {}
    total = 0
    for piece in pieces:
        while left and left[0] <= piece.range.start:
            found[left.pop(0)] = total
        if not left:
            break
        inside = [offset for offset in left if offset < piece.range.end]
        if not inside and piece.exact:
            total += piece.records
            continue
        counts = _count(
            store, partition, piece, inside, restore_aborted=restore_aborted, options=options
        )
        for offset in inside:
            found[offset] = total + counts[offset]
        left = left[len(inside) :]
        total += counts[piece.range.end]
    return {**found, **dict.fromkeys(left, total)}


def _count(
    store: ObjectStore,
    partition: PartitionPlan,
    piece: Piece,
    inside: Sequence[int],
    *,
    restore_aborted: bool,
    options: ReadOptions,
) -> dict[int, int]:
    """Count the records of a piece before each offset inside of it, and before its end."""
    end = piece.range.end
    if piece.exact and piece.window.records == len(piece.range):
        return {offset: offset - piece.range.start for offset in (*inside, end)}
    check_offsets(piece)
    indexed = piece.exact and piece.window.is_segment and _counts_from_start(piece)
    counts = {end: piece.records} if indexed else {}
    for offset in inside if indexed else (*inside, end):
        start, before = _frame_before(piece, offset) if indexed else (piece.range.start, 0)
        part = Piece(piece.window, OffsetRange(start, offset), piece.timed, 0, 0)
        batches = iter_pieces(
            store, (part,), partition.times, restore_aborted=restore_aborted, options=options
        )
        counts[offset] = before + sum(count_before(batch, offset) for batch in batches)
    return counts


def _count_filtered(source: SourceRows, shape: Shape, offsets: Sequence[int]) -> dict[int, int]:
    for piece in source.pieces:
        check_offsets(piece)
    counts = np.zeros(len(offsets), dtype=np.int64)
    for rows, _ in source.rows(shape):
        before = np.searchsorted(rows.offsets, offsets, side="left")
        counts += before
        if offsets and not before[-1]:
            break
    return dict(zip(offsets, counts.tolist(), strict=True))


def check_offsets(piece: Piece) -> None:
    """PreflightError when objects do not tell the offsets of their records."""
    for entry in piece.window.entries:
        rows = entry.own_records and not piece.window.is_segment
        if rows and entry.converter != ENVELOPE and first_offset(entry) is None:
            raise PreflightError(
                f"{entry.key} does not tell the offsets of its records: groups cannot be restored",
                hint="Leave out --groups.",
            )


def _counts_from_start(piece: Piece) -> bool:
    """Whether the index counts only records that the object answers for."""
    index = piece.window.entries[0].index
    return bool(index) and index[0].offset >= piece.range.start


def _frame_before(piece: Piece, offset: int) -> tuple[int, int]:
    """Return where the frame that holds ``offset`` begins, and the records before it."""
    points: Sequence[IndexPoint] = piece.window.entries[0].index
    point = max((p for p in points if p.offset < offset), default=None)
    return (piece.range.start, 0) if point is None else (point.offset, point.records)
