"""Send batches to their partitions, in order, each exactly once. In tasks.

The sequence of a batch is its target offset minus the partition's base offset, under one producer
id for the whole restore. If two attempts send the same batch, the broker stores the first and
refuses the second. After a failure the end offset shows where to continue. Before a restore
continues, it compares the last record of the target with the archived one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import (
    AccessDeniedError,
    KafkeepError,
    PreflightError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.failpoint import failpoint
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.rewrite import ReadyBatch, stamp
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.client.wire import FetchPosition, Isolation, Pending, ProduceResult, Wire
from kafkeep.restore.document import TargetPartition
from kafkeep.retry import PRODUCE

COMPARED = ("timestamp", "key", "value", "headers")


def check_tail(
    wire: Wire,
    topic: str,
    partition: int,
    *,
    topic_id: str,
    last_offset: int,
    expected: Iterator[ReadyBatch],
) -> None:
    """Compare the target's last record with the archived one that belongs there.

    ``expected`` begins with that record. PreflightError if they differ, or if the archive
    has no such record: the target then holds more than this restore wrote.
    """
    batch = next(expected, None)
    if batch is None:
        raise _not_ours(topic, partition, f"it holds more than the archive, up to {last_offset}")
    there = record_at(wire, topic, partition, topic_id=topic_id, offset=last_offset)
    ours = decode(scan_batches(batch.body), range=OffsetRange(0, 1))
    if there != _row(ours):
        raise _not_ours(topic, partition, f"its record at offset {last_offset} differs")


def check_hole(wire: Wire, topic: str, partition: int, *, topic_id: str, offset: int) -> None:
    """Raise PreflightError if a consumer finds a record at an offset that must be a hole."""
    if record_at(wire, topic, partition, topic_id=topic_id, offset=offset):
        raise _not_ours(topic, partition, f"it has a record at offset {offset}")


def record_at(
    wire: Wire, topic: str, partition: int, *, topic_id: str, offset: int
) -> list[dict[str, object]]:
    """Return the record that consumers get at an offset, or an empty batch."""
    wanted = FetchPosition(
        topic=topic, topic_id=topic_id, partition=partition, offset=offset, max_bytes=1 << 20
    )
    answer = wire.fetch([wanted], max_bytes=1 << 20, isolation=Isolation.READ_UNCOMMITTED).result()[
        0
    ]
    if answer.error is not None:
        raise answer.error.exception()
    found = scan_batches(answer.records)
    return _row(decode(found.select(~found.is_control), range=OffsetRange(offset, offset + 1)))


def _row(records: pa.RecordBatch) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = records.select(list(COMPARED)).slice(0, 1).to_pylist()
    return rows


def _not_ours(topic: str, partition: int, why: str) -> PreflightError:
    return PreflightError(
        f"{topic}-{partition} is not what this restore wrote: {why}",
        hint="Restore into another topic (--topics a:new-a), or delete this one first.",
    )


IN_FLIGHT = 5
"""The broker remembers the last five batches of a producer; it cannot recognise older ones."""
REQUEST_BYTES = 4 << 20
STUCK_SECONDS = 120.0
"""The restore fails when a partition accepts no record for this long."""
SEQUENCES = 2**31

OK, DUPLICATE = 0, 46
FATAL: dict[int, tuple[type[KafkeepError], str]] = {
    10: (PreflightError, "a batch is larger than the topic's max.message.bytes"),
    17: (PreflightError, "Kafka refuses the topic"),
    18: (PreflightError, "Kafka refuses batches of this size"),
    29: (AccessDeniedError, "writing is not allowed"),
    31: (AccessDeniedError, "idempotent writing is not allowed"),
    32: (PreflightError, "Kafka refuses a record's timestamp (message.timestamp.after.max.ms)"),
    44: (PreflightError, "a policy of the cluster refuses the batch"),
    87: (KafkeepError, "Kafka rejects a record as invalid"),
}


def no_batches(_skip: int) -> Iterator[ReadyBatch]:
    """Yield nothing: for senders with another source of batches."""
    return iter(())


@dataclass(slots=True)
class Sender:
    """One target partition being written."""

    topic: str
    partition: int
    place: TargetPartition
    read: Callable[[int], Iterator[ReadyBatch]]
    """Yields the batches after a number of records."""
    written: int = 0
    """The number of records in the target."""
    bytes: int = 0
    done: bool = False
    in_flight: int = 0
    troubled: str | None = None
    _sent: int = 0
    _met: bool = False
    """True if the broker has accepted a batch since ``begin``."""
    _batches: Iterator[ReadyBatch] | None = None
    _next: ReadyBatch | None = None
    _stuck_since: float | None = None
    """The time since which every request has failed."""

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def end(self) -> int:
        """The end offset of the target, by acknowledgements."""
        return self.place.base + self.written

    def begin(self, written: int) -> None:
        """Continue after the first ``written`` records."""
        self.written = self._sent = written
        self._batches = self.read(written)
        self._next = next(self._batches, None)
        self.troubled = None
        self._met = False
        self.done = self._next is None

    def can_send(self) -> bool:
        """Return whether the next batch may be sent now.

        The first is sent alone: a broker that has not seen the producer id accepts any sequence, so
        a second batch could be stored in place of the first.
        """
        if self.done or self.troubled is not None or self._next is None:
            return False
        return self._met or self.in_flight == 0

    def take(self) -> tuple[bytearray, int, int]:
        """Return the next batch, stamped; its target offset; its number of records."""
        batch, batches = self._next, self._batches
        assert batch is not None and batches is not None
        body = batch.body
        stamp(body, self.place.producer_id, self.place.producer_epoch, self._sent % SEQUENCES)
        offset = self.place.base + self._sent
        self._sent += batch.records
        self._next = next(batches, None)
        self.in_flight += 1
        return body, offset, batch.records

    def acknowledge(self, answer: ProduceResult, offset: int, records: int, size: int) -> None:
        """Count an accepted batch, or record the error."""
        self.in_flight -= 1
        if answer.error_code in FATAL:
            kind, why = FATAL[answer.error_code]
            raise kind(f"{self.topic}-{self.partition}: {why} (error {answer.error_code})")
        if answer.error_code not in (OK, DUPLICATE):
            self.troubled = f"Kafka answers {answer.error_name}"
            return
        if answer.error_code == OK and answer.base_offset != offset:
            raise PreflightError(
                f"{self.topic}-{self.partition}: a batch for offset {offset} was stored at "
                f"{answer.base_offset}: another producer writes to this topic",
                hint="Stop other producers, delete the topic and run the restore again.",
            )
        self.written = max(self.written, offset - self.place.base + records)
        self.bytes += size
        self._met = True
        self._stuck_since = None
        self.update_done()

    def update_done(self) -> None:
        """Set ``done`` once every batch is in the target."""
        if self.in_flight == 0 and self._next is None and self.troubled is None:
            self.done = True

    def lose(self, reason: str) -> None:
        """Record that a request got no answer; only the target shows whether it was stored."""
        self.in_flight -= 1
        self.troubled = reason

    def recover(self, end: int) -> None:
        """Continue at the end of the target; TransientError if nothing succeeds for too long."""
        written = end - self.place.base
        if written < self.written:
            raise PreflightError(
                f"{self.topic}-{self.partition} ends at {end}, but {self.end} was acknowledged",
                hint="Kafka lost records, or another program changed the topic. Delete the topic "
                "and run the restore again.",
            )
        now = time.monotonic()
        if written > self.written:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since > STUCK_SECONDS:
            raise TransientError(f"{self.topic}-{self.partition}: {self.troubled}")
        self.begin(written)


@dataclass(slots=True)
class _Request:
    pending: Pending[dict[tuple[str, int], ProduceResult]]
    parts: list[tuple[Sender, int, int, int]]


def send_all(
    wire: Wire,
    senders: list[Sender],
    *,
    end_offsets: Callable[[list[tuple[str, int]]], dict[tuple[str, int], int]],
    topic_ids: dict[str, str],
    pace: Callable[[int], None],
    between: Callable[[], bool] = lambda: False,
) -> None:
    """Send until every sender is done; ``pace`` gets the bytes of each request and may wait.

    ``between`` does other work and returns whether it did anything.
    """
    requests: deque[_Request] = deque()
    turn = deque(senders)
    while True:
        while len(requests) < IN_FLIGHT and (request := _next_request(wire, turn, topic_ids, pace)):
            requests.append(request)
        if requests:
            _finish(requests.popleft())
        moved = _recover(senders, end_offsets) or between()
        if not requests and not moved and not any(s.can_send() for s in senders):
            return


def _next_request(
    wire: Wire, turn: deque[Sender], topic_ids: dict[str, str], pace: Callable[[int], None]
) -> _Request | None:
    """Send one batch of each partition in turn, up to about ``REQUEST_BYTES``."""
    bodies: dict[tuple[str, int], bytearray] = {}
    parts, size = [], 0
    for _ in range(len(turn)):
        sender = turn[0]
        turn.rotate(-1)
        if not sender.can_send():
            continue
        body, offset, records = sender.take()
        bodies[sender.key] = body
        parts.append((sender, offset, records, len(body)))
        size += len(body)
        if size >= REQUEST_BYTES:
            break
    if not parts:
        return None
    pace(size)
    return _Request(wire.produce(bodies, topic_ids=topic_ids), parts)


def _finish(request: _Request) -> None:
    try:
        answers = request.pending.result()
        failpoint("request.after")
    except (UnknownOutcomeError, TransientError) as error:
        for sender, *_ in request.parts:
            sender.lose(error.message)
        return
    for sender, offset, records, size in request.parts:
        sender.acknowledge(answers[sender.key], offset, records, size)


def _recover(
    senders: list[Sender],
    end_offsets: Callable[[list[tuple[str, int]]], dict[tuple[str, int], int]],
) -> bool:
    """Restart failed senders once all their answers have arrived; return whether there were any."""
    troubled = [s for s in senders if s.troubled is not None and s.in_flight == 0]
    if not troubled:
        return False
    time.sleep(PRODUCE.wait_s(1))
    ends = end_offsets([sender.key for sender in troubled])
    for sender in troubled:
        sender.recover(ends[sender.key])
    return True
