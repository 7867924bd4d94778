"""What a cluster holds and how its topics are set: questions, and the changes a restore makes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.producer import InitProducerIdRequest

from kafkeep.errors import AccessDeniedError, EnvironmentFault, PreflightError, TransientError
from kafkeep.kafka.failures import DENIED, UNKNOWN_TOPIC_OR_PARTITION, refusal
from kafkeep.kafka.fetch import Isolation
from kafkeep.kafka.metadata import PartitionDescription, TopicDescription
from kafkeep.kafka.offsets import EpochEnd, Offsets, OffsetSpec
from kafkeep.kafka.routes import Routes, TopicPartition
from kafkeep.kafka.wire import Wire

__all__ = [
    "Admin",
    "Broker",
    "ConfigValue",
    "EpochEnd",
    "OffsetSpec",
    "PartitionDescription",
    "TopicDescription",
]

_TOPIC_RESOURCE = 2
_SET_ON_TOPIC = 1
_OP_SET, _OP_DELETE = 0, 1
_CHANGE_TIMEOUT_MS = 30_000
_CONFIG_SOURCES = {
    1: "topic",
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
    """One setting in force; ``source`` says where it is set: topic, broker, cluster, default."""

    value: str | None
    source: str
    sensitive: bool = False


class Admin:
    """Blocking calls; each raises a KafkeepError that names the resource when Kafka refuses."""

    def __init__(self, wire: Wire, *, timeout_ms: int = 60_000) -> None:
        self.wire = wire
        self.routes = Routes(wire.link, wire.metadata, timeout_ms=timeout_ms)
        self._offsets = Offsets(self.routes)

    def cluster_id(self) -> str:
        """Return the id of the cluster; this is the cheapest way to see that it answers."""
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
        """Return the node that answers for the controller."""
        self._refresh([])
        return self.wire.metadata.controller

    def broker_version(self) -> tuple[int, ...]:
        """Return the release the brokers' abilities point to, such as ``(4, 1)``."""
        return tuple(self.wire.call(self.wire.link.versions).broker_version)

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Return the lowest and highest version the broker takes of each request."""
        return dict(self.wire.call(self.wire.link.versions).api_versions)

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        """Describe these topics, or all that we may see; names that do not exist are left out.

        A topic we may not describe is AccessDeniedError when it was asked for by name.
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
        """Return what is set on each topic itself, without defaults and without secrets."""
        return {
            name: {
                key: config.value
                for key, config in configs.items()
                if config.source == "topic" and not config.sensitive and config.value is not None
            }
            for name, configs in self.all_topic_configs(names).items()
        }

    def all_topic_configs(self, names: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        """Return every setting in force on each topic, defaults included."""
        if not names:
            return {}
        kind = DescribeConfigsRequest.DescribeConfigsResource

        def make() -> Any:
            resources = [
                kind(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
                for name in sorted(set(names))
            ]
            return DescribeConfigsRequest(resources=resources, min_version=1)

        answer = self.wire.call(self.routes.any_broker, make, _codes("results"))
        for result in answer.results:
            _check(result.error_code, f"topic {result.resource_name}", result.error_message)
        return {
            result.resource_name: {
                config.name: ConfigValue(
                    config.value,
                    _CONFIG_SOURCES.get(config.config_source, "unknown"),
                    bool(config.is_sensitive),
                )
                for config in result.configs
            }
            for result in answer.results
        }

    def offsets(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        """Return the first offset, the end, or the last stable offset of each partition."""
        return self.wire.call(self._offsets.ends, partitions, spec) if partitions else {}

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
        """Return where each leader epoch ended: below a position, the log was truncated."""
        return self.wire.call(self._offsets.epoch_ends, epochs) if epochs else {}

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete all records before each offset (-1: all there are); return the log starts."""
        return self.wire.call(self._offsets.delete_before, before) if before else {}

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

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> TopicDescription:
        """Create a topic and wait until each partition's leader answers; -1: the broker's default.

        PreflightError when it exists or Kafka refuses a setting.
        """
        kind = CreateTopicsRequest.CreatableTopic

        def make() -> Any:
            settings = [
                kind.CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ]
            topic = kind(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=[],
                configs=settings,
            )
            return CreateTopicsRequest(topics=[topic], timeout_ms=_CHANGE_TIMEOUT_MS, min_version=2)

        answer = self.wire.call(self.routes.controller, make, _codes("topics"))
        for topic in answer.topics:
            _check(topic.error_code, f"create topic {name}", topic.error_message)
        return self._wait_for_leaders(name, partitions)

    def create_partitions(self, name: str, count: int) -> TopicDescription:
        """Raise the number of partitions to ``count`` and wait until all have leaders."""

        def make() -> Any:
            topic = CreatePartitionsRequest.CreatePartitionsTopic(
                name=name, count=count, assignments=None
            )
            return CreatePartitionsRequest(
                topics=[topic], timeout_ms=_CHANGE_TIMEOUT_MS, validate_only=False
            )

        answer = self.wire.call(self.routes.controller, make, _codes("results"))
        for result in answer.results:
            _check(result.error_code, f"add partitions to topic {name}", result.error_message)
        return self._wait_for_leaders(name, count)

    def alter_topic_configs(
        self, name: str, *, set: Mapping[str, str] | None = None, delete: Collection[str] = ()
    ) -> None:
        """Set these settings and put those in ``delete`` back to their defaults; no others."""
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        changes = [(key, _OP_SET, value) for key, value in (set or {}).items()]
        changes += [(key, _OP_DELETE, None) for key in delete]  # type: ignore[misc]
        if not changes:
            return

        def make() -> Any:
            configs = [
                kind.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            ]
            resource = kind(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=configs)
            return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

        answer = self.wire.call(self.routes.controller, make, _codes("responses"))
        for response in answer.responses:
            _check(response.error_code, f"change topic {name}", response.error_message)

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics and wait until they are gone; one that is not there is no error."""
        if not names:
            return

        def make() -> Any:
            return DeleteTopicsRequest(
                topic_names=sorted(set(names)), timeout_ms=_CHANGE_TIMEOUT_MS, max_version=5
            )

        def codes(answer: Any) -> list[int]:
            return [r.error_code for r in answer.responses if r.error_code != 3]

        answer = self.wire.call(self.routes.controller, make, codes)
        for response in answer.responses:
            if response.error_code != UNKNOWN_TOPIC_OR_PARTITION:
                _check(response.error_code, f"delete topic {response.name}")
        deadline = self.routes.deadline()
        while left := self.topics(names):
            _pause_until(deadline, f"topic {next(iter(left))} is still there")

    def init_producer_id(self) -> tuple[int, int]:
        """Return a new idempotent producer id and its epoch."""

        def make() -> Any:
            return InitProducerIdRequest(
                transactional_id=None,
                transaction_timeout_ms=_CHANGE_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            )

        answer = self.wire.call(self.routes.any_broker, make, lambda found: [found.error_code])
        _check(answer.error_code, "an idempotent producer id")
        return answer.producer_id, answer.producer_epoch

    def _wait_for_leaders(self, name: str, count: int) -> TopicDescription:
        deadline = self.routes.deadline()
        while True:
            topic = self.topics([name]).get(name)
            if topic is not None and not topic.error_code:
                led = [index for index, p in topic.partitions.items() if p.leader is not None]
                if len(led) >= count:
                    # Elected is not yet ready: a leader that answers this also takes records.
                    with contextlib.suppress(AccessDeniedError):
                        self.offsets([(name, index) for index in led], OffsetSpec.EARLIEST)
                    return topic
            _pause_until(deadline, f"topic {name} has partitions without a leader")


def _codes(field: str) -> Any:
    return lambda answer: [result.error_code for result in getattr(answer, field)]


def _check(code: int, what: str, message: str | None = None) -> None:
    if code == UNKNOWN_TOPIC_OR_PARTITION:
        raise PreflightError(f"{what}: no such topic")
    if code:
        raise refusal(code, what, message)


def _pause_until(deadline: float, otherwise: str) -> None:
    if time.monotonic() > deadline:
        raise TransientError(otherwise)
    time.sleep(0.05)


def _largest(answer: Any, sizes: dict[TopicPartition, int]) -> None:
    for folder in answer.results:
        for topic in folder.topics:
            for part in topic.partitions:
                if not part.is_future_key:
                    key = (topic.name, part.partition_index)
                    sizes[key] = max(sizes.get(key, 0), part.partition_size)
