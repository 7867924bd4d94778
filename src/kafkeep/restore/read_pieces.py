"""Read parts of objects: the offsets and the record times that were asked for. In tasks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkeep.archive.entry import OffsetRange
from kafkeep.contents.ahead import Ranges, read_in_order
from kafkeep.contents.options import NO_OPTIONS, ReadOptions
from kafkeep.contents.segments import iter_segment
from kafkeep.kafka.batch import Batches
from kafkeep.kafka.records import decode, iter_decode
from kafkeep.kafka.rewrite import ReadyBatch, regroup
from kafkeep.kernel import Int64s
from kafkeep.restore.pick import ALL_TIMES, Piece, Times
from kafkeep.restore.read import MAX_BATCH_BYTES, iter_ready


def iter_pieces(
    store: Ranges,
    pieces: Iterable[Piece],
    times: Times = ALL_TIMES,
    *,
    skip_records: int = 0,
    restore_aborted: bool = False,
    options: ReadOptions = NO_OPTIONS,
) -> Iterator[ReadyBatch]:
    """Yield the wanted records of one partition, less the first ``skip_records``; see iter_ready.

    Whole windows go the fast way. Only the frames of a piece are fetched.
    """
    for whole, group in groupby(pieces, key=lambda piece: piece.whole):
        if whole:
            skip_records = yield from iter_ready(
                store,
                [entry for piece in group for entry in piece.window.entries],
                skip_records=skip_records,
                restore_aborted=restore_aborted,
                options=options,
            )
            continue
        for piece in group:
            if piece.window.is_segment and not piece.timed:
                skip_records = yield from _iter_frames(store, piece, skip_records, restore_aborted)
            else:
                records = iter_records(store, piece, times, restore_aborted, options)
                skip_records = yield from iter_built(records, skip_records)


def _iter_frames(
    store: Ranges, piece: Piece, skip_records: int, restore_aborted: bool
) -> Generator[ReadyBatch, None, int]:
    """Yield a stretch of a segment's batches; return what is still to be skipped."""
    found = 0

    def counted() -> Iterator[Batches]:
        nonlocal found
        for batches in iter_segment(
            store, piece.window.entries[0], piece.range, aborted=restore_aborted
        ):
            found += count_inside(batches, piece.range)
            yield batches

    yield from regroup(
        counted(), range=piece.range, skip_records=skip_records, max_batch_bytes=MAX_BATCH_BYTES
    )
    return max(0, skip_records - found)


def count_inside(batches: Batches, range: OffsetRange) -> int:
    """Count the records in ``range``; only batches at its edges are looked into."""
    data = batches.select(~batches.is_control)
    inside = (data.base_offsets >= range.start) & (data.last_offsets < range.end)
    edges = data.select(~inside)
    cut = decode(edges, range=range).num_rows if len(edges) else 0
    return int(data.record_counts[inside].sum()) + cut


def iter_built(
    records: Iterator[pa.RecordBatch], skip_records: int
) -> Generator[ReadyBatch, None, int]:
    """Yield rows as batches, less the first ones; return what is still to be skipped."""
    # Formats and converters take a while to import; whole segments need none of them.
    from kafkeep.contents.ready import iter_ready_batches  # noqa: PLC0415

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
    store: Ranges, piece: Piece, times: Times, restore_aborted: bool, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted records of a piece as rows."""
    keep = time_filter(times if piece.timed else ALL_TIMES)
    if piece.window.is_segment:
        chunks = iter_segment(
            store, piece.window.entries[0], piece.range, aborted=restore_aborted,
            from_ms=times.from_ms, until_ms=times.until_ms,
        )  # fmt: skip
        for batches in chunks:
            for rows in iter_decode(batches, piece.range):
                yield from keep(rows)
        return
    from kafkeep.contents.records import inside, iter_window  # noqa: PLC0415

    files = [e for file in piece.window.files() for e in file.entries]
    with read_in_order(store, files) as reader:
        for rows in iter_window(reader, piece.window, options=options):
            yield from keep(inside(rows, piece.range))


def wanted_times(at: Int64s, times: Times) -> npt.NDArray[np.bool_]:
    """Tell of each time whether it is wanted."""
    wanted = np.ones(len(at), dtype=np.bool_)
    if times.from_ms is not None:
        wanted &= at >= times.from_ms
    if times.until_ms is not None:
        wanted &= at < times.until_ms
    return wanted


def time_filter(times: Times) -> Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]]:
    """Make a function that returns the rows whose time is wanted, in a batch or in none."""

    def keep(rows: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        if times != ALL_TIMES:
            at = rows.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
            wanted = wanted_times(at, times)
            if not wanted.all():
                rows = rows.take(pa.array(np.flatnonzero(wanted)))
        return (rows,) if rows.num_rows else ()

    return keep
