"""Check records that wait for a rotation rule, to report bad records early. Runs on the driver.

A sink reads records only when they may close a file. Until then they stay in Kafka, and a bad
record would be found hours late. The preview reads each waiting record once, converts, transforms
and places it as a task does, and discards the result. It writes nothing and moves no position.
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
from kafkeep.kafka.batch.scan import Batches, scan_batches
from kafkeep.kafka.client.wire import FetchResult, Wire
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.sink.naming import NameCheck
from kafkeep.options.sink.sink import SinkOptions

if TYPE_CHECKING:
    from kafkeep.objects.sink.pipeline import BadRecord, Pipeline

READ_BYTES = 1 << 20
"""Bytes to read at a time. If more records arrive, files fill up soon and tasks read them."""
logger = logging.getLogger(__name__)


class Preview:
    """The preview of one connector. Only for sinks with ``errors.tolerance=none``."""

    def __init__(
        self, wire: Wire, sink: SinkOptions, limits: KeyLimits, now_ms: Callable[[], int]
    ) -> None:
        self._wire = wire
        self._sink = sink
        self._limits = limits
        self._now_ms = now_ms
        self._checked_to: dict[PartitionId, int] = {}
        self._first_reader = 0
        self._pipeline: Pipeline | None = None

    def check(
        self,
        snapshot: ClusterSnapshot,
        plan: CyclePlan,
        positions: Mapping[PartitionId, int],
        tails: Mapping[PartitionId, SinkTail],
    ) -> None:
        """Read waiting records that were not checked yet; raise RecordError at the first bad one.

        Does nothing in a cycle whose tasks read records. Transient errors are ignored.
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
                self._check_answer(reader, answer)
        except TransientError as error:
            logger.debug("cannot check waiting records now: %s", error.message)

    def _reader(
        self, snapshot: ClusterSnapshot, pid: PartitionId, begin: int, tail: SinkTail | None
    ) -> RangeFetch | None:
        topic = snapshot.topics[pid.topic]
        begin = max(begin, self._checked_to.get(pid, 0), tail.read_to if tail else 0)
        end = topic.partitions[pid.partition].stable
        if begin >= end:
            return None
        wanted = OffsetRange(begin, end)
        planned = PlannedRange(partition_id=pid, topic_id=topic.topic_id, range=wanted)
        return RangeFetch(planned, begins_stretch=True, est_bytes=0, keeps_aborted=False)

    def _fetched(self, readers: list[RangeFetch]) -> list[tuple[RangeFetch, FetchResult]]:
        if not readers:
            return []
        # Kafka returns a batch of any size for the first partition only. So each reader is the
        # first one in turn.
        self._first_reader = (self._first_reader + 1) % len(readers)
        readers = readers[self._first_reader :] + readers[: self._first_reader]
        share = max(READ_BYTES // len(readers), 1 << 14)
        wanted = [reader.wanted(share) for reader in readers]
        answers = self._wire.fetch(wanted, max_bytes=READ_BYTES, wait_ms=0).result()
        return list(zip(readers, answers, strict=True))

    def _check_answer(self, reader: RangeFetch, answer: FetchResult) -> None:
        if answer.error is not None or not len(scan_batches(answer.records)):
            return
        begin = reader.position
        chunk = reader.accept(answer, conclusive=False)
        if chunk is not None and chunk.batches is not None:
            checked = OffsetRange(begin, chunk.end)
            self._check_batches(reader.planned.partition_id, chunk.batches, checked)
        self._checked_to[reader.planned.partition_id] = reader.position

    def _check_batches(self, pid: PartitionId, batches: Batches, wanted: OffsetRange) -> None:
        def on_bad(bad: BadRecord) -> None:
            raise bad.error_in(pid)

        pipeline = self._opened()
        for raw in iter_decode(batches, wanted):
            for _ in pipeline.run(raw, pid, at_ms=self._now_ms(), on_bad=on_bad):
                pass

    def _opened(self) -> Pipeline:
        # Converters take a second to import; a sink without records does not need them.
        from kafkeep.objects.sink.open_file import ViewFormats  # noqa: PLC0415
        from kafkeep.objects.sink.pipeline import Pipeline  # noqa: PLC0415

        if self._pipeline is None:
            longest = ViewFormats(self._sink).longest_extension
            names = NameCheck(self._sink.naming, self._limits, longest)
            self._pipeline = Pipeline(self._sink, names)
        return self._pipeline
