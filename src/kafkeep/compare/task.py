"""The Spark task of a comparison: it compares partitions and reports the differences.

Both sides are read as records: the archive by its log, the target by Fetch. Archived records get
the schema ids that their restore gave them. Tombstones that an exact restore wrote into holes
are counted but not compared: there may be millions of them. The archive of such a target holds
them, too.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.compare.differences import MOST_PLACES, DifferencePlace, Tally, Verdict, classify
from kafkeep.compare.digest import DigestRows, digest_rows
from kafkeep.compare.repartitioned import compare_keys
from kafkeep.compare.stream import RecordStream, compare_streams
from kafkeep.compare.work import (
    ArchivePart,
    CompareBundle,
    CompareWork,
    RecordSelection,
    TargetPart,
    WorkResult,
)
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.kafka.batch.layout import RESERVED_KEY
from kafkeep.kafka.batch.scan import Batches, check_crcs, scan_batches
from kafkeep.kafka.batch.schema_ids import IdMap
from kafkeep.kafka.batch.transactions import drop_aborted
from kafkeep.kafka.client.wire import FetchPosition, FetchResult, Isolation, Pending, Wire, wire_for
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.records.arrow import view_numbers
from kafkeep.store.open import open_store


def compare_bundle(bundle: CompareBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compare each work item and yield one row for it. Reads only; safe to run again."""
    wire = wire_for(bundle.locations.kafka)
    store = open_store(bundle.locations.archive, bundle.locations.storage)
    for work in bundle.work:
        began_ms, began = now_ms(), time.monotonic()
        archived, found, matched, tally = _compare(work, store, wire, bundle.reading)
        compared = WorkResult(
            source=work.source,
            target=work.target,
            partition=None if work.share else work.parts[0].partition,
            archived=archived,
            found=found,
            matched=matched,
            tally=tally,
            sha256=_digest(work),
            began_ms=began_ms,
            seconds=time.monotonic() - began,
        )
        yield "compared", compared.to_json()


def _compare(
    work: CompareWork, store: ObjectStore, wire: Wire, reading: ReadOptions
) -> tuple[int, int, int, Tally]:
    """Return the number of records in the archive, the target and both, and the differences."""

    def ours(part: ArchivePart) -> Iterator[pa.RecordBatch]:
        records = iter_archive(store, part.entries, part.selection, reading)
        return records if work.ids is None else with_ids(records, work.ids)

    def theirs(part: TargetPart) -> Iterator[pa.RecordBatch]:
        return iter_target(wire, work.target, work.topic_id, part.partition, part.offsets)

    if work.share is not None:
        matched, archived, found, tally = compare_keys(
            ((part.partition, ours(part)) for part in work.archive),
            ((part.partition, theirs(part)) for part in work.parts),
            work.fields,
            work.share,
            work.leniency,
        )
        return archived, found, matched, tally
    mine, other = work.archive[0], work.parts[0]
    if not work.leniency.exact:
        return _side_by_side(ours(mine), theirs(other), work, lambda: ours(mine))
    in_archive, in_target = FillerFilter(), FillerFilter()
    archived, read, matched, tally = _side_by_side(
        in_archive.left_out(ours(mine)),
        in_target.left_out(theirs(other)),
        work,
        lambda: FillerFilter().left_out(ours(mine)),
    )
    classify_fillers(in_archive, in_target, tally)
    same = min(in_archive.count, in_target.count)
    return archived + in_archive.count, read + in_target.count, matched + same, tally


def _side_by_side(
    ours: Iterator[pa.RecordBatch],
    theirs: Iterator[pa.RecordBatch],
    work: CompareWork,
    again: Callable[[], Iterator[pa.RecordBatch]],
) -> tuple[int, int, int, Tally]:
    archive = RecordStream(ours, work.fields, work.archive[0].records)
    target = RecordStream(theirs, work.fields, len(work.parts[0].offsets))
    compared = compare_streams(archive, target, work.fields)
    tally = classify(compared, lambda: _digest_batches(again(), work.fields), work.leniency)
    return archive.taken, target.taken, compared.matched, tally


def _digest_batches(
    batches: Iterator[pa.RecordBatch], fields: tuple[str, ...]
) -> Iterator[DigestRows]:
    return (digest_rows(batch, fields) for batch in batches)


def _digest(work: CompareWork) -> str:
    if len(work.archive) == 1:
        return work.archive[0].sha256
    return hashlib.sha256("".join(part.sha256 for part in work.archive).encode()).hexdigest()


_FRAME = 5


def ids_of(document: Mapping[str, Any]) -> IdMap | None:
    """Return the new schema ids in a restore's document; None if records kept theirs."""
    schemas = document.get("schemas") or {}
    if schemas.get("mode") != "map":
        return None
    where = (document.get("asked") or {}).get("ids_in")
    ids = {int(old): int(new) for old, new in schemas.get("ids", {}).items()}
    return IdMap(ids, where != "values", where != "keys")


