"""Read a cluster: its brokers, topics, settings, offsets and sizes.

Requests for offsets, and for the deletion of records, go to partition leaders.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
)

from kafkeep.errors import EnvironmentFault, PreflightError, TransientError
from kafkeep.kafka.client.errors import DENIED, UNKNOWN_TOPIC_OR_PARTITION, refusal
from kafkeep.kafka.client.fetch import Isolation
from kafkeep.kafka.client.large_requests import (
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from kafkeep.kafka.client.metadata import (
    LeaderAnswers,
    Routes,
    TopicDescription,
    TopicPartition,
    Value,
)
from kafkeep.kafka.client.wire import Wire

TOPIC_RESOURCE = 2
_CONSUMER = -1
_LATEST = -1
_EARLIEST = -2
_DELETE_TIMEOUT_MS = 30_000
_SET_ON_TOPIC = 1
_CONFIG_SOURCES = {
    _SET_ON_TOPIC: "topic",
    2: "broker",
    3: "cluster",
    4: "server.properties",
    5: "default",
}


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the cluster."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One effective setting; ``source`` is where it is set: topic, broker, cluster, default."""

    value: str | None
    source: str
    sensitive: bool = False


class OffsetSpec(enum.Enum):
    """A position in a partition: first offset, end, or last stable offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    LAST_STABLE = "last stable"


class EpochEnd(NamedTuple):
    """The end of a leader epoch; ``end_offset`` is -1 when the leader does not know it."""

    leader_epoch: int
    end_offset: int


class Cluster:
    """Blocking calls; each raises a KafkeepError that names the resource when Kafka refuses."""

    def __init__(self, wire: Wire, *, timeout_ms: int = 60_000) -> None:
        self.wire = wire
        self.routes = Routes(wire.link, wire.metadata, timeout_ms=timeout_ms)
        self._offsets = OffsetRequests(self.routes)

    def cluster_id(self) -> str:
        """Return the id of the cluster; the cheapest way to check that it responds."""
        self._refresh([])
        return self.wire.metadata.cluster_id or ""

    def brokers(self) -> list[Broker]:
        """Return the brokers that are up, by node id."""
        self._refresh([])
        found = self.wire.link.cluster.brokers()
        return sorted(
            (Broker(b.node_id, b.host, b.port, b.rack) for b in found), key=lambda b: b.node_id
        )

    def controller(self) -> int | None:
        """Return the node id of the controller."""
        self._refresh([])
        return self.wire.metadata.controller

    def broker_version(self) -> tuple[int, ...]:
        """Return the release, such as ``(4, 1)``, inferred from the brokers' API versions."""
        return tuple(self.wire.call(self.wire.link.versions).broker_version)

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Return the lowest and highest version that the broker supports of each request."""
        return dict(self.wire.call(self.wire.link.versions).api_versions)

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        """Describe these topics, or all visible topics; names that do not exist are skipped.

        AccessDeniedError for a named topic that this user may not describe.
        """
        found = self._refresh(names)
        for name, topic in found.items():
            if topic.error_code in DENIED and names is not None:
                raise refusal(topic.error_code, f"topic {name}")
        ours = {n: t for n, t in found.items() if t.error_code not in DENIED | {3, 17, 100}}
        return dict(sorted(ours.items()))

    def _refresh(self, names: Collection[str] | None) -> dict[str, TopicDescription]:
        deadline = self.routes.deadline()
        metadata = self.wire.metadata

        async def ask() -> dict[str, TopicDescription]:
            return await metadata.refresh(names, deadline=deadline)

        return self.wire.call(ask)

    def topic_configs(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Return the settings of each topic itself, without defaults and secrets."""
        return {
            result.resource_name: {
                config.name: config.value
                for config in result.configs
                if config.config_source == _SET_ON_TOPIC
                and not config.is_sensitive
                and config.value is not None
            }
            for result in self._describe_configs(names)
        }

    def all_topic_configs(self, names: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        """Return every effective setting of each topic, including defaults."""
        return {
            result.resource_name: {
                config.name: ConfigValue(
                    config.value,
                    _CONFIG_SOURCES.get(config.config_source, "unknown"),
                    bool(config.is_sensitive),
                )
                for config in result.configs
            }
            for result in self._describe_configs(names)
        }

    def _describe_configs(self, names: Collection[str]) -> list[Any]:
        if not names:
            return []
        kind = DescribeConfigsRequest.DescribeConfigsResource

        def make() -> Any:
            resources = [
                kind(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
                for name in sorted(set(names))
            ]
            return DescribeConfigsRequest(resources=resources, min_version=1)

        answer = self.wire.call(self.routes.any_broker, make, codes_of("results"))
        for result in answer.results:
            check_code(result.error_code, f"topic {result.resource_name}", result.error_message)
        return list(answer.results)

    def offsets(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        """Return the first offset, the end, or the last stable offset of each partition."""
        return self.wire.call(self._offsets.ends, partitions, spec) if partitions else {}

    def offset_bounds(
        self, partitions: Collection[TopicPartition], end: OffsetSpec = OffsetSpec.LATEST
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the first offsets and the ends, requested at the same time."""

        async def ask() -> list[Any]:
            specs = OffsetSpec.EARLIEST, end
            calls = [partial(self._offsets.ends, partitions, spec) for spec in specs]
            return await self.routes.link.gather(calls)

        starts, ends = self.wire.call(ask) if partitions else ({}, {})
        for found in (starts, ends):
            if isinstance(found, Exception):
                raise found
        return starts, ends

    def offsets_for_times(
        self,
        times_ms: Mapping[TopicPartition, int],
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after each time; None where all records are older."""
        if not times_ms:
            return {}
        found = self.wire.call(self._offsets.at, times_ms, isolation)
        return {partition: at if at >= 0 else None for partition, at in found.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """Return the end of each leader epoch; an end below a position means truncation."""
        return self.wire.call(self._offsets.epoch_ends, epochs) if epochs else {}

    def partition_sizes(
        self, topics: Mapping[str, Collection[int]] | None = None
    ) -> dict[TopicPartition, int]:
        """Return the bytes on disk of each partition's largest replica; empty when denied."""
        kind = DescribeLogDirsRequest.DescribableLogDirTopic

        def make() -> Any:
            wanted = None
            if topics is not None:
                wanted = [kind(topic=t, partitions=sorted(p)) for t, p in topics.items()]
            return DescribeLogDirsRequest(topics=wanted, min_version=1)

        sizes: dict[TopicPartition, int] = {}
        for answer in self.wire.call(self.routes.each_broker, make):
            if isinstance(answer, (TransientError, EnvironmentFault)):
                continue
            if isinstance(answer, Exception):
                raise answer
            _largest(answer, sizes)
        return sizes


class OffsetRequests:
    """Requests to leaders, as coroutines; see ``Cluster`` for what each promises."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def ends(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        """Return the requested offset of each partition."""
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
        """Return the first offset at or after each time; -1 if there is none."""

        def make(epochs: Mapping[TopicPartition, int]) -> Any:
            request = ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=int(isolation),
                timeout_ms=self._routes.link.request_timeout_ms,
                min_version=1,
            )
            request.partitions = {key: (epoch, times[key]) for key, epoch in epochs.items()}
            return request

        def read(answer: Any) -> LeaderAnswers[int]:
            found = answer.partitions
            return LeaderAnswers(found.values("offset"), found.errors())

        return await self._ask_leaders(times, make, read)

    async def delete_before(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Move each log start offset up to the given offset; return the log start offsets."""
        kind = DeleteRecordsRequest.DeleteRecordsTopic

        def make(epochs: Mapping[TopicPartition, int]) -> Any:
            asked: dict[str, list[Any]] = defaultdict(list)
            for topic, index in epochs:
                part = kind.DeleteRecordsPartition(
                    partition_index=index, offset=offsets[topic, index]
                )
                asked[topic].append(part)
            return DeleteRecordsRequest(
                topics=[kind(name=topic, partitions=parts) for topic, parts in asked.items()],
                timeout_ms=_DELETE_TIMEOUT_MS,
            )

        def read(answer: Any) -> LeaderAnswers[int]:
            found = {
                (topic.name, part.partition_index): part
                for topic in answer.topics
                for part in topic.partitions
            }
            return LeaderAnswers(
                {key: part.low_watermark for key, part in found.items()},
                {key: part.error_code for key, part in found.items() if part.error_code},
            )

        return await self._ask_leaders(offsets, make, read)

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd]:
        """Return the end of each leader epoch in the leader's log."""

        def make(leader_epochs: Mapping[TopicPartition, int]) -> Any:
            request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, min_version=2)
            request.partitions = {key: (epoch, epochs[key]) for key, epoch in leader_epochs.items()}
            return request

        def read(answer: Any) -> LeaderAnswers[EpochEnd]:
            found = answer.partitions
            ends = map(EpochEnd, *(found.rows[f].tolist() for f in EpochEnd._fields))
            return LeaderAnswers(dict(zip(found.keys, ends, strict=True)), found.errors())

        return await self._ask_leaders(epochs, make, read)

    async def _ask_leaders(
        self,
        partitions: Collection[TopicPartition],
        make: Callable[[Mapping[TopicPartition, int]], Any],
        read: Callable[[Any], LeaderAnswers[Value]],
    ) -> dict[TopicPartition, Value]:
        """Send each leader a request for its partitions; return the values that ``read`` yields.

        ``make`` builds the request from the leader epochs of the partitions to ask about.
        """

        async def ask(
            node: int,
            wanted: list[TopicPartition],
            topics: Mapping[str, TopicDescription],
            deadline: float,
        ) -> LeaderAnswers[Value]:
            epochs = {(t, index): topics[t].partitions[index].leader_epoch for t, index in wanted}
            return read(await self._routes.link.send(make(epochs), node, deadline=deadline))

        return await self._routes.leaders(partitions, ask)


def codes_of(field: str) -> Any:
    """Return a function that extracts the error codes from a list of results."""
    return lambda answer: [result.error_code for result in getattr(answer, field)]


def check_code(code: int, what: str, message: str | None = None) -> None:
    """Raise the error for an error code; it names ``what``."""
    if code == UNKNOWN_TOPIC_OR_PARTITION:
        raise PreflightError(f"{what}: no such topic")
    if code:
        raise refusal(code, what, message)


def _largest(answer: Any, sizes: dict[TopicPartition, int]) -> None:
    for folder in answer.results:
        for topic in folder.topics:
            for part in topic.partitions:
                if not part.is_future_key:
                    key = (topic.name, part.partition_index)
                    sizes[key] = max(sizes.get(key, 0), part.partition_size)
