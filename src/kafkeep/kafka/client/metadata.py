"""Cached metadata of a cluster, and the routing of requests.

Metadata holds the leader of each partition and the id of each topic. A request goes to any broker,
to the controller, or to the leader of each partition. Every route retries retriable errors, such as
a moved leader, until the deadline.
"""

from __future__ import annotations

import base64
import binascii
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from kafka.protocol.metadata import MetadataRequest

from kafkeep.errors import KafkeepError, PreflightError, TransientError, UsageError
from kafkeep.kafka.client import large_answers  # noqa: F401 - it decodes the answers
from kafkeep.kafka.client.connection import Link
from kafkeep.kafka.client.errors import (
    DENIED,
    RETRIABLE,
    STALE_METADATA,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    is_final,
    refusal,
)
from kafkeep.retry import KAFKA

TopicPartition = tuple[str, int]
Codes = Callable[[Any], Collection[int]]
Value = TypeVar("Value")
_ONE_BROKER_SECONDS = 3.0
_UNKNOWN_GRACE_SECONDS = 3.0
"""How long a topic may be unknown, because brokers learn of a new topic with a delay."""
FRESH_SECONDS = 300.0
_NO_LEADERS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class LeaderAnswers(Generic[Value]):
    """One leader's answer: a value for each partition, and the error codes that are not 0."""

    values: Mapping[TopicPartition, Value]
    errors: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; ``leader`` is None while none is elected."""

    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as the cluster describes it; ``topic_id`` is Kafka's 22 characters."""

    name: str
    topic_id: str
    internal: bool = False
    partitions: Mapping[int, PartitionDescription] = field(default_factory=dict)
    error_code: int = 0

    def leaders(self) -> dict[int, int]:
        """Return the leader of each partition that has one."""
        return {n: one.leader for n, one in self.partitions.items() if one.leader is not None}

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas of any partition."""
        return max((len(p.replicas) for p in self.partitions.values()), default=0)


def format_topic_id(topic_id: uuid.UUID | None) -> str:
    """Return an id as Kafka's tools print it; empty when the broker returned none."""
    if topic_id is None or not topic_id.int:
        return ""
    return base64.urlsafe_b64encode(topic_id.bytes).decode("ascii").rstrip("=")


