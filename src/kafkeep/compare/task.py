"""The Spark task of a comparison: it compares partitions and reports the differences."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.compare.differences import Tally, classify
from kafkeep.compare.digest import DigestRows, digest_rows
from kafkeep.compare.keyed import compare_keys
from kafkeep.compare.read import Fillers, classify_fillers, iter_archive, iter_target, with_ids
from kafkeep.compare.stream import RecordStream, compare_streams
from kafkeep.compare.work import ArchivePart, CompareBundle, CompareWork, TargetPart, WorkResult
from kafkeep.kafka.client.wire import Wire, wire_for
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.store.open import open_store


def compare_bundle(bundle: CompareBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compare each piece of work; yields one row for each. Reads only: safe to run again."""
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
    """Return records of the archive, of the target, of both, and what differs."""

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
    held, seen = Fillers(), Fillers()
    archived, read, matched, tally = _side_by_side(
        held.left_out(ours(mine)),
        seen.left_out(theirs(other)),
        work,
        lambda: Fillers().left_out(ours(mine)),
    )
    classify_fillers(held, seen, tally)
    same = min(held.count, seen.count)
    return archived + held.count, read + seen.count, matched + same, tally


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
