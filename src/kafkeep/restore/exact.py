"""Write partitions at their old offsets: what ``send`` sends, and what fills holes. In tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafkeep.errors import PreflightError, TransientError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin import Admin, OffsetSpec
from kafkeep.kafka.exact import Transactions
from kafkeep.kafka.rewrite import ReadyBatch, stamp
from kafkeep.restore.send import SEQUENCES, Sender, no_batches
from kafkeep.restore.steps import ExactPartition, Hole, Send, Step, Trim

MARKER_SECONDS = 30.0
"""How long a marker may take to be written after its transaction has ended."""


@dataclass(slots=True)
class ExactSender(Sender):
    """One target partition being written; ``written`` is its end offset, the base is 0."""

    read: Callable[[int], Iterator[ReadyBatch]] = no_batches
    contents: ExactPartition = field(kw_only=True)
    records: int = 0
    """Records sent by this attempt, without filler."""
    filled: int = 0
    holes: int = 0
    _steps: Iterator[Step] | None = None
    _step: Step | None = None

    def begin(self, written: int) -> None:
        """Go on with a target that ends at ``written``."""
        if written > self.contents.goal:
            raise self.past(written, self.contents.goal)
        self.written = self._sent = written
        self._steps = self.contents.steps(written)
        self.troubled = None
        self._met = False
        self.advance()

    def advance(self) -> None:
        """Turn to the next step."""
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
        if step.filler:
            self.filled += step.records
        else:
            self.records += step.records
        self.advance()
        return step.body, step.offset, step.records

    def settle(self) -> None:
        """See Sender."""
        self._finish_if_over()

    @property
    def waiting(self) -> Hole | Trim | None:
        """What must be done by other means, now that all that was sent is there."""
        idle = self.in_flight == 0 and self.troubled is None
        return self._step if idle and isinstance(self._step, (Hole, Trim)) else None

    def pass_marker(self, end: int) -> None:
        """Note that a control record took the next offset; ``end`` is where the target ends."""
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
        """Return the error for a target that cannot become what it should be any more."""
        return PreflightError(
            f"{self.topic}-{self.partition} ends at {end}, past {wanted}: its records cannot stand "
            "at their old offsets any more",
            hint="Stop whoever else writes to it, delete the topic and run the restore again.",
        )


@dataclass(slots=True)
class Filler:
    """Does for many partitions at once what is no sending: trims the filler, takes holes."""

    admin: Admin
    senders: list[ExactSender]
    transactions: Transactions | None

    def __call__(self) -> bool:
        """Do what is waiting; tell whether anything was."""
        trims = [(s, at.offset) for s in self.senders if isinstance(at := s.waiting, Trim)]
        if trims:
            failpoint("exact.trim")
            self.admin.delete_records({sender.key: offset for sender, offset in trims})
            failpoint("exact.trimmed")
            for sender, _ in trims:
                sender.advance()
        standing = [s for s in self.senders if isinstance(s.waiting, Hole)]
        if standing:
            self._mark(standing)
        return bool(trims or standing)

    def _mark(self, standing: list[ExactSender]) -> None:
        """Let one transaction take the next offset of each."""
        assert self.transactions is not None, "the plan has no holes"
        try:
            failpoint("exact.mark")
            self.transactions.mark([sender.key for sender in standing])
            failpoint("exact.marked")
            ends = self._await(standing)
        except TransientError as error:
            self._begin_anew(standing, error)
            return
        for sender in standing:
            sender.pass_marker(ends[sender.key])

    def _await(self, standing: list[ExactSender]) -> dict[tuple[str, int], int]:
        deadline, pause = time.monotonic() + MARKER_SECONDS, 0.0005
        while True:
            ends = self.admin.offsets([s.key for s in standing], OffsetSpec.LATEST)
            late = [s for s in standing if ends[s.key] <= s.written]
            if not late:
                return ends
            if time.monotonic() > deadline:
                where = f"{late[0].topic}-{late[0].partition}"
                raise TransientError(f"{where}: the marker of a transaction does not come")
            time.sleep(pause)
            pause = min(0.05, pause * 2)

    def _begin_anew(self, standing: list[ExactSender], error: TransientError) -> None:
        """After any trouble: finish what may be open, then see where each target ends."""
        assert self.transactions is not None
        time.sleep(0.2)
        self.transactions.begin_anew()
        ends = self.admin.offsets([s.key for s in standing], OffsetSpec.LATEST)
        for sender in standing:
            sender.troubled = error.message
            sender.recover(ends[sender.key])
