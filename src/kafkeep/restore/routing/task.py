"""The Spark task of a restore whose target partitions get records of several archived ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.batch.rewrite import ReadyBatch, stamp
from kafkeep.kafka.batch.schema_ids import IdRewriter
from kafkeep.kafka.client.wire import ProduceResult, Wire, wire_for
from kafkeep.objects.prefetch import ByteRangeReader, open_prefetcher
from kafkeep.restore.routing.distribute import (
    Block,
    Lane,
    Router,
    batch_bytes_for,
    blocks_of,
    merge,
)
from kafkeep.restore.routing.rows import SourceRows
from kafkeep.restore.send import SEQUENCES, Sender, check_tail, no_batches, send_all
from kafkeep.restore.task import (
    RestoreBundle,
    Route,
    TargetWork,
    end_offsets,
    pace_for,
    records_there,
    report_of,
    rewriter_of,
)
from kafkeep.store.open import open_store


@dataclass(slots=True)
class RoutedSender(Sender):
    """One target partition being written from its lane."""

    read: Callable[[int], Iterator[ReadyBatch]] = no_batches
    lane: Lane = field(kw_only=True)

    def begin(self, written: int) -> None:
        """See Sender."""
        self.written = self._sent = written
        self.lane.rewind(written)
        self.troubled = None
        self._met = False
        self.update_done()

    def can_send(self) -> bool:
        """See Sender."""
        if self.troubled is not None or not self.lane.queue:
            return False
        return self._met or self.in_flight == 0

    def take(self) -> tuple[bytearray, int, int]:
        """See Sender."""
        batch, place = self.lane.take(), self.place
        stamp(batch.body, place.producer_id, place.producer_epoch, self._sent % SEQUENCES)
        offset = place.base + self._sent
        self._sent += batch.records
        self.in_flight += 1
        return batch.body, offset, batch.records

    def acknowledge(self, answer: ProduceResult, offset: int, records: int, size: int) -> None:
        """See Sender."""
        Sender.acknowledge(self, answer, offset, records, size)
        self.lane.confirm(self.written)

    def update_done(self) -> None:
        """See Sender."""
        empty = self.lane.ended and not self.lane.queue
        self.done = empty and self.in_flight == 0 and self.troubled is None


def restore_routed(bundle: RestoreBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the bundle's partitions, topic by topic, each in one pass; yield their reports.

    Safe to run again, like ``restore_bundle``.
    """
    failpoint("task.start")
    wire = wire_for(bundle.kafka)
    routes = {route.topic: route for route in bundle.routes}
    pace = pace_for(bundle.rate_bytes)
    rewriter = rewriter_of(bundle)
    with open_prefetcher(open_store(bundle.archive, bundle.storage)) as store:
        for topic, members in groupby(sorted(bundle.work, key=_by_topic), key=lambda w: w.topic):
            work = list(members)
            blocks = iter_blocks(store, routes[topic], bundle, rewriter)
            before, senders = _write(wire, blocks, work, pace)
            for sender in senders:
                yield "partition", report_of(sender, before[sender.key])
    if rewriter is not None:
        yield "schema ids", rewriter.to_json()


def _by_topic(work: TargetWork) -> tuple[str, int]:
    return work.topic, work.partition


def _write(
    wire: Wire, blocks: Iterator[Block], work: list[TargetWork], pace: Callable[[int], None]
) -> tuple[Mapping[tuple[str, int], int], list[RoutedSender]]:
    """Write one topic's partitions; return the records they had before, and their senders."""
    admin = Admin(wire)
    ends = admin.offsets([(w.topic, w.partition) for w in work], OffsetSpec.LATEST)
    senders = []
    for item in work:
        written = records_there(item, ends)
        lane = Lane(
            written,
            batch_bytes=batch_bytes_for(len(work)),
            on_edge=partial(_check_edge, wire, item, item.place.base + written - 1),
        )
        sender = RoutedSender(item.topic, item.partition, item.place, lane=lane)
        sender.begin(written)
        senders.append(sender)
    before = {sender.key: sender.written for sender in senders}
    router = Router(blocks, {sender.partition: sender.lane for sender in senders})
    send_all(
        wire,
        list(senders),
        end_offsets=partial(end_offsets, admin),
        topic_ids={item.topic: item.topic_id for item in work},
        pace=pace,
        between=router.pump,
    )
    for sender in senders:
        sender.update_done()
        assert sender.done, "everything was sent"
    return before, senders


def _check_edge(wire: Wire, work: TargetWork, offset: int, expected: ReadyBatch | None) -> None:
    check_tail(
        wire,
        work.topic,
        work.partition,
        topic_id=work.topic_id,
        last_offset=offset,
        expected=iter(() if expected is None else (expected,)),
    )


def iter_blocks(
    store: ByteRangeReader, route: Route, bundle: RestoreBundle, rewriter: IdRewriter | None = None
) -> Iterator[Block]:
    """Yield the records of all archived partitions of a topic, in the order targets get them."""
    sources = []
    for source in route.sources:
        rows = SourceRows(
            store, source.slices, source.times, bundle.restore_aborted, bundle.reading
        )
        records = rows.rows(route.routing)
        if rewriter is not None:  # before distribution, which uses the keys that consumers will see
            place = (route.topic, source.partition) if route.counts else None
            records = rewriter.rows(records, place)
        sources.append(blocks_of(records, source.partition, route.routing))
    return merge(sources)
