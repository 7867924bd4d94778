"""Which broker leads which partition, and under which id a topic goes: asked, then remembered."""

from __future__ import annotations

import base64
import binascii
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from kafkeep.errors import KafkeepError, TransientError, UsageError
from kafkeep.kafka.client.connection import Link
from kafkeep.kafka.client.errors import is_final
from kafkeep.retry import KAFKA

_FRESH_SECONDS = 300.0


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

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas any partition has."""
        return max((len(p.replicas) for p in self.partitions.values()), default=0)


def format_topic_id(topic_id: uuid.UUID | None) -> str:
    """Return an id as Kafka's tools print it; empty when the broker gave none."""
    if topic_id is None:
        return ""
    return base64.urlsafe_b64encode(topic_id.bytes).decode("ascii").rstrip("=")


def parse_topic_id(text: str) -> uuid.UUID:
    """Read Kafka's 22 characters; UsageError when they are not an id."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (ValueError, binascii.Error) as error:
        raise UsageError(f"{text!r} is not a topic id") from error


class Metadata:
    """The cluster's topics as last seen; ``stale`` makes the next call ask again."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._topics: dict[str, TopicDescription] = {}
        self._seen: dict[str, float] = {}
        self.controller: int | None = None
        self.cluster_id: str | None = None

    def stale(self, topics: Iterable[str]) -> None:
        """Forget when these topics were seen."""
        for topic in topics:
            self._seen.pop(topic, None)

    async def topics(
        self, names: Collection[str], *, deadline: float
    ) -> dict[str, TopicDescription]:
        """Return these topics, asking only for those not seen lately."""
        now = time.monotonic()
        missing = [name for name in names if now - self._seen.get(name, -1e9) > _FRESH_SECONDS]
        if missing:
            await self.refresh(missing, deadline=deadline)
        return {name: self._topics[name] for name in names if name in self._topics}

    async def refresh(
        self, names: Collection[str] | None, *, deadline: float
    ) -> dict[str, TopicDescription]:
        """Ask any broker about these topics, or all of them, and remember the answer."""
        wanted = None
        if names is not None:
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]
        answer = await self._ask(wanted, deadline)
        self._link.cluster.update_metadata(answer)
        self.controller = answer.controller_id if answer.controller_id >= 0 else None
        self.cluster_id = answer.cluster_id
        found = {topic.name: _describe(topic) for topic in answer.topics}
        now = time.monotonic()
        self._topics.update(found)
        self._seen.update(dict.fromkeys(found, now))
        return found

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