def parse_topic_id(text: str) -> uuid.UUID:
    """Parse Kafka's 22 characters; UsageError when they are not an id."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (ValueError, binascii.Error) as error:
        raise UsageError(f"{text!r} is not a topic id") from error


class Metadata:
    """The cached topics of a cluster; ``stale`` invalidates some."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._topics: dict[str, TopicDescription] = {}
        self._seen: dict[str, float] = {}
        self._described: dict[str, tuple[Any, TopicDescription]] = {}
        self.controller: int | None = None
        self.cluster_id: str | None = None

    def stale(self, topics: Iterable[str]) -> None:
        """Invalidate these topics: the next call requests them again."""
        for topic in topics:
            self._seen.pop(topic, None)

    async def topics(
        self, names: Collection[str], *, deadline: float, fresh_s: float = FRESH_SECONDS
    ) -> dict[str, TopicDescription]:
        """Return these topics; request only those that are not in the cache, or too old."""
        now = time.monotonic()
        missing = [name for name in names if now - self._seen.get(name, -1e9) > fresh_s]
        if missing:
            await self.refresh(missing, deadline=deadline)
        return {name: self._topics[name] for name in names if name in self._topics}

    async def refresh(
        self, names: Collection[str] | None, *, deadline: float
    ) -> dict[str, TopicDescription]:
        """Request these topics, or all of them, from any broker, and cache the answer."""
        wanted = None
        if names is not None:
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]
        answer = await self._ask(wanted, deadline)
        topics, answer.topics = answer.topics, []
        self._link.cluster.update_metadata(answer)  # nobody asks it for topics
        self.controller = answer.controller_id if answer.controller_id >= 0 else None
        self.cluster_id = answer.cluster_id
        found = {topic.name: self._description(topic) for topic in topics}
        now = time.monotonic()
        self._topics.update(found)
        self._seen.update(dict.fromkeys(found, now))
        return found

    def _description(self, topic: Any) -> TopicDescription:
        """Describe a topic; the same object as before if it is unchanged."""
        known = self._described.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._described[topic.name] = topic, _describe(topic)
        return known[1]

    async def ids_at(self, node: int, names: Collection[str], *, deadline: float) -> dict[str, str]:
        """Return the ids that one broker knows these topics by; unknown topics are left out."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer = await self._link.send(request, node, deadline=deadline)
        return {
            topic.name: format_topic_id(topic.topic_id)
            for topic in answer.topics
            if topic.error_code not in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID)
        }

    async def _ask(self, topics: list[Any] | None, deadline: float) -> Any:
        await self._link.connect()
        failure: KafkeepError = TransientError(f"no broker of {self._link.where} answers")
        retries = KAFKA.begin(deadline)
        while True:
            for node in self._link.nodes():
                request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
                try:
                    soon = min(deadline, time.monotonic() + 1)
                    answer = await self._link.send(request, node, deadline=soon)
                    if answer.brokers:
                        return answer
                except KafkeepError as error:
                    failure = error
                    if is_final(error):
                        raise
            wait_s = retries.next_wait_s()
            if wait_s is None:
                raise failure
            await self._link.net.sleep(wait_s)


def _describe(topic: Any) -> TopicDescription:
    partitions = {
        p.partition_index: PartitionDescription(
            index=p.partition_index,
            leader=p.leader_id if p.leader_id >= 0 else None,
            leader_epoch=p.leader_epoch,
            replicas=tuple(p.replica_nodes),
            in_sync=tuple(p.isr_nodes),
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    }
    return TopicDescription(
        name=topic.name,
        topic_id=format_topic_id(topic.topic_id),
        internal=bool(topic.is_internal),
        partitions=partitions,
        error_code=topic.error_code,
    )


def format_partition(partition: TopicPartition) -> str:
    """Return ``topic-partition``, for messages."""
    return f"{partition[0]}-{partition[1]}"


class Routes:
    """Routes of requests to brokers; every coroutine runs on the client's loop."""

    def __init__(self, link: Link, metadata: Metadata, *, timeout_ms: int = 60_000) -> None:
        self.link = link
        self.metadata = metadata
        self._timeout_ms = timeout_ms

    def deadline(self) -> float:
        """Return the deadline of a call that begins now."""
        return time.monotonic() + self._timeout_ms / 1000

    async def any_broker(self, make: Callable[[], Any], codes: Codes) -> Any:
        """Try one broker after the other until an answer has no retriable error code."""
        return await self._ask(make, codes, self.link.nodes)

    async def controller(self, make: Callable[[], Any], codes: Codes) -> Any:
        """Send a request to the controller; with forwarding brokers, to any broker.

        A request is retried only when nothing was sent, or the answer says that nothing was done.
        """
        return await self._ask(make, codes, self._controller_first, repeat_unknown=False)

    def _controller_first(self) -> list[int]:
        controller = self.metadata.controller
        return [controller] if controller is not None else self.link.nodes()

    async def _ask(
        self,
        make: Callable[[], Any],
        codes: Codes,
        nodes: Callable[[], list[int]],
        *,
        repeat_unknown: bool = True,
    ) -> Any:
        began, deadline = time.monotonic(), self.deadline()
        retries = KAFKA.begin(deadline)
        await self.link.connect()
        if self.metadata.controller is None:
            await self.metadata.refresh([], deadline=deadline)
        while True:
            failure: TransientError | None = None
            try:
                soon = min(deadline, time.monotonic() + _ONE_BROKER_SECONDS)
                answer = await self.link.send(make(), nodes()[0], deadline=soon)
                again = RETRIABLE.intersection(codes(answer))
                if time.monotonic() - began > _UNKNOWN_GRACE_SECONDS:
                    again -= {UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID}
                if not again:
                    return answer
            except TransientError as error:
                if type(error) is not TransientError and not repeat_unknown:
                    raise
                failure = error
            wait_s = retries.next_wait_s()
            if wait_s is None and failure is not None:
                raise failure
            if wait_s is None:
                return answer
            await self.link.net.sleep(wait_s)
            await self.metadata.refresh([], deadline=deadline)

    async def each_broker(self, make: Callable[[], Any]) -> list[Any]:
        """Send a request to all brokers concurrently; return an answer or an exception for each."""
        await self.link.connect()
        deadline = self.deadline()
        calls = [
            partial(self.link.send, make(), node, deadline=deadline) for node in self.link.nodes()
        ]
        return await self.link.gather(calls)

    async def leaders(
        self,
        partitions: Collection[TopicPartition],
        ask: Callable[
            [int, list[TopicPartition], Mapping[str, TopicDescription], float],
            Awaitable[LeaderAnswers[Value]],
        ],
    ) -> dict[TopicPartition, Value]:
        """Send one request to each leader; return the value of every partition.

        ``ask`` returns an error code and a value for each partition it was given.
        """
        began, deadline = time.monotonic(), self.deadline()
        retries = KAFKA.begin(deadline)
        done: dict[TopicPartition, Value] = {}
        await self.link.connect()
        while True:
            todo = [p for p in dict.fromkeys(partitions) if p not in done]
            last = await self._leader_round(todo, ask, done, began, deadline)
            if last is None:
                return done
            wait_s = retries.next_wait_s()
            if is_final(last) or wait_s is None:
                raise last
            await self.link.net.sleep(wait_s)

    async def _leader_round(
        self,
        todo: list[TopicPartition],
        ask: Callable[..., Awaitable[LeaderAnswers[Value]]],
        done: dict[TopicPartition, Value],
        began: float,
        deadline: float,
    ) -> KafkeepError | None:
        """Send the requests once; return why an answer is missing, or None when none is."""
        topics = await self.metadata.topics({topic for topic, _ in todo}, deadline=deadline)
        grouped: dict[int, list[TopicPartition]] = defaultdict(list)
        last: KafkeepError | None = None
        led = {name: topic.leaders() for name, topic in topics.items() if not topic.error_code}
        for partition in todo:
            leader = led.get(partition[0], _NO_LEADERS).get(partition[1])
            if leader is not None:
                grouped[leader].append(partition)
                continue
            leader = self._leader(partition, topics, began)
            if leader is None:
                last = TransientError(f"{format_partition(partition)} has no leader")
            else:
                grouped[leader].append(partition)
        calls = [partial(ask, leader, asked, topics, deadline) for leader, asked in grouped.items()]
        for outcome, asked in zip(await self.link.gather(calls), grouped.values(), strict=True):
            if isinstance(outcome, KafkeepError):
                self.metadata.stale({topic for topic, _ in asked})
                last = outcome
            elif isinstance(outcome, Exception):
                raise outcome
            else:
                last = self._take(outcome, done) or last
        return last

    def _leader(
        self, partition: TopicPartition, topics: Mapping[str, TopicDescription], began: float
    ) -> int | None:
        name, index = partition
        topic = topics.get(name)
        if topic is not None and topic.error_code in DENIED:
            raise refusal(topic.error_code, f"topic {name}")
        described = topic.partitions.get(index) if topic is not None else None
        if described is not None and described.leader is not None:
            return described.leader
        if described is None and time.monotonic() - began > _UNKNOWN_GRACE_SECONDS:
            raise PreflightError(f"{format_partition(partition)} does not exist")
        self.metadata.stale([name])
        return None

    def _take(
        self, answers: LeaderAnswers[Value], done: dict[TopicPartition, Value]
    ) -> KafkeepError | None:
        last: KafkeepError | None = None
        if not answers.errors:
            done.update(answers.values)
            return None
        done.update({key: one for key, one in answers.values.items() if key not in answers.errors})
        for partition, code in answers.errors.items():
            if code in STALE_METADATA:
                self.metadata.stale([partition[0]])
            last = refusal(code, format_partition(partition))
            if is_final(last):
                raise last
        return last
