"""Questions to partition leaders: first and last offsets, offsets by time, records to delete."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from kafkeep.kafka.client.fetch import Isolation
from kafkeep.kafka.client.metadata import TopicDescription
from kafkeep.kafka.client.requests import LeaderAnswers, Routes, TopicPartition

_CONSUMER = -1
_LATEST = -1
_EARLIEST = -2
_DELETE_TIMEOUT_MS = 30_000


class OffsetSpec(enum.Enum):
    """Which end of a partition is asked for."""

    EARLIEST = "earliest"
    LATEST = "latest"
    LAST_STABLE = "last stable"


class EpochEnd(NamedTuple):
    """Where a leader epoch ended; ``end_offset`` is -1 when the leader does not know it."""

    leader_epoch: int
    end_offset: int


class OffsetRequests:
    """Coroutines that ask leaders; see ``Admin`` for what each promises."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def ends(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        """Return the asked end of each partition."""
        timestamp = _EARLIEST if spec is OffsetSpec.EARLIEST else _LATEST
        isolation = (
            Isolation.READ_COMMITTED
            if spec is OffsetSpec.LAST_STABLE
            else Isolation.READ_UNCOMMITTED
        )
        return await self.at(dict.fromkeys(partitions, timestamp), isolation)

    async def at(
        self, times: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, int]:
        """Return the first offset at or after each time, -1 where there is none."""

        async def ask(
            node: int,
            asked: list[TopicPartition],
            topics: Mapping[str, TopicDescription],
            deadline: float,
        ) -> LeaderAnswers[int]:
            kind = ListOffsetsRequest.ListOffsetsTopic
            wanted = _by_topic(
                asked,
                lambda topic, index: kind.ListOffsetsPartition(
                    partition_index=index,
                    current_leader_epoch=topics[topic].partitions[index].leader_epoch,
                    timestamp=times[topic, index],
                ),
            )
            request = ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=int(isolation),
                topics=[kind(name=name, partitions=parts) for name, parts in wanted.items()],
                timeout_ms=self._routes.link.request_timeout_ms,
                min_version=1,
            )
            answer = await self._routes.link.send(request, node, deadline=deadline)
            return {
                (topic.name, part.partition_index): (part.error_code, part.offset)
                for topic in answer.topics
                for part in topic.partitions
            }

        return await self._routes.leaders(list(times), ask)

    async def delete_before(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Move each log start up to the offset given; return the log starts."""

        async def ask(
            node: int,
            asked: list[TopicPartition],
            topics: Mapping[str, TopicDescription],
            deadline: float,
        ) -> LeaderAnswers[int]:
            kind = DeleteRecordsRequest.DeleteRecordsTopic
            wanted = _by_topic(
                asked,
                lambda topic, index: kind.DeleteRecordsPartition(
                    partition_index=index, offset=offsets[topic, index]
                ),
            )
            request = DeleteRecordsRequest(
                topics=[kind(name=name, partitions=parts) for name, parts in wanted.items()],
                timeout_ms=_DELETE_TIMEOUT_MS,
            )
            answer = await self._routes.link.send(request, node, deadline=deadline)
            return {
                (topic.name, part.partition_index): (part.error_code, part.low_watermark)
                for topic in answer.topics
                for part in topic.partitions
            }

        return await self._routes.leaders(list(offsets), ask)

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd]:
        """Return where each leader epoch ended in the leader's log."""

        async def ask(
            node: int,
            asked: list[TopicPartition],
            topics: Mapping[str, TopicDescription],
            deadline: float,
        ) -> LeaderAnswers[EpochEnd]:
            kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
            wanted = _by_topic(
                asked,
                lambda topic, index: kind.OffsetForLeaderPartition(
                    partition=index,
                    current_leader_epoch=topics[topic].partitions[index].leader_epoch,
                    leader_epoch=epochs[topic, index],
                ),
            )
            request = OffsetForLeaderEpochRequest(
                replica_id=_CONSUMER,
                topics=[kind(topic=name, partitions=parts) for name, parts in wanted.items()],
                min_version=2,
            )
            answer = await self._routes.link.send(request, node, deadline=deadline)
            return {
                (topic.topic, part.partition): (
                    part.error_code,
                    EpochEnd(part.leader_epoch, part.end_offset),
                )
                for topic in answer.topics
                for part in topic.partitions
            }

        return await self._routes.leaders(list(epochs), ask)


def _by_topic(asked: list[TopicPartition], make: Any) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = defaultdict(list)
    for topic, index in asked:
        grouped[topic].append(make(topic, index))
    return grouped
