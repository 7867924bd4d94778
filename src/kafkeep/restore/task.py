"""The Spark task of a restore: it writes a bundle of target partitions and reports on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafkeep.archive.entry import Entry
from kafkeep.errors import PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.batch.rewrite import ReadyBatch
from kafkeep.kafka.batch.schema_ids import IdMap, IdRewriter
from kafkeep.kafka.client.wire import Wire, wire_for
from kafkeep.objects.prefetch import ByteRangeReader, Prefetcher, Read, open_prefetcher, reads_of
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.pace import Pace
from kafkeep.restore.document import TargetPartition
from kafkeep.restore.read import iter_ready, iter_slices
from kafkeep.restore.routing.routing import SAME, Routing
from kafkeep.restore.routing.rows import SourceRows, iter_routed_batches, needs_rows, shift_headers
from kafkeep.restore.selection import ALL_TIMES, TimeRange, WindowSlice, whole_slices
from kafkeep.restore.send import Sender, check_tail, send_all
from kafkeep.store.open import open_store

SOON = 8
"""The number of partitions read in parallel before the first batches are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetWork:
    """One target partition and its contents."""

    topic: str
    topic_id: str
    partition: int
    place: TargetPartition
    entries: Sequence[Entry]
    est_bytes: int
    slices: Sequence[WindowSlice] | None = None
    """The slices to read, if not all entries."""
    times: TimeRange = ALL_TIMES
    end: int = 0
    """With exact offsets, the minimum end offset."""
    routing: Routing = SAME


@dataclass(frozen=True, slots=True)
class RouteSource:
    """One archived partition whose records are distributed."""

    partition: int
    slices: Sequence[WindowSlice]
    times: TimeRange


@dataclass(frozen=True, slots=True)
class Route:
    """The sources of a target topic, and the routing of their records."""

    topic: str
    sources: tuple[RouteSource, ...]
    routing: Routing
    counts: bool = True
    """True if this bundle counts records: several bundles may read the same topic."""


@dataclass(frozen=True, slots=True)
class ExactWay:
    """How holes are filled: by transactions with this id, or by tombstones."""

    transactional_id: str | None
    tombstones: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBundle:
    """The input of one task; serialized to the executor."""

    work: tuple[TargetWork, ...]
    kafka: KafkaOptions
    archive: str
    storage: StorageOptions
    restore_aborted: bool
    rate_bytes: float | None
    reading: ReadOptions = field(default_factory=ReadOptions)
    """The options for reading the objects."""
    ids: IdMap | None = None
    """The new schema ids; None if records keep theirs."""
    exact: ExactWay | None = None
    """How holes are filled; None unless offsets are exact."""
    routes: tuple[Route, ...] = ()
    """Sources of the topics whose target partitions get records of several archived ones."""


