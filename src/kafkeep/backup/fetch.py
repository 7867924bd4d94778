"""Read planned ranges from Kafka, several partitions in one request. Runs in tasks.

A range owns the batches whose base offset is in the range. The first range of a stretch also owns a
batch that starts before the range and ends inside it. A range is read until a batch at or past its
end appears. So it ends where the next range of the stretch starts, for any batch size.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.batch.scan import Batches, check_crcs, scan_batches
from kafkeep.kafka.batch.transactions import drop_aborted
from kafkeep.kafka.client.wire import (
    FetchError,
    FetchErrorKind,
    FetchPosition,
    FetchResult,
    Isolation,
    Pending,
    Wire,
)
from kafkeep.objects.range_writer import Chunk
from kafkeep.options.backup import MIB
from kafkeep.pace import Pace

REQUEST_BYTES = 16 * MIB
SHARED_PARTITION_BYTES = 4 * MIB
LEAST_REQUEST_BYTES = MIB // 16
"""With ``--rate``. Kafka sends a larger batch whole."""
PREFETCHED_REQUESTS = 2
MAX_EMPTY_ANSWERS = 20


@dataclass(slots=True)
class RangeFetch:
    """One range being read: its position, and the batches it takes from each answer."""

    planned: PlannedRange
    begins_stretch: bool
    est_bytes: int
    keeps_aborted: bool
    position: int = field(init=False)
    first: int = field(init=False)
    finished: bool = field(default=False, init=False)
    gone: bool = field(default=False, init=False)
    ended: bool = field(default=False, init=False)
    """Set when the rest of the range is left for the next cycle."""
    ignores_deadline: bool = field(default=False, init=False)
    """Set while no object of the range is complete. The range is then read past the deadline."""
    leader_epoch: int = field(default=-1, init=False)
    """The epoch of the batch that ends at the position, or of a later one; -1 if unknown."""
    _has_batches: bool = field(default=False, init=False)
    _empty: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.position = self.first = self.planned.range.start

    @property
    def is_open(self) -> bool:
        """True while there is more to read."""
        return not (self.finished or self.gone or self.ended)

    def wanted(self, max_bytes: int) -> FetchPosition:
        """Return the request for the next records."""
        pid = self.planned.partition_id
        return FetchPosition(
            topic=pid.topic,
            topic_id=self.planned.topic_id,
            partition=pid.partition,
            offset=self.position,
            max_bytes=max_bytes,
        )

    def skip_to(self, offset: int) -> None:
        """Continue at ``offset``. Everything before it is already archived, or lost."""
        if offset > self.position:
            self.leader_epoch = -1  # unknown for skipped batches
        self.position = offset
        self.finished = offset >= self.planned.range.end

    def accept(self, answer: FetchResult, *, conclusive: bool) -> Chunk | None:
        """Process an answer for the current position; return None if it holds nothing new.

        An empty answer does not prove that there are no records: other partitions may have used up
        the bytes of the request. It is ``conclusive`` if all answers of the request are empty.
        """
        if answer.error is not None:
            return self._accept_error(answer, answer.error)
        batches = scan_batches(answer.records)
        check_crcs(batches)
        if not len(batches) and len(answer.records):
            raise KafkeepError(
                f"{self.planned.partition_id}: the batch at offset {self.position} is larger than "
                f"the {len(answer.records)} bytes that Kafka sent"
            )
        if not len(batches):
            return self._accept_nothing(answer) if conclusive else None
        self._empty = 0
        return self._accept_batches(batches, answer)

    def _accept_error(self, answer: FetchResult, error: FetchError) -> Chunk | None:
        if error.kind is FetchErrorKind.OFFSET_OUT_OF_RANGE:
            return self._record_gap(answer.log_start)
        if error.kind is not FetchErrorKind.TOPIC_GONE:
            raise error.exception()
        self.gone = True
        return None

    def _accept_batches(self, batches: Batches, answer: FetchResult) -> Chunk:
        wanted = self.planned.range
        verdict = drop_aborted(batches, answer.aborted)
        keep = verdict.keep | verdict.aborted if self.keeps_aborted else verdict.keep
        mine = batches.base_offsets < wanted.end
        if (
            not self._has_batches
            and not self.begins_stretch
            and batches.base_offsets[0] < wanted.start
        ):
            mine[0] = False
            self.first = max(self.first, int(batches.last_offsets[0]) + 1)
        mine &= batches.last_offsets >= self.position
        self._has_batches = True
        before_end = batches.base_offsets < wanted.end
        if before_end.any():
            last = int(np.flatnonzero(before_end)[-1])
            self.position = max(self.position, int(batches.last_offsets[last]) + 1)
        # Compaction may leave a hole before the end, in which the epoch of the last batch has
        # ended. The batch after the hole has an epoch that has not.
        next_batch = min(int(np.count_nonzero(before_end)), len(batches) - 1)
        self.leader_epoch = int(batches.leader_epochs[next_batch])
        if not before_end.all() or self.position >= wanted.end:
            self.finished = True
            self.position = max(self.position, wanted.end)
        kept = batches.select(mine & keep & (batches.record_counts > 0))
        marked = verdict.stretches if self.keeps_aborted else ()
        return Chunk(kept if len(kept) else None, self.position, marked)

    def _accept_nothing(self, answer: FetchResult) -> Chunk | None:
        """Process an empty answer where records are due: wait, or accept a hole at the end."""
        self._empty += 1
        if answer.last_stable >= self.planned.range.end and self._empty >= 2:
            self.skip_to(self.planned.range.end)
            return Chunk(None, self.position)
        if self._empty > MAX_EMPTY_ANSWERS:
            raise TransientError(
                f"{self.planned.partition_id}: Kafka returns no records at offset {self.position}, "
                f"though its last stable offset was {self.planned.range.end}"
            )
        return None

    def _record_gap(self, log_start: int) -> Chunk:
        """Skip to ``log_start``, because retention has deleted everything before it."""
        if log_start <= self.position:
            raise KafkeepError(
                f"{self.planned.partition_id}: Kafka truncated its log to before offset "
                f"{self.position} while it was read",
                hint="An unclean leader election loses records. Check the broker's log.",
            )
        gap = OffsetRange(self.position, min(log_start, self.planned.range.end))
        self._has_batches = self.begins_stretch = True
        self.skip_to(gap.end)
        return Chunk(None, gap.end, gap=gap)


@dataclass(slots=True)
class _Request:
    pending: Pending[list[FetchResult]]
    readers: list[RangeFetch]
    positions: list[int]


def iter_chunks(
    wire: Wire,
    readers: list[RangeFetch],
    *,
    deadline: float,
    pace: Pace | None = None,
) -> Iterator[tuple[RangeFetch, Chunk]]:
    """Yield the chunks of each range until all are read, or ``deadline`` (monotonic) has passed.

    While the caller stores a chunk, the next requests are in flight. Every range gets at least one
    answer, even after the deadline. The caller may move a reader with ``skip_to``. ``pace`` gets
    the bytes of each answer and may wait.
    """
    pace = pace or Pace(None)
    most = pace.request_bytes(REQUEST_BYTES, least=LEAST_REQUEST_BYTES)
    requests: deque[_Request] = deque()
    answered: set[int] = set()

    def send() -> None:
        late = time.monotonic() > deadline
        _send(
            wire,
            [r for r in readers if r.ignores_deadline or not (late and id(r) in answered)],
            requests,
            most,
        )

    send()
    while requests:
        request = requests.popleft()
        answers = request.pending.result()
        pace(sum(len(answer.records) for answer in answers))
        chunks = []
        conclusive = not any(len(answer.records) for answer in answers)
        for reader, position, answer in zip(
            request.readers, request.positions, answers, strict=True
        ):
            answered.add(id(reader))
            if reader.is_open and reader.position == position:
                chunk = reader.accept(_complete(wire, answer), conclusive=conclusive)
                if chunk is not None:
                    chunks.append((reader, chunk))
        send()
        yield from chunks
        if not requests:
            send()  # a reader may have been moved back by skip_to


def _complete(wire: Wire, answer: FetchResult) -> FetchResult:
    """Add the log start offset to an out-of-range answer, which does not contain it."""
    error = answer.error
    if error is None or error.kind is not FetchErrorKind.OFFSET_OUT_OF_RANGE:
        return answer
    key = (answer.topic, answer.partition)
    return replace(answer, log_start=Admin(wire).offsets([key], OffsetSpec.EARLIEST)[key])


def _send(wire: Wire, readers: list[RangeFetch], requests: deque[_Request], most: int) -> None:
    """Keep ``PREFETCHED_REQUESTS`` in flight. Small ranges share a request, large ones do not."""
    busy = {id(r) for request in requests for r in request.readers}
    idle = deque(r for r in readers if r.is_open and id(r) not in busy)
    while idle and len(requests) < PREFETCHED_REQUESTS:
        chosen, weight = [], 0
        while idle and weight < REQUEST_BYTES:
            reader = idle.popleft()
            chosen.append(reader)
            weight += min(reader.est_bytes, SHARED_PARTITION_BYTES)
            if reader.est_bytes > REQUEST_BYTES:
                break
        share = most if len(chosen) == 1 else min(most, SHARED_PARTITION_BYTES)
        wanted = [r.wanted(share) for r in chosen]
        pending = wire.fetch(wanted, max_bytes=most, isolation=Isolation.READ_COMMITTED)
        requests.append(_Request(pending, chosen, [w.offset for w in wanted]))
