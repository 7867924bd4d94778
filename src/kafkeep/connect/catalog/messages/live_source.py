"""Records of a topic in Kafka, read with a few bounded Fetch requests. Committed records only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.messages.message import MessageChunk
from kafkeep.connect.model import RestError
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import OffsetSpec
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.kafka.batch.scan import check_crcs, scan_batches
from kafkeep.kafka.batch.transactions import drop_aborted
from kafkeep.kafka.client.metadata import TopicDescription
from kafkeep.kafka.client.wire import FetchErrorKind, FetchPosition, FetchResult, Isolation
from kafkeep.records.arrow import view_numbers

REQUEST_BYTES = 4 << 20
_LEAST_BYTES = 32 << 10
_PARTITION_BYTES = 1 << 20
_WAIT_MS = 100
_DEADLINE_MS = 5_000
_PIECE_BYTES = 1 << 20
_BATCH_LIMIT_BYTES = 256 << 20
"""A batch that decompresses to more is not shown."""


class LiveSource:
    """Reads up to the last stable offset that each partition had when this was made."""

    def __init__(
        self, cluster: LiveCluster, topic: TopicDescription, partition: int | None = None
    ) -> None:
        self._cluster = cluster
        self._described = topic
        self._starved: list[int] = []
        """Partitions whose answer was empty or cut, because others took the bytes."""
        numbers = sorted(topic.partitions) if partition is None else [partition]
        if partition is not None and partition not in topic.partitions:
            raise RestError(404, f"Topic {topic.name} has no partition {partition}")
        keys = [(topic.name, number) for number in numbers]
        starts, ends = cluster.admin().offset_bounds(keys, OffsetSpec.LAST_STABLE)
        self._ranges = {
            key[1]: OffsetRange(starts[key], max(starts[key], ends[key])) for key in keys
        }

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._described.name

    @property
    def ranges(self) -> Mapping[int, OffsetRange]:
        """The positions that can be read."""
        return self._ranges

    def at_time(self, time_ms: int) -> Mapping[int, int]:
        """Return the first position at or after a time; the end where all records are older."""
        times = {(self.topic, number): time_ms for number in self._ranges}
        found = self._cluster.admin().offsets_for_times(times)
        return {
            number: self._ranges[number].end if at is None else at
            for (_, number), at in found.items()
        }

    def read(self, wanted: Mapping[int, OffsetRange]) -> Iterator[MessageChunk]:
        """Send one request to each leader; yield what it brought."""
        # A leader sends at least one whole batch of the first partition, however large it is.
        starved = [number for number in self._starved if number in wanted]
        order = [*starved, *(number for number in wanted if number not in starved)]
        share = max(_LEAST_BYTES, min(_PARTITION_BYTES, REQUEST_BYTES // len(order)))
        asked = [
            FetchPosition(
                topic=self.topic,
                topic_id=self._described.topic_id,
                partition=number,
                offset=wanted[number].start,
                max_bytes=share,
            )
            for number in order
        ]
        pending = self._cluster.wire().fetch(
            asked,
            max_bytes=REQUEST_BYTES,
            isolation=Isolation.READ_COMMITTED,
            wait_ms=_WAIT_MS,
            deadline_ms=_DEADLINE_MS,
        )
        answers = pending.result()
        conclusive = not any(len(answer.records) for answer in answers)
        for answer in answers:
            yield from self._chunks(
                answer, wanted[answer.partition], conclusive, is_first=answer.partition == order[0]
            )

    def _chunks(
        self, answer: FetchResult, wanted: OffsetRange, conclusive: bool, *, is_first: bool
    ) -> Iterator[MessageChunk]:
        number = answer.partition
        if answer.error is not None:
            yield self._after_error(answer, wanted)
            return
        batches = scan_batches(answer.records)
        check_crcs(batches)
        if not len(batches):
            if conclusive:
                yield MessageChunk(number, wanted.end)
            elif is_first and len(answer.records):
                raise KafkeepError(
                    f"{self.topic}-{number}: the batch at offset {wanted.start} is larger than the "
                    f"{len(answer.records)} bytes that Kafka sent"
                )
            elif number not in self._starved:
                self._starved.append(number)
            return
        if number in self._starved:
            self._starved.remove(number)
        keep = drop_aborted(batches, answer.aborted).keep & (batches.record_counts > 0)
        end = min(wanted.end, int(batches.last_offsets[-1]) + 1)
        for records in iter_decode(
            batches.select(keep),
            wanted,
            max_bytes=_PIECE_BYTES,
            limit_bytes=_BATCH_LIMIT_BYTES,
        ):
            positions = view_numbers(records.column("offset"), np.int64)
            yield MessageChunk(number, int(positions[-1]) + 1, records, positions)
        yield MessageChunk(number, end)

    def _after_error(self, answer: FetchResult, wanted: OffsetRange) -> MessageChunk:
        """Skip what retention has deleted meanwhile."""
        error = answer.error
        assert error is not None
        if error.kind is FetchErrorKind.TOPIC_GONE:
            raise RestError(
                409, f"Topic {self.topic} was deleted or created again; reload the page"
            )
        if error.kind is not FetchErrorKind.OFFSET_OUT_OF_RANGE:
            raise error.exception()
        key = self.topic, answer.partition
        start = self._cluster.admin().offsets([key], OffsetSpec.EARLIEST)[key]
        return MessageChunk(answer.partition, min(wanted.end, max(start, wanted.start + 1)))
