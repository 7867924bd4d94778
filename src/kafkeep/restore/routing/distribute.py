"""Distribute one pass over the archive to many target partitions. In tasks.

Records of several archived partitions are merged by time. A record's rank is the latest time up to
it in its partition: each partition keeps its order, and of equal ranks the lower partition comes
first. The order follows from the records alone, not from how they are cut into blocks.

A lane holds the next records of one target partition. It keeps batches until the broker has stored
them, so nothing is read again after a failure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kafkeep.errors import PreflightError
from kafkeep.kafka.batch.partitioner import deal
from kafkeep.kafka.batch.rewrite import TARGET_BYTES, BatchMerger, ReadyBatch
from kafkeep.kafka.batch.unpack import RecordFields
from kafkeep.numba_setup import Int64s, view_bytes
from kafkeep.restore.exact.plan import cut
from kafkeep.restore.read import MAX_BATCH_BYTES
from kafkeep.restore.routing.routing import Routing


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some records in order, with their ranks and the target partition of each."""

    rows: RecordFields
    ranks: Int64s
    targets: Int64s
    codec: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: slice) -> Block:
        """Return a slice of the records."""
        return Block(self.rows.select(which), self.ranks[which], self.targets[which], self.codec)


def merge(sources: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Yield the records of all sources in one order; holds one block of each."""
    current: list[Block | None] = [None] * len(sources)
    left = set(range(len(sources)))
    while True:
        for number in sorted(left):
            if current[number] is None:
                current[number] = next(sources[number], None)
                if current[number] is None:
                    left.discard(number)
        if not left:
            return
        yield _join([part for part in _take(current, left) if len(part)])


def _take(current: list[Block | None], left: set[int]) -> list[Block]:
    """Take the records that precede everything not yet read: at least one whole block."""
    loaded = {number: block for number in left if (block := current[number]) is not None}
    bound, last = min((int(block.ranks[-1]), number) for number, block in loaded.items())
    taken = []
    for number, block in sorted(loaded.items()):
        side = "right" if number <= last else "left"
        count = int(np.searchsorted(block.ranks, bound, side=side))  # type: ignore[call-overload]
        taken.append(block.part(slice(0, count)))
        current[number] = block.part(slice(count, None)) if count < len(block) else None
    return taken


def _join(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([part.ranks for part in parts]), kind="stable")
    fields, buffers, base = [], [], 0
    for part in parts:
        start, end = int(part.rows.fields[0]), int(part.rows.ends[-1])
        buffers.append(part.rows.buffer[start:end])
        fields.append((part.rows.fields + (base - start), part.rows.ends + (base - start)))
        base += end - start

    def joined(columns: list[Int64s]) -> Int64s:
        found: Int64s = np.concatenate(columns)[order]
        return found

    rows = RecordFields(
        view_bytes(np.concatenate(buffers)),
        joined([part.rows.offsets for part in parts]),
        joined([part.rows.timestamps for part in parts]),
        joined([part.rows.timestamp_types for part in parts]),
        joined([starts for starts, _ in fields]),
        joined([ends for _, ends in fields]),
        parts[0].rows.totals,
    )
    codec = max(part.codec for part in parts)
    return Block(
        rows,
        joined([part.ranks for part in parts]),
        joined([part.targets for part in parts]),
        codec,
    )


QUEUED_BYTES = 16 << 20
"""Reading pauses when this much is queued."""
LANES_BYTES = 64 << 20
_LEAST_BATCH_BYTES = 64 << 10

OnEdge = Callable[[ReadyBatch | None], None]


def blocks_of(
    rows: Iterator[tuple[RecordFields, int]], partition: int, routing: Routing
) -> Iterator[Block]:
    """Assign ranks and target partitions to the records of an archived partition.

    Records without a key go to the targets in turn, starting with the partition's own number.
    """
    latest, turn = np.iinfo(np.int64).min, partition
    for records, codec in rows:
        ranks = np.maximum(np.maximum.accumulate(records.timestamps), latest)
        latest = int(ranks[-1])
        target = routing.target_of(partition)
        if routing.partition_count is not None:
            targets, turn = deal(records, routing.partition_count, turn)
        else:
            assert target is not None, "the map has every partition"
            targets = np.full(len(records), target, dtype=np.int64)
        yield Block(records, ranks, targets, codec)


class Lane:
    """The records of one target partition after the first ``written`` ones.

    ``on_edge`` is called with the last of these before anything is sent; None if there are fewer.
    """

    def __init__(
        self, written: int, *, batch_bytes: int = TARGET_BYTES, on_edge: OnEdge | None = None
    ) -> None:
        self.confirmed = written
        """The number of records before the kept ones."""
        self.queue: deque[ReadyBatch] = deque()
        self.queued_bytes = 0
        self.ended = False
        self._sent: deque[ReadyBatch] = deque()
        self._skip = written
        self._on_edge = on_edge if written else None
        self._merger = BatchMerger(batch_bytes, MAX_BATCH_BYTES)

    def add(self, rows: RecordFields, codec: int) -> None:
        """Add records, in order."""
        if self._skip:
            skipped = min(self._skip, len(rows))
            if skipped == self._skip and self._on_edge is not None:
                self._on_edge(_batch_of(rows.select(slice(skipped - 1, skipped))))
                self._on_edge = None
            self._skip -= skipped
            rows = rows.select(slice(skipped, None))
        if codec != self._merger.codec and not self._merger.waits:
            self._merger.start(codec)
        for batch in self._merger.add(rows):
            self._queue(batch)

    def finish(self) -> None:
        """End the lane: no more records follow."""
        self._flush()
        self.ended = True
        if self._skip:
            if self._on_edge is not None:
                self._on_edge(None)
            raise PreflightError("a target partition holds more records than the restore writes")

    def take(self) -> ReadyBatch:
        """Return the next batch, which is kept until it is confirmed."""
        batch = self.queue.popleft()
        self.queued_bytes -= len(batch.body)
        self._sent.append(batch)
        return batch

    def confirm(self, written: int) -> None:
        """Drop batches that the target has stored."""
        while self._sent and self.confirmed + self._sent[0].records <= written:
            self.confirmed += self._sent.popleft().records

    def rewind(self, written: int) -> None:
        """Continue after ``written`` records, whatever was sent."""
        self.confirm(written)
        self._flush()
        kept = [*self._sent, *self.queue]
        self._sent.clear()
        self.queue.clear()
        self.queued_bytes = 0
        for batch in kept:
            skip = min(written - self.confirmed, batch.records)
            self.confirmed += skip
            parts = cut(batch, skip, batch.records) if skip else (batch,)
            for part in parts if skip < batch.records else ():
                self._queue(part)
        self._skip += written - self.confirmed
        self.confirmed = written

    def _flush(self) -> None:
        for batch in self._merger.flush():
            self._queue(batch)

    def _queue(self, batch: ReadyBatch) -> None:
        self.queue.append(batch)
        self.queued_bytes += len(batch.body)


class Router:
    """Distributes blocks to lanes; holds about ``QUEUED_BYTES``, and a batch for each lane."""

    def __init__(self, blocks: Iterator[Block], lanes: Mapping[int, Lane]) -> None:
        self._blocks = blocks
        self._lanes = lanes
        self._numbers = np.array(sorted(lanes), dtype=np.int64)
        self._ended = False

    def pump(self) -> bool:
        """Read until enough is queued; return whether anything was read."""
        moved = False
        while not self._ended and self._queued() < QUEUED_BYTES:
            moved = True
            block = next(self._blocks, None)
            if block is None:
                self._ended = True
                for lane in self._lanes.values():
                    lane.finish()
            else:
                self._distribute(block)
        return moved

    def _queued(self) -> int:
        return sum(lane.queued_bytes for lane in self._lanes.values())

    def _distribute(self, block: Block) -> None:
        order = np.argsort(block.targets, kind="stable")
        sorted_targets = block.targets[order]
        starts = np.searchsorted(sorted_targets, self._numbers, side="left")
        ends = np.searchsorted(sorted_targets, self._numbers, side="right")
        for i in np.flatnonzero(ends > starts).tolist():
            rows = block.rows.select(order[starts[i] : ends[i]])
            self._lanes[int(self._numbers[i])].add(rows, block.codec)


def batch_bytes_for(lanes: int) -> int:
    """Return the maximum batch size at which all open batches fit into memory."""
    return max(_LEAST_BATCH_BYTES, min(TARGET_BYTES, LANES_BYTES // max(1, lanes)))


def _batch_of(rows: RecordFields) -> ReadyBatch:
    merger = BatchMerger(_LEAST_BATCH_BYTES, MAX_BATCH_BYTES)
    [batch] = [*merger.add(rows), *merger.flush()]
    return batch