def restore_bundle(bundle: RestoreBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write every partition of the bundle; yield one report for each.

    Safe to run again, also while a late attempt is running: the end offset of the target shows what
    is written, and the broker refuses any other sequence.
    """
    failpoint("task.start")
    wire = wire_for(bundle.kafka)
    admin = Admin(wire)
    rewriter = rewriter_of(bundle)
    with open_prefetcher(open_store(bundle.archive, bundle.storage)) as store:
        senders = _begin(wire, admin, store, bundle, rewriter)
        before = {sender.key: sender.written for sender in senders}
        send_all(
            wire,
            senders,
            end_offsets=partial(end_offsets, admin),
            topic_ids={w.topic: w.topic_id for w in bundle.work},
            pace=pace_for(bundle.rate_bytes),
        )
    for sender in senders:
        yield "partition", report_of(sender, before[sender.key])
    if rewriter is not None:
        yield "schema ids", rewriter.to_json()


def _begin(
    wire: Wire, admin: Admin, store: Prefetcher, bundle: RestoreBundle, rewriter: IdRewriter | None
) -> list[Sender]:
    """Return the senders of a bundle, each with its first batch loaded."""
    ends = admin.offsets([(w.topic, w.partition) for w in bundle.work], OffsetSpec.LATEST)
    firsts = [_first_read(work, records_there(work, ends)) for work in bundle.work]
    senders = []
    for number, work in enumerate(bundle.work):
        for first in firsts[number : number + SOON]:
            if first is not None:
                store.expect(first)
        read = with_ids(partial(_read, store, work, bundle), rewriter, work)
        sender = Sender(work.topic, work.partition, work.place, read)
        written = records_there(work, ends)
        if written:
            check_tail(
                wire,
                work.topic,
                work.partition,
                topic_id=work.topic_id,
                last_offset=ends[sender.key] - 1,
                expected=read(written - 1),
            )
        sender.begin(written)
        senders.append(sender)
    return senders


def _first_read(work: TargetWork, written: int) -> Read | None:
    """Return the first read of a partition, if it is known before its turn."""
    return None if written or work.slices is not None else next(reads_of(work.entries), None)


def records_there(work: TargetWork, ends: Mapping[tuple[str, int], int]) -> int:
    """Return the number of records in a target partition; PreflightError if it lost some."""
    written = ends[work.topic, work.partition] - work.place.base
    if written < 0:
        raise PreflightError(
            f"{work.topic}-{work.partition} ends before the offset at which the restore started"
        )
    return written


def rewriter_of(bundle: RestoreBundle) -> IdRewriter | None:
    """Return the rewriter of schema ids in records, if they change."""
    return None if bundle.ids is None else IdRewriter(bundle.ids)


def with_ids(
    read: Callable[..., Iterator[ReadyBatch]], rewriter: IdRewriter | None, work: TargetWork
) -> Callable[..., Iterator[ReadyBatch]]:
    """Return a reader of the same records with other schema ids."""
    if rewriter is None:
        return read
    source = work.topic, work.partition
    return lambda *arguments: rewriter.batches(read(*arguments), source)


def report_of(sender: Sender, before: int) -> dict[str, Any]:
    """Return the report of one partition that had ``before`` records."""
    return {
        "topic": sender.topic,
        "partition": sender.partition,
        "records": sender.written - before,
        "bytes": sender.bytes,
        "end": sender.end,
    }


def _read(
    store: ByteRangeReader, work: TargetWork, bundle: RestoreBundle, skip: int
) -> Iterator[ReadyBatch]:
    aborted, reading = bundle.restore_aborted, bundle.reading
    if work.slices is None and work.routing == SAME:
        return iter_ready(
            store, work.entries, skip_records=skip, restore_aborted=aborted, options=reading
        )
    slices = whole_slices(work.entries) if work.slices is None else work.slices
    return read_slices(store, work, bundle, slices, skip)


def read_slices(
    store: ByteRangeReader,
    work: TargetWork,
    bundle: RestoreBundle,
    slices: Sequence[WindowSlice],
    skip: int = 0,
) -> Iterator[ReadyBatch]:
    """Yield the selected records of slices, after the skipped ones, routed."""
    aborted, reading = bundle.restore_aborted, bundle.reading
    if needs_rows(work.routing, work.entries):
        source = SourceRows(store, slices, work.times, aborted, reading)
        return iter_routed_batches(source, work.routing, skip)
    batches = iter_slices(
        store, slices, work.times, skip_records=skip, restore_aborted=aborted, options=reading
    )
    return shift_headers(batches, work.routing.shift_ms) if work.routing.shift_ms else batches


def end_offsets(admin: Admin, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    return admin.offsets(keys, OffsetSpec.LATEST)


def pace_for(rate_bytes: float | None) -> Callable[[int], None]:
    """Return a function that waits to keep the average below ``rate_bytes`` a second."""
    pace = Pace(rate_bytes)

    def wait(size: int) -> None:
        failpoint("request.before")
        pace(size)

    return wait
