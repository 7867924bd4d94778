"""Produce: one record batch per partition, several partitions per request, acks from all replicas.

A request is sent in slices, without copying its record batches. kafka-python would write it into
one buffer and copy that once more. For large batches both copies took an eighth of the CPU time of
a restore.
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol import producer

from kafkeep.errors import TransientError, UnknownOutcomeError
from kafkeep.kafka.client.connection import Link, first_error
from kafkeep.kafka.client.errors import (
    DENIED,
    STALE_METADATA,
    UNKNOWN_TOPIC_ID,
    error_name,
    refusal,
)
from kafkeep.kafka.client.large_requests import encode_length
from kafkeep.kafka.client.metadata import (
    FRESH_SECONDS,
    Metadata,
    TopicDescription,
    format_topic_id,
    parse_topic_id,
)
from kafkeep.kafka.client.transport import RequestSlices
from kafkeep.retry import KAFKA

FIRST_WITH_IDS = 13
"""From this version on topics are named by their ids."""
_FIRST_FLEXIBLE = 9
_NO_TAGS = b"\x00"
_NO_TRANSACTION = b"\x00"


class ProduceRequest(producer.ProduceRequest):  # type: ignore[misc]
    """kafka-python's request. kafka-python finds its schema by the name of the class."""

    def encode(
        self, version: int | None = None, header: bool = False, framed: bool = False
    ) -> bytearray | RequestSlices:
        """Return the encoded request; the batches must not change until it is answered."""
        if not (header and framed) or self.API_VERSION < _FIRST_FLEXIBLE:
            encoded: bytearray = super().encode(version, header, framed)
            return encoded
        pieces = self._pieces(self.encode_header(flexible=True))
        pieces[0] = struct.pack(">i", sum(map(len, pieces))) + pieces[0]
        return pieces

    def _pieces(self, header: bytes) -> RequestSlices:
        pieces, between = RequestSlices(), bytearray(header + _NO_TRANSACTION)
        between += struct.pack(">hi", self.acks, self.timeout_ms) + _count(self.topic_data)
        for topic in self.topic_data:
            between += self._name(topic) + _count(topic.partition_data)
            for partition in topic.partition_data:
                between += struct.pack(">i", partition.index) + _count(partition.records)
                pieces += [between, partition.records]
                between = bytearray(_NO_TAGS)
            between += _NO_TAGS
        pieces.append(between + _NO_TAGS)
        return pieces

    def _name(self, topic: Any) -> bytes:
        if self.API_VERSION >= FIRST_WITH_IDS:
            id: bytes = topic.topic_id.bytes
            return id
        name: bytes = topic.name.encode()
        return _count(name) + name


def _count(items: Any) -> bytes:
    return encode_length(len(items))


_ACKS_FROM_ALL = -1
_FRESH_BY_NAME_SECONDS = 2.0
_SPARE_MS = 5000

Batch = bytes | bytearray | memoryview
TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """One partition's answer: ``base_offset`` when ``error_code`` is 0, else Kafka's code."""

    error_code: int
    base_offset: int
    message: str | None = None

    @property
    def error_name(self) -> str:
        """Kafka's name for the error code."""
        return error_name(self.error_code)


