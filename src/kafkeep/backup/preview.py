"""Check records that wait for a rotation rule, to report bad ones at once. On the driver.

A sink reads records when they may close a file. Until then they stay in Kafka unread, and a record
that cannot be stored would be found hours late. The preview reads each of them once as it comes,
converts, transforms and places it as a task does, and drops it. It writes nothing and moves no
position.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.names import KeyLimits
from kafkeep.backup.cluster_snapshot import ClusterSnapshot
from kafkeep.backup.fetch import RangeFetch
from kafkeep.backup.plan import CyclePlan
from kafkeep.errors import TransientError
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.kafka.batch.format import Batches, scan_batches
from kafkeep.kafka.client.wire import Fetched, Wire
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.sink.naming import NameCheck
from kafkeep.options.sink.sink import SinkOptions

if TYPE_CHECKING:
    from kafkeep.objects.sink.pipeline import BadRecord, Pipeline

READ_BYTES = 1 << 20
"""Read at a time. Where more comes, files fill up soon, and tasks read them."""
logger = logging.getLogger(__name__)


class Preview:
    """The preview of one connector. Only for sinks that a bad record must stop."""

    def __init__(
        self, wire: Wire, sink: SinkOptions, limits: KeyLimits, now_ms: Callable[[], int]
    ) -> None:
        """Open it for a sink into a store with these ``limits``."""
        self._wire = wire
        self._sink = sink
        self._limits = limits
        self._now_ms = now_ms
        self._seen: dict[PartitionId, int] = {}
        self._turn = 0
        self._pipeline: Pipeline | None = None

    def check(
        self,
        snapshot: ClusterSnapshot,
        plan: CyclePlan,
        positions: Mapping[PartitionId, int],
        tails: Mapping[PartitionId, SinkTail],
    ) -> None:
        """Read what waits and was not read yet; RecordError names the first bad record.

        Does nothing in a cycle whose tasks read records. Transient faults are left to the tasks.
        """
        if plan.stretches:
            return
        begins = {**positions, **plan.positions}
        readers = [
            reader
            for pid in plan.waiting
            if (reader := self._reader(snapshot, pid, begins[pid], tails.get(pid))) is not None
        ]
        try:
            for reader, answer in self._fetched(readers):
                self._take(reader, answer)
        except TransientError as error:
            logger.debug("waiting records cannot be checked now: %s", error.message)

    def _reader(
        self, snapshot: ClusterSnapshot, pid: PartitionId, begin: int, tail: SinkTail | None
    ) -> RangeFetch | None:
        topic = snapshot.topics[pid.topic]
        begin = max(begin, self._seen.get(pid, 0), tail.read_to if tail else 0)
        end = topic.partitions[pid.partition].stable
        if begin >= end:
            return None
        wanted = OffsetRange(begin, end)
        planned = PlannedRange(partition_id=pid, topic_id=topic.topic_id, range=wanted)
        return RangeFetch(planned, begins_stretch=True, est_bytes=0, keeps_aborted=False)

    def _fetched(self, readers: list[RangeFetch]) -> list[tuple[RangeFetch, Fetched]]:
        if not readers:
            return []
        # Kafka returns a batch of any size for the first of them, and what fits for the others.
        self._turn = (self._turn + 1) % len(readers)
        readers = readers[self._turn :] + readers[: self._turn]
        share = max(READ_BYTES // len(readers), 1 << 14)
        wanted = [reader.wanted(share) for reader in readers]
        answers = self._wire.fetch(wanted, max_bytes=READ_BYTES, wait_ms=0).result()
        return list(zip(readers, answers, strict=True))

    def _take(self, reader: RangeFetch, answer: Fetched) -> None:
        if answer.error is not None or not len(scan_batches(answer.records)):
            return
        begin = reader.position
        chunk = reader.accept(answer, conclusive=False)
        if chunk is not None and chunk.batches is not None:
            self._try(reader.planned.partition_id, chunk.batches, OffsetRange(begin, chunk.end))
        self._seen[reader.planned.partition_id] = reader.position

    def _try(self, pid: PartitionId, batches: Batches, wanted: OffsetRange) -> None:
        def on_bad(bad: BadRecord) -> None:
            raise bad.error_in(pid)

        pipeline = self._opened()
        for raw in iter_decode(batches, wanted):
            for _ in pipeline.run(raw, pid, at_ms=self._now_ms(), on_bad=on_bad):
                pass

    def _opened(self) -> Pipeline:
        # Converters take a second to import; a sink without records does not need them.
        from kafkeep.objects.sink.open_file import Views  # noqa: PLC0415
        from kafkeep.objects.sink.pipeline import Pipeline  # noqa: PLC0415

        if self._pipeline is None:
            longest = Views(self._sink).longest_extension
            names = NameCheck(self._sink.naming, self._limits, longest)
            self._pipeline = Pipeline(self._sink, names)
        return self._pipeline