def with_ids(batches: Iterable[pa.RecordBatch], ids: IdMap) -> Iterator[pa.RecordBatch]:
    wanted = [name for name, has in (("key", ids.keys), ("value", ids.values)) if has]
    for batch in batches:
        changed = batch
        for name in wanted:
            at = batch.schema.get_field_index(name)
            column = mapped(batch.column(at), ids.ids)
            changed = changed.set_column(at, batch.schema.field(at), column)
        yield changed


def mapped(column: pa.BinaryArray, ids: Mapping[int, int]) -> pa.BinaryArray:
    """Return a column with its schema ids replaced; values without an id do not change."""
    known = column.fill_null(b"")
    starts, data = known.buffers()[1:]
    if data is None or not len(column):
        return column
    edges = np.frombuffer(starts, np.int32)[known.offset : known.offset + len(known) + 1]
    first, length = edges[:-1].astype(np.int64), np.diff(edges)
    texts = np.frombuffer(data, np.uint8).copy()
    places = first[length >= _FRAME]
    places = places[texts[places] == 0]
    there = np.zeros(len(places), dtype=np.int64)
    for byte in range(1, _FRAME):
        there = (there << 8) | texts[places + byte]
    new = np.array([ids.get(id, id) for id in there.tolist()], dtype=np.int64)
    for byte in range(1, _FRAME):
        texts[places + byte] = (new >> (8 * (_FRAME - 1 - byte))) & 0xFF
    made = pa.Array.from_buffers(
        known.type, len(known), [None, starts, pa.py_buffer(texts)], offset=known.offset
    )
    return pc.if_else(column.is_null(), pa.scalar(None, known.type), made)


class FillerFilter:
    """Removes fillers from a stream, and keeps the offsets of the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.offsets: list[int] = []

    def left_out(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # pa.scalar would import pandas, which takes half a second.
        key = pa.array([RESERVED_KEY], pa.binary())[0]
        for batch in batches:
            named = pc.fill_null(pc.equal(batch.column("key"), key), False)
            filler = np.asarray(pc.and_(named, batch.column("value").is_null()))
            if not filler.any():
                yield batch
                continue
            self.count += int(filler.sum())
            lacking = MOST_PLACES - len(self.offsets)
            if lacking > 0:
                places = pa.array(np.flatnonzero(filler)[:lacking])
                self.offsets.extend(batch.column("offset").take(places).to_pylist())
            if not filler.all():
                yield batch.take(pa.array(np.flatnonzero(~filler)))


def classify_fillers(archive: FillerFilter, target: FillerFilter, tally: Tally) -> None:
    """Classify the fillers that only one side has."""
    more = target.count - archive.count
    if more > 0:
        tally.add(Verdict.FILLER, count=more)
        for offset in target.offsets:
            tally.add_place(Verdict.FILLER, DifferencePlace(None, offset))
    elif more < 0:
        tally.add(Verdict.LOST, count=-more)
        for offset in archive.offsets:
            tally.add_place(Verdict.LOST, DifferencePlace(offset, None))


PIECE_BYTES = 4 << 20
FETCH_BYTES = 8 << 20
_MOST_EMPTY = 20


def iter_archive(
    store: ObjectStore, entries: tuple[Entry, ...], selection: RecordSelection, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the selected archived records of one partition, in order."""
    # Formats and converters take a while to import; the driver needs none of them.
    from kafkeep.objects.records import iter_records  # noqa: PLC0415

    for wanted in selection.ranges if selection.ranges is not None else (None,):
        for batch in iter_records(store, entries, wanted, options=options):
            yield _in_time(batch, selection)


def _in_time(batch: pa.RecordBatch, selection: RecordSelection) -> pa.RecordBatch:
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
    """Yield the records that a read_committed consumer gets at these offsets.

    The CRC of every batch is checked. The next request is sent before an answer is decoded.
    """

    def ask(offset: int) -> Pending[list[FetchResult]]:
        wanted = FetchPosition(topic, topic_id, partition, offset, FETCH_BYTES)
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
                raise TransientError(f"{topic}-{partition}: Kafka returns no data at {position}")
            if empty > 1 and answer.last_stable >= offsets.end:
                return  # only a hole remains
        pending = ask(position) if position < offsets.end else None
        yield from iter_decode(_committed(batches, answer), wanted, max_bytes=PIECE_BYTES)


def _committed(batches: Batches, answer: FetchResult) -> Batches:
    return batches.select(drop_aborted(batches, answer.aborted).keep & (batches.record_counts > 0))
