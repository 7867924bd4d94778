"""Route small requests: to any broker, to the controller, or to each partition's leader.

Every route repeats a request until the deadline when the answer only means "not here" or "not
yet".
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from kafkeep.errors import KafkeepError, PreflightError, TransientError
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
from kafkeep.kafka.client.metadata import Metadata, TopicDescription
from kafkeep.retry import KAFKA

TopicPartition = tuple[str, int]
Codes = Callable[[Any], Collection[int]]
Value = TypeVar("Value")
LeaderAnswers = Mapping[TopicPartition, tuple[int, Value]]
_ONE_BROKER_SECONDS = 3.0
_UNKNOWN_GRACE_SECONDS = 3.0
"""How long a topic may be unknown: one just created is not known to every broker at once."""


def format_partition(partition: TopicPartition) -> str:
    """Return ``topic-partition``, as in messages."""
    return f"{partition[0]}-{partition[1]}"


class Routes:
    """Ways to ask; every coroutine runs on the client's loop."""

    def __init__(self, link: Link, metadata: Metadata, *, timeout_ms: int = 60_000) -> None:
        self.link = link
        self.metadata = metadata
        self._timeout_ms = timeout_ms

    def deadline(self) -> float:
        """Return when to give up a call that begins now."""
        return time.monotonic() + self._timeout_ms / 1000

    async def any_broker(self, make: Callable[[], Any], codes: Codes) -> Any:
        """Ask one broker after the other until an answer has no retriable code."""
        return await self._ask(make, codes, self.link.nodes)

    async def controller(self, make: Callable[[], Any], codes: Codes) -> Any:
        """Ask the controller; where brokers forward to it, any broker stands for it.

        A request is repeated only when nothing was sent, or the answer says it was not done.
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
        """Ask all brokers side by side; an answer or an exception for each."""
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
        """Ask each partition's leader, one request per broker; return every partition's value.

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
        """Ask once; return why something is missing, or None when nothing is."""
        topics = await self.metadata.topics({topic for topic, _ in todo}, deadline=deadline)
        grouped: dict[int, list[TopicPartition]] = defaultdict(list)
        last: KafkeepError | None = None
        for partition in todo:
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
        for partition, (code, value) in answers.items():
            if code == 0:
                done[partition] = value
                continue
            if code in STALE_METADATA:
                self.metadata.stale([partition[0]])
            last = refusal(code, format_partition(partition))
            if is_final(last):
                raise last
        return last
