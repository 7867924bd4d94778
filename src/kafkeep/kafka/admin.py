"""The changes a restore makes to a cluster, on top of the questions: topics, settings, ids."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.producer import InitProducerIdRequest

from kafkeep.errors import AccessDeniedError, TransientError
from kafkeep.kafka.cluster import (
    TOPIC_RESOURCE,
    Broker,
    Cluster,
    ConfigValue,
    check_code,
    codes_of,
)
from kafkeep.kafka.failures import UNKNOWN_TOPIC_OR_PARTITION
from kafkeep.kafka.metadata import PartitionDescription, TopicDescription
from kafkeep.kafka.offsets import EpochEnd, OffsetSpec
from kafkeep.kafka.routes import TopicPartition

__all__ = [
    "Admin",
    "Broker",
    "ConfigValue",
    "EpochEnd",
    "OffsetSpec",
    "PartitionDescription",
    "TopicDescription",
]

_OP_SET, _OP_DELETE = 0, 1
_DONE, _TOPIC_ALREADY_EXISTS = 0, 36
_CHANGE_TIMEOUT_MS = 30_000


class Admin(Cluster):
    """Blocking calls; each raises a KafkeepError that names the resource when Kafka refuses."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete all records before each offset (-1: all there are); return the log starts."""
        return self.wire.call(self._offsets.delete_before, before) if before else {}

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        may_exist: bool = False,
    ) -> TopicDescription:
        """Create a topic and wait until each partition's leader answers; -1: the broker's default.

        PreflightError when Kafka refuses a setting, or when the topic exists, unless it may.
        """
        fine = (_DONE, _TOPIC_ALREADY_EXISTS) if may_exist else (_DONE,)
        self._create(name, partitions, replication_factor, configs or {}, fine=fine)
        return self._wait_for_leaders(name, partitions)

    def try_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Raise what ``create_topic`` would raise; creates nothing."""
        self._create(name, partitions, replication_factor, configs or {}, validate_only=True)

    def _create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
        fine: Collection[int] = (_DONE,),
    ) -> None:
        kind = CreateTopicsRequest.CreatableTopic

        def make() -> Any:
            settings = [
                kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
            ]
            topic = kind(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=[],
                configs=settings,
            )
            return CreateTopicsRequest(
                topics=[topic],
                timeout_ms=_CHANGE_TIMEOUT_MS,
                validate_only=validate_only,
                min_version=2,
            )

        answer = self.wire.call(self.routes.controller, make, codes_of("topics"))
        for topic in answer.topics:
            if topic.error_code not in fine:
                check_code(topic.error_code, f"create topic {name}", topic.error_message)

    def create_partitions(self, name: str, count: int) -> TopicDescription:
        """Raise the number of partitions to ``count`` and wait until all have leaders."""

        def make() -> Any:
            topic = CreatePartitionsRequest.CreatePartitionsTopic(
                name=name, count=count, assignments=None
            )
            return CreatePartitionsRequest(
                topics=[topic], timeout_ms=_CHANGE_TIMEOUT_MS, validate_only=False
            )

        answer = self.wire.call(self.routes.controller, make, codes_of("results"))
        for result in answer.results:
            check_code(result.error_code, f"add partitions to topic {name}", result.error_message)
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
            resource = kind(resource_type=TOPIC_RESOURCE, resource_name=name, configs=configs)
            return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

        answer = self.wire.call(self.routes.controller, make, codes_of("responses"))
        for response in answer.responses:
            check_code(response.error_code, f"change topic {name}", response.error_message)

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
                check_code(response.error_code, f"delete topic {response.name}")
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
        check_code(answer.error_code, "an idempotent producer id")
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


def _pause_until(deadline: float, otherwise: str) -> None:
    if time.monotonic() > deadline:
        raise TransientError(otherwise)
    time.sleep(0.05)
