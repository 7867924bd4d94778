"""The Spark task of a restore at exact offsets: it sends records and fills holes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafkeep.errors import PreflightError, TransientError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.admin.fill_offsets import Transactions
from kafkeep.kafka.batch.rewrite import ReadyBatch, stamp
from kafkeep.kafka.batch.schema_ids import IdRewriter
from kafkeep.kafka.client.wire import Wire, wire_for
from kafkeep.objects.prefetch import ByteRangeReader, open_prefetcher
from kafkeep.restore.exact.plan import ExactPartition, Hole, Send, Step, Trim
from kafkeep.restore.send import SEQUENCES, Sender, check_hole, check_tail, no_batches, send_all
from kafkeep.restore.task import (
    RestoreBundle,
    TargetWork,
    end_offsets,
    pace_for,
    read_slices,
    rewriter_of,
    with_ids,
)
from kafkeep.retry import PRODUCE, TRANSACTION_MARKER
from kafkeep.store.open import open_store


@dataclass(slots=True)
class ExactSender(Sender):
    """One target partition being written; ``written`` is its end offset, the base is 0."""

    read: Callable[[int], Iterator[ReadyBatch]] = no_batches
    contents: ExactPartition = field(kw_only=True)
    records: int = 0
    """Records that this attempt sent to the target, without filler."""
    filled: int = 0
    holes: int = 0
    _unconfirmed: deque[tuple[int, int, bool]] = field(default_factory=deque)
    """What was sent and is not known to be in the target: end offset, records, whether filler."""
    _steps: Iterator[Step] | None = None
    _step: Step | None = None

    def begin(self, written: int) -> None:
        """Continue with a target that ends at ``written``."""
        if written > self.contents.goal:
            raise self.past(written, self.contents.goal)
        self.written = self._sent = written
        self._count_written()
        self._unconfirmed.clear()  # the rest is sent again
        self._steps = self.contents.steps(written)
        self.troubled = None
        self._met = False
        self.advance()

    def advance(self) -> None:
        """Advance to the next step."""
        assert self._steps is not None
        self._step = next(self._steps, None)
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        self.done = self._step is None and self.in_flight == 0 and self.troubled is None

    def can_send(self) -> bool:
        """See Sender."""
        if self.troubled is not None or not isinstance(self._step, Send):
            return False
        return self._met or self.in_flight == 0

    def take(self) -> tuple[bytearray, int, int]:
        """See Sender."""
        step = self._step
        assert isinstance(step, Send)
        place = self.place
        stamp(step.body, place.producer_id, place.producer_epoch, step.sequence % SEQUENCES)
        self._sent = step.offset + step.records
        self.in_flight += 1
        self._unconfirmed.append((self._sent, step.records, step.filler))
        self.advance()
        return step.body, step.offset, step.records

    def update_done(self) -> None:
        """See Sender."""
        self._count_written()
        self._finish_if_over()

    def _count_written(self) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= self.written:
            _, records, filler = self._unconfirmed.popleft()
            if filler:
                self.filled += records
            else:
                self.records += records

    @property
    def waiting(self) -> Hole | Trim | None:
        """The next step that is not a send, once everything sent is in the target."""
        idle = self.in_flight == 0 and self.troubled is None
        return self._step if idle and isinstance(self._step, (Hole, Trim)) else None

    def pass_marker(self, end: int) -> None:
        """Record that a control record filled the next offset; ``end`` is the end of the target."""
        step = self._step
        assert isinstance(step, Hole)
        if end != self.written + 1:
            raise self.past(end, self.written + 1)
        self.written = self._sent = end
        self.holes += 1
        self._stuck_since = None
        if end < step.end:
            self._step = Hole(end, step.end)
        else:
            self.advance()

    def past(self, end: int, wanted: int) -> PreflightError:
        """Return the error for a target in which original offsets are no longer possible."""
        return PreflightError(
            f"{self.topic}-{self.partition} ends at {end}, past {wanted}: its records can no "
            "longer get their original offsets",
            hint="Stop all other producers, delete the topic and run the restore again.",
        )


@dataclass(slots=True)
class Filler:
    """Trims filler and fills holes, for many partitions at once."""

    admin: Admin
    senders: list[ExactSender]
    transactions: Transactions | None

    def __call__(self) -> bool:
        """Run the waiting steps; return whether there were any."""
        trims = [(s, at.offset) for s in self.senders if isinstance(at := s.waiting, Trim)]
        if trims:
            failpoint("exact.trim")
            self.admin.delete_records({sender.key: offset for sender, offset in trims})
            failpoint("exact.trimmed")
            for sender, _ in trims:
                sender.advance()
        waiting = [s for s in self.senders if isinstance(s.waiting, Hole)]
        if waiting:
            self._mark(waiting)
        return bool(trims or waiting)

    def _mark(self, waiting: list[ExactSender]) -> None:
        """Fill the next offset of each partition with one transaction."""
        assert self.transactions is not None, "the plan has no holes"
        try:
            failpoint("exact.mark")
            self.transactions.mark([sender.key for sender in waiting])
            failpoint("exact.marked")
            ends = self._await(waiting)
        except TransientError as error:
            self._begin_anew(waiting, error)
            return
        for sender in waiting:
            sender.pass_marker(ends[sender.key])

    def _await(self, waiting: list[ExactSender]) -> dict[tuple[str, int], int]:
        retries = TRANSACTION_MARKER.begin()
        while True:
            ends = self.admin.offsets([s.key for s in waiting], OffsetSpec.LATEST)
            late = [s for s in waiting if ends[s.key] <= s.written]
            if not late:
                return ends
            wait_s = retries.next_wait_s()
            if wait_s is None:
                where = f"{late[0].topic}-{late[0].partition}"
                raise TransientError(f"{where}: the marker of a transaction is missing")
            time.sleep(wait_s)

    def _begin_anew(self, waiting: list[ExactSender], error: TransientError) -> None:
        """After an error: abort open transactions, then read the end offset of each target."""
        assert self.transactions is not None
        time.sleep(PRODUCE.wait_s(1))
        self.transactions.fence()
        ends = self.admin.offsets([s.key for s in waiting], OffsetSpec.LATEST)
        for sender in waiting:
            sender.troubled = error.message
            sender.recover(ends[sender.key])


def restore_exactly(bundle: RestoreBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write every partition of the bundle, each record at its original offset; yield reports.

    Safe to run again, also while a late attempt is running: the transactions of that attempt are
    fenced first, then the end of the target shows its progress.
    """
    failpoint("task.start")
    assert bundle.exact is not None
    wire = wire_for(bundle.kafka)
    admin = Admin(wire)
    transactions = None
    if bundle.exact.transactional_id is not None:
        transactions = Transactions(admin, bundle.exact.transactional_id)
        transactions.fence()
        failpoint("exact.begun")
    keys = [(work.topic, work.partition) for work in bundle.work]
    starts = admin.offsets(keys, OffsetSpec.EARLIEST)
    ends = admin.offsets(keys, OffsetSpec.LATEST)
    rewriter = rewriter_of(bundle)
    with open_prefetcher(open_store(bundle.archive, bundle.storage)) as store:
        senders = [_sender(store, work, bundle, rewriter) for work in bundle.work]
        for work, sender in zip(bundle.work, senders, strict=True):
            _check_there(wire, work, sender, starts[sender.key], ends[sender.key])
            sender.begin(ends[sender.key])
        send_all(
            wire,
            list(senders),
            end_offsets=partial(end_offsets, admin),
            topic_ids={work.topic: work.topic_id for work in bundle.work},
            pace=pace_for(bundle.rate_bytes),
            between=Filler(admin, senders, transactions),
        )
    for sender in senders:
        yield "partition", _report(sender)
    if rewriter is not None:
        yield "schema ids", rewriter.to_json()