class Produce:
    """One call of ``Wire.produce``: find the leaders, send once, return their answers."""

    def __init__(
        self,
        link: Link,
        metadata: Metadata,
        batches: Mapping[TopicPartition, Batch],
        topic_ids: Mapping[str, str],
        *,
        timeout_ms: int,
    ) -> None:
        self._link = link
        self._metadata = metadata
        self._batches = batches
        self._topic_ids = topic_ids
        self._timeout_ms = timeout_ms
        self._deadline = time.monotonic() + timeout_ms / 1000
        self._answers: dict[TopicPartition, ProduceResult] = {}

    async def run(self) -> dict[TopicPartition, ProduceResult]:
        """Return the answer of each partition; UnknownOutcomeError when a request got none."""
        await self._link.connect()
        topics, by_leader = await self._leaders()
        if by_leader:
            calls = [
                partial(self._to_leader, leader, partitions, topics)
                for leader, partitions in by_leader.items()
            ]
            outcomes = await self._link.gather(calls)
            self._raise_worst(outcomes)
        return self._answers

    def _raise_worst(self, outcomes: list[Any]) -> None:
        unknown = [o for o in outcomes if isinstance(o, UnknownOutcomeError)]
        error = unknown[0] if unknown else first_error(outcomes)
        if error is None:
            return
        if self._answers and isinstance(error, TransientError):
            raise UnknownOutcomeError(error.message, hint=error.hint) from error
        raise error

    async def _leaders(self) -> tuple[dict[str, TopicDescription], dict[int, list[TopicPartition]]]:
        retries = KAFKA.begin(self._deadline)
        names = {topic for topic, _ in self._batches}
        while True:
            topics = await self._described(names)
            grouped: dict[int, list[TopicPartition]] = defaultdict(list)
            leaderless: list[TopicPartition] = []
            for topic, partition in self._batches:
                self._check(topic, topics.get(topic))
                described = topics[topic].partitions.get(partition) if topic in topics else None
                if described is None or described.leader is None:
                    leaderless.append((topic, partition))
                else:
                    grouped[described.leader].append((topic, partition))
            if not leaderless:
                return topics, grouped
            wait_s = retries.next_wait_s()
            if wait_s is None:
                topic, partition = leaderless[0]
                raise TransientError(f"{topic}-{partition} has no leader")
            self._metadata.stale({topic for topic, _ in leaderless})
            await self._link.net.sleep(wait_s)

    async def _described(self, names: set[str]) -> dict[str, TopicDescription]:
        topics = await self._metadata.topics(
            names, deadline=self._deadline, fresh_s=self._fresh_s()
        )
        others = [name for name, topic in topics.items() if self._is_other(name, topic)]
        if not others:
            return topics
        # A long-lived client may have cached a deleted topic instead of the current one.
        self._metadata.stale(others)
        return await self._metadata.topics(names, deadline=self._deadline)

    def _fresh_s(self) -> float:
        """Return how old an answer about topics may be.

        Brokers before 4.1 take names only. A topic that was re-created must be noticed here.
        """
        by_name = self._version() < FIRST_WITH_IDS
        return _FRESH_BY_NAME_SECONDS if by_name and self._topic_ids else FRESH_SECONDS

    def _version(self) -> int:
        version: int = self._link.connections.broker_version_data.api_version(ProduceRequest)
        return version

    def _is_other(self, name: str, topic: TopicDescription) -> bool:
        wanted = self._topic_ids.get(name)
        return bool(wanted and topic.topic_id and wanted != topic.topic_id)

    def _check(self, name: str, topic: TopicDescription | None) -> None:
        if topic is None:
            return
        if topic.error_code in DENIED:
            raise refusal(topic.error_code, f"topic {name}")
        if self._is_other(name, topic):
            raise refusal(UNKNOWN_TOPIC_ID, f"topic {name} (it was re-created)")

    async def _to_leader(
        self, leader: int, partitions: list[TopicPartition], topics: dict[str, TopicDescription]
    ) -> None:
        request, names = self._request(partitions, topics)
        try:
            answer = await self._link.send(
                request,
                leader,
                deadline=self._deadline,
                timeout_ms=self._timeout_ms + _SPARE_MS,
            )
        except TransientError:
            self._metadata.stale({topic for topic, _ in partitions})
            raise
        for topic in answer.responses:
            name = names[format_topic_id(topic.topic_id)] if names else topic.name
            for part in topic.partition_responses:
                if part.error_code in STALE_METADATA:
                    self._metadata.stale([name])
                self._answers[name, part.index] = ProduceResult(
                    part.error_code, part.base_offset, part.error_message
                )

    def _request(
        self, partitions: list[TopicPartition], topics: dict[str, TopicDescription]
    ) -> tuple[Any, dict[str, str]]:
        """Return the request and, if it names topics by id, the names of these ids."""
        version = self._version()
        by_id = version >= FIRST_WITH_IDS and all(topics[topic].topic_id for topic, _ in partitions)
        version = version if by_id else min(version, FIRST_WITH_IDS - 1)
        grouped: dict[str, list[Any]] = defaultdict(list)
        for topic, partition in partitions:
            grouped[topic].append(
                ProduceRequest.TopicProduceData.PartitionProduceData(
                    version=version, index=partition, records=self._batches[topic, partition]
                )
            )
        data = [
            ProduceRequest.TopicProduceData(
                version=version,
                name=name,
                topic_id=parse_topic_id(topics[name].topic_id) if by_id else None,
                partition_data=batches,
            )
            for name, batches in grouped.items()
        ]
        request = ProduceRequest(
            version=version,
            transactional_id=None,
            acks=_ACKS_FROM_ALL,
            timeout_ms=self._timeout_ms,
            topic_data=data,
        )
        return request, {topics[name].topic_id: name for name in grouped} if by_id else {}
