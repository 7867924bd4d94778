"""One pass over the archive dealt out to many target partitions. In tasks.

A lane holds what one target partition gets next. Batches that were sent stay in it until the broker
has them, so that after any trouble nothing is read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kafkeep.errors import PreflightError
from kafkeep.kafka.murmur2 import deal
from kafkeep.kafka.rewrite import TARGET_BYTES, Merger, ReadyBatch
from kafkeep.kafka.walk import Walked
from kafkeep.restore.read import MAX_BATCH_BYTES
from kafkeep.restore.shape import Shape
from kafkeep.restore.shape_merge import Block
from kafkeep.restore.steps import cut

QUEUED_BYTES = 16 << 20
"""Read on while less is waiting to be sent."""
LANES_BYTES = 64 << 20
_LEAST_BATCH_BYTES = 64 << 10

OnEdge = Callable[[ReadyBatch | None], None]


def blocks_of(rows: Iterator[tuple[Walked, int]], partition: int, shape: Shape) -> Iterator[Block]:
    """Give the records of an archived partition their ranks and their target partitions.

    Those without a key go around, beginning with the target of the partition's own number.
    """
    latest, turn = np.iinfo(np.int64).min, partition
    for records, codec in rows:
        ranks = np.maximum(np.maximum.accumulate(records.timestamps), latest)
        latest = int(ranks[-1])
        target = shape.target_of(partition)
        if shape.partition_count is not None:
            targets, turn = deal(records, shape.partition_count, turn)
        else:
            assert target is not None, "the map has every partition"
            targets = np.full(len(records), target, dtype=np.int64)
        yield Block(records, ranks, targets, codec)


class Lane:
    """What one target partition gets, behind the first ``written`` records.

    ``on_edge`` sees the last of these, before anything is sent; None if the archive has fewer.
    """

    def __init__(
        self, written: int, *, batch_bytes: int = TARGET_BYTES, on_edge: OnEdge | None = None
    ) -> None:
        self.confirmed = written
        """Records before those that are kept here."""
        self.ready: deque[ReadyBatch] = deque()
        self.queued_bytes = 0
        self.ended = False
        self._sent: deque[ReadyBatch] = deque()
        self._skip = written
        self._on_edge = on_edge if written else None
        self._merger = Merger(batch_bytes, MAX_BATCH_BYTES)

    def add(self, rows: Walked, codec: int) -> None:
        """Take records in, in order."""
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
        """Note that no more records come."""
        self._flush()
        self.ended = True
        if self._skip:
            if self._on_edge is not None:
                self._on_edge(None)
            raise PreflightError("a target partition holds more records than it is to get")

    def take(self) -> ReadyBatch:
        """Return the next batch, which is kept until it is confirmed."""
        batch = self.ready.popleft()
        self.queued_bytes -= len(batch.body)
        self._sent.append(batch)
        return batch

    def confirm(self, written: int) -> None:
        """Forget batches that are in the target."""
        while self._sent and self.confirmed + self._sent[0].records <= written:
            self.confirmed += self._sent.popleft().records

    def rewind(self, written: int) -> None:
        """Go on behind ``written`` records, whatever was sent."""
        self.confirm(written)
        self._flush()
        kept = [*self._sent, *self.ready]
        self._sent.clear()
        self.ready.clear()
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
        self.ready.append(batch)
        self.queued_bytes += len(batch.body)


class Router:
    """Deals blocks out to lanes; holds about ``QUEUED_BYTES``, and a batch for each lane."""

    def __init__(self, blocks: Iterator[Block], lanes: Mapping[int, Lane]) -> None:
        self._blocks = blocks
        self._lanes = lanes
        self._numbers = np.array(sorted(lanes), dtype=np.int64)
        self._ended = False

    def pump(self) -> bool:
        """Read on until enough is waiting; tell whether anything was read."""
        moved = False
        while not self._ended and self._queued() < QUEUED_BYTES:
            moved = True
            block = next(self._blocks, None)
            if block is None:
                self._ended = True
                for lane in self._lanes.values():
                    lane.finish()
            else:
                self._deal(block)
        return moved

    def _queued(self) -> int:
        return sum(lane.queued_bytes for lane in self._lanes.values())

    def _deal(self, block: Block) -> None:
        order = np.argsort(block.targets, kind="stable")
        dealt = block.targets[order]
        starts = np.searchsorted(dealt, self._numbers, side="left")
        ends = np.searchsorted(dealt, self._numbers, side="right")
        for i in np.flatnonzero(ends > starts).tolist():
            rows = block.rows.select(order[starts[i] : ends[i]])
            self._lanes[int(self._numbers[i])].add(rows, block.codec)


def batch_bytes_for(lanes: int) -> int:
    """Return how large batches may get, so that those in the making fit in memory together."""
    return max(_LEAST_BATCH_BYTES, min(TARGET_BYTES, LANES_BYTES // max(1, lanes)))


def _batch_of(rows: Walked) -> ReadyBatch:
    merger = Merger(_LEAST_BATCH_BYTES, MAX_BATCH_BYTES)
    [batch] = [*merger.add(rows), *merger.flush()]
    return batch