def _sender(
    store: ByteRangeReader, work: TargetWork, bundle: RestoreBundle, rewriter: IdRewriter | None
) -> ExactSender:
    assert bundle.exact is not None and work.slices is not None
    read = with_ids(partial(read_slices, store, work, bundle), rewriter, work)
    contents = ExactPartition(work.slices, work.end, bundle.exact.tombstones, read)
    return ExactSender(work.topic, work.partition, work.place, contents=contents)


def _check_there(wire: Wire, work: TargetWork, sender: ExactSender, start: int, end: int) -> None:
    """Refuse a target that differs from what earlier attempts of this restore wrote."""
    contents = sender.contents
    if end > contents.goal:
        raise sender.past(end, contents.goal)
    if end == 0:
        return
    if start not in (0, contents.first) or (start == 0 and end > contents.first > 0):
        raise PreflightError(
            f"{work.topic}-{work.partition} starts at {start}, not where this restore started it",
            hint="Delete the topic and run the restore again.",
        )
    if end <= contents.first:
        return
    step = next(step for step in contents.steps(end - 1) if not isinstance(step, Trim))
    where = (wire, work.topic, work.partition)
    if isinstance(step, Send):
        ready = ReadyBatch(step.body, step.records, end - 1, end - 2 + step.records)
        check_tail(*where, topic_id=work.topic_id, last_offset=end - 1, expected=iter((ready,)))
    else:
        check_hole(*where, topic_id=work.topic_id, offset=end - 1)


def _report(sender: ExactSender) -> dict[str, Any]:
    return {
        "topic": sender.topic,
        "partition": sender.partition,
        "records": sender.records,
        "bytes": sender.bytes,
        "end": sender.end,
        "filled": sender.filled,
        "holes": sender.holes,
    }
