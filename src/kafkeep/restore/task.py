"""The function a restore's Spark task runs: a bundle of target partitions in, reports out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
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
from kafkeep.objects.prefetch import Ahead, Ranges, open_ahead, reads_of
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.document import TargetPartition
from kafkeep.restore.read import iter_pieces, iter_ready
from kafkeep.restore.routing.routing import SAME, Shape
from kafkeep.restore.routing.rows import SourceRows, iter_shaped, needs_rows, shift_headers
from kafkeep.restore.selection import ALL_TIMES, Piece, Times, whole_pieces
from kafkeep.restore.send import Sender, check_tail, send_all
from kafkeep.store.open import open_store

SOON = 8
"""So many partitions are read from at once before the first batches are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetWork:
    """One target partition and what goes into it."""

    topic: str
    topic_id: str
    partition: int
    place: TargetPartition
    entries: tuple[Entry, ...]
    est_bytes: int
    pieces: tuple[Piece, ...] | None = None
    """What is read of the entries, when something was picked."""
    times: Times = ALL_TIMES
    end: int = 0
    """With exact offsets, where it ends at least."""
    shape: Shape = SAME


@dataclass(frozen=True, slots=True)
class RouteSource:
    """One archived partition whose records are dealt out."""

    partition: int
    pieces: tuple[Piece, ...]
    times: Times


@dataclass(frozen=True, slots=True)
class Route:
    """Where the records of a target topic come from; the shape says where they go."""

    topic: str
    sources: tuple[RouteSource, ...]
    shape: Shape
    counts: bool = True
    """Of bundles that all read the topic, one counts what it met."""


@dataclass(frozen=True, slots=True)
class ExactWay:
    """How holes are filled: by transactions under this id, by tombstones, or there are none."""

    transactional_id: str | None
    tombstones: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBundle:
    """Everything one task needs; travels to the executor as it is."""

    work: tuple[TargetWork, ...]
    kafka: KafkaOptions
    archive: str
    storage: StorageOptions
    restore_aborted: bool
    rate_bytes: float | None
    reading: ReadOptions = field(default_factory=ReadOptions)
    """How the log's objects were made."""
    ids: IdMap | None = None
    """Given when records get other schema ids."""
    exact: ExactWay | None = None
    """Given when every record goes to the offset it had."""
    routes: tuple[Route, ...] = ()
    """Of the bundle's topics, when target partitions get records of several archived ones."""


def restore_bundle(bundle: RestoreBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write every partition of the bundle to its end; yield one report for each.

    Safe to run again, also beside a late attempt of itself: the target's end offset says what is
    there, and the sequences keep everything else out.
    """
    failpoint("task.start")
    wire = wire_for(bundle.kafka)
    admin = Admin(wire)
    rewriter = rewriter_of(bundle)
    with open_ahead(open_store(bundle.archive, bundle.storage)) as store:
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
    wire: Wire, admin: Admin, store: Ahead, bundle: RestoreBundle, rewriter: IdRewriter | None
) -> list[Sender]:
    """Return the senders of a bundle, each with its first batch at hand."""
    ends = admin.offsets([(w.topic, w.partition) for w in bundle.work], OffsetSpec.LATEST)
    senders = []
    for number, work in enumerate(bundle.work):
        for soon in bundle.work[number : number + SOON]:
            _expect_first(store, soon, records_there(soon, ends))
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


def _expect_first(store: Ahead, work: TargetWork, written: int) -> None:
    """Have the first read of a partition under way before its turn."""
    first = None if written or work.pieces is not None else next(reads_of(work.entries), None)
    if first is not None:
        store.expect(first)


def records_there(work: TargetWork, ends: Mapping[tuple[str, int], int]) -> int:
    """Return how many records a target partition has got; PreflightError if it has lost some."""
    written = ends[work.topic, work.partition] - work.place.base
    if written < 0:
        raise PreflightError(f"{work.topic}-{work.partition} ends before the restore began")
    return written


def rewriter_of(bundle: RestoreBundle) -> IdRewriter | None:
    """Return what puts other schema ids into records, if they get any."""
    return None if bundle.ids is None else IdRewriter(bundle.ids)


def with_ids(
    read: Callable[..., Iterator[ReadyBatch]], rewriter: IdRewriter | None, work: TargetWork
) -> Callable[..., Iterator[ReadyBatch]]:
    """Return what reads the same records with other schema ids."""
    if rewriter is None:
        return read
    source = work.topic, work.partition
    return lambda *arguments: rewriter.batches(read(*arguments), source)


def report_of(sender: Sender, before: int) -> dict[str, Any]:
    """Say what was written to one partition that had ``before`` records."""
    return {
        "topic": sender.topic,
        "partition": sender.partition,
        "records": sender.written - before,
        "bytes": sender.bytes,
        "end": sender.end,
    }


def _read(
    store: Ranges, work: TargetWork, bundle: RestoreBundle, skip: int
) -> Iterator[ReadyBatch]:
    aborted, reading = bundle.restore_aborted, bundle.reading
    if work.pieces is None and work.shape == SAME:
        return iter_ready(
            store, work.entries, skip_records=skip, restore_aborted=aborted, options=reading
        )
    pieces = whole_pieces(work.entries) if work.pieces is None else work.pieces
    return read_pieces(store, work, bundle, pieces, skip)


def read_pieces(
    store: Ranges,
    work: TargetWork,
    bundle: RestoreBundle,
    pieces: tuple[Piece, ...],
    skip: int = 0,
) -> Iterator[ReadyBatch]:
    """Yield what is wanted of pieces, in the shape that is wanted, less the first records."""
    aborted, reading = bundle.restore_aborted, bundle.reading
    if needs_rows(work.shape, work.entries):
        source = SourceRows(store, pieces, work.times, aborted, reading)
        return iter_shaped(source, work.shape, skip)
    batches = iter_pieces(
        store, pieces, work.times, skip_records=skip, restore_aborted=aborted, options=reading
    )
    return shift_headers(batches, work.shape.shift_ms) if work.shape.shift_ms else batches


def end_offsets(admin: Admin, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return where partitions end."""
    return admin.offsets(keys, OffsetSpec.LATEST)


def pace_for(rate_bytes: float | None) -> Callable[[int], None]:
    """Return what waits so that no more than ``rate_bytes`` go out in a second, on average."""
    if rate_bytes is None:
        return lambda _size: failpoint("request.before")
    began = time.monotonic()
    total = 0

    def wait(size: int) -> None:
        nonlocal total
        failpoint("request.before")
        total += size
        ahead = total / rate_bytes - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(ahead)

    return wait
