"""Both sides as records: the archive by its log, the target by plain Fetch. In tasks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.store import ObjectStore
from kafkeep.care.against.work import Selection
from kafkeep.contents.options import ReadOptions
from kafkeep.data.arrow_parts import view_numbers
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.kafka.batch import Batches, check_crcs, scan_batches
from kafkeep.kafka.records import iter_decode
from kafkeep.kafka.transactions import drop_aborted
from kafkeep.kafka.wire import Fetched, FetchWanted, Isolation, Pending, Wire

PIECE_BYTES = 4 << 20
FETCH_BYTES = 8 << 20
_MOST_EMPTY = 20


def iter_archive(
    store: ObjectStore, entries: tuple[Entry, ...], selection: Selection, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the archived records of one partition that were selected, in order."""
    # Formats and converters take a while to import; the driver needs none of them.
    from kafkeep.contents.records import iter_records  # noqa: PLC0415

    for wanted in selection.ranges if selection.ranges is not None else (None,):
        for batch in iter_records(store, entries, wanted, options=options):
            yield _in_time(batch, selection)


def _in_time(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    if selection.from_ms is None and selection.until_ms is None:
        return batch
    times = view_numbers(batch.column("timestamp"), np.int64)
    keep = np.ones(len(times), dtype=np.bool_)
    if selection.from_ms is not None:
        keep &= times >= selection.from_ms
    if selection.until_ms is not None:
        keep &= times < selection.until_ms
    return batch if keep.all() else batch.take(pa.array(np.flatnonzero(keep)))


def iter_target(
    wire: Wire, topic: str, topic_id: str, partition: int, offsets: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """Yield what a consumer that reads committed records sees of these offsets.

    Every batch's CRC is checked. While one answer is decoded the next is under way.
    """

    def ask(offset: int) -> Pending[list[Fetched]]:
        wanted = FetchWanted(topic, topic_id, partition, offset, FETCH_BYTES)
        return wire.fetch([wanted], max_bytes=FETCH_BYTES, isolation=Isolation.READ_COMMITTED)

    position, empty = offsets.start, 0
    pending = ask(position) if position < offsets.end else None
    while pending is not None:
        answer = pending.result()[0]
        if answer.error is not None:
            raise answer.error.exception()
        batches = scan_batches(answer.records)
        check_crcs(batches)
        if not len(batches) and len(answer.records):
            raise KafkeepError(
                f"{topic}-{partition}: the batch at offset {position} is larger than the "
                f"{len(answer.records)} bytes Kafka sent"
            )
        wanted = OffsetRange(position, offsets.end)
        if len(batches):
            position, empty = max(position, int(batches.last_offsets[-1]) + 1), 0
        else:
            empty += 1
            if empty > _MOST_EMPTY:
                raise TransientError(f"{topic}-{partition}: Kafka answers nothing at {position}")
            if empty > 1 and answer.last_stable >= offsets.end:
                return  # nothing but a hole is left
        pending = ask(position) if position < offsets.end else None
        yield from iter_decode(_committed(batches, answer), wanted, max_bytes=PIECE_BYTES)


def _committed(batches: Batches, answer: Fetched) -> Batches:
    return batches.select(drop_aborted(batches, answer.aborted).keep & (batches.record_counts > 0))
