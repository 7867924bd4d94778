"""Read and change a cluster: topics, settings, permissions, producer ids.

``Cluster`` reads; this module adds the changes that a restore makes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from kafkeep.errors import AccessDeniedError, TransientError
from kafkeep.kafka.admin.cluster import (
    TOPIC_RESOURCE,
    Broker,
    Cluster,
    ConfigValue,
    EpochEnd,
    OffsetSpec,
    check_code,
    codes_of,
)
from kafkeep.kafka.client.errors import UNKNOWN_TOPIC_OR_PARTITION, refusal
from kafkeep.kafka.client.metadata import PartitionDescription, TopicDescription, TopicPartition
from kafkeep.retry import KAFKA_TOPIC, Retries

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
        """Delete all records before each offset (-1: all records); return the log start offsets."""
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
        """Create a topic and wait until every partition has a leader; -1: the broker's default.

        PreflightError when Kafka refuses a setting, or when the topic exists and may not.
        """
        fine = (_DONE, _TOPIC_ALREADY_EXISTS) if may_exist else (_DONE,)
        code, message = self._create(name, partitions, replication_factor, configs or {})
        if code not in fine:
            check_code(code, f"create topic {name}", message)
        return self._wait_for_leaders(name, partitions)

    def try_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Raise the error that ``create_topic`` would raise; create nothing."""
        code, message = self._create(
            name, partitions, replication_factor, configs or {}, validate_only=True
        )
        check_code(code, f"create topic {name}", message)

    def _create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> tuple[int, str | None]:
        """Send the request; return Kafka's error code and message.

        A cluster with ZooKeeper still deletes a topic that no broker describes any more: wait.
        """
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

        retries = KAFKA_TOPIC.begin(self.routes.deadline())
        while True:
            answer = self.wire.call(self.routes.controller, make, codes_of("topics"))
            [created] = answer.topics
            if created.error_code != _TOPIC_ALREADY_EXISTS or name in self.topics([name]):
                return created.error_code, created.error_message
            _wait(retries, f"topic {name} is still being deleted")

    def create_partitions(self, name: str, count: int) -> TopicDescription:
        """Increase the number of partitions to ``count`` and wait until all have leaders."""

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
        """Set these settings and reset those in ``delete`` to their defaults; change no others."""
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
        """Delete topics and wait until they no longer exist; no error for a missing topic."""
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
        retries = KAFKA_TOPIC.begin(self.routes.deadline())
        while remaining := self.topics(names):
            _wait(retries, f"topic {next(iter(remaining))} still exists")

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
        retries = KAFKA_TOPIC.begin(self.routes.deadline())
        while True:
            topic = self.topics([name]).get(name)
            if topic is not None and not topic.error_code:
                led = [index for index, p in topic.partitions.items() if p.leader is not None]
                if len(led) >= count:
                    # A leader that answers this request also accepts records.
                    with contextlib.suppress(AccessDeniedError):
                        self.offsets([(name, index) for index in led], OffsetSpec.EARLIEST)
                    return topic
            _wait(retries, f"topic {name} has partitions without a leader")


def _wait(retries: Retries, otherwise: str) -> None:
    wait_s = retries.next_wait_s()
    if wait_s is None:
        raise TransientError(otherwise)
    time.sleep(wait_s)


class TopicRight(IntEnum):
    """An operation on a topic, by Kafka's number; the name is that of ACLs."""

    READ = 3
    WRITE = 4
    DELETE = 6
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11

    @property
    def label(self) -> str:
        """The spelling in Kafka's documentation."""
        return "".join(word.title() for word in self.name.split("_"))


def topic_rights(admin: Admin, names: Collection[str]) -> dict[str, frozenset[TopicRight]]:
    """Return the operations that this user may do on each topic; unreported topics are missing.

    Brokers before 2.3 report nothing.
    """
    if not names or admin.api_versions().get(MetadataRequest.API_KEY, (0, 0))[1] < 8:
        return {}

    def make() -> Any:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(set(names))]
        return MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            min_version=8,
        )

    answer = admin.wire.call(admin.routes.any_broker, make, lambda _: [])
    return {
        topic.name: frozenset(right for right in TopicRight if right in topic.authorized_operations)
        for topic in answer.topics
        if not topic.error_code and topic.authorized_operations is not None
    }


_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_SET_ON_TOPIC = 1
_RETENTION_UNITS_MS = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
}
"""The broker settings that determine retention.ms; the first that is set applies."""
_KAFKAS_RETENTION_MS = 168 * 3_600_000


def topic_defaults(admin: Admin, topic: str) -> dict[str, str]:
    """Return the cluster's defaults for the settings of ``topic``."""
    answer = admin.wire.call(
        admin.routes.any_broker,
        lambda: _describe(_TOPIC_RESOURCE, [topic], synonyms=True),
        lambda found: [r.error_code for r in found.results],
    )
    defaults: dict[str, str] = {}
    for result in answer.results:
        if result.error_code:
            raise refusal(result.error_code, f"the settings of topic {topic}")
        for config in result.configs:
            for synonym in config.synonyms:  # by descending precedence
                if synonym.source != _SET_ON_TOPIC and synonym.value is not None:
                    defaults.setdefault(config.name, synonym.value)
    if "retention.ms" not in defaults:
        # Kafka lists no synonym if only log.retention.hours is set, which is the usual case.
        defaults["retention.ms"] = str(_broker_retention_ms(admin))
    return defaults


def new_topic_defaults(admin: Admin) -> dict[str, str]:
    """Return the retention settings of the cluster for a new topic."""
    return {"retention.ms": str(_broker_retention_ms(admin))}


def _broker_retention_ms(admin: Admin) -> int:
    """Return the shortest retention of all brokers; Kafka's default when access is denied."""
    brokers = [str(broker.node_id) for broker in admin.brokers()]
    # A broker has hundreds of settings: describing all of them takes an eighth of a second.
    keys = list(_RETENTION_UNITS_MS)
    answers = admin.wire.call(
        admin.routes.each_broker, lambda: _describe(_BROKER_RESOURCE, brokers, keys)
    )
    found = []
    for answer in answers:
        for result in [] if isinstance(answer, Exception) else answer.results:
            if result.error_code == 0:  # only the broker itself can answer
                found.append(_retention_ms({c.name: c.value for c in result.configs}))
    limited = [ms for ms in found if ms >= 0]
    if not found:
        return _KAFKAS_RETENTION_MS
    return min(limited) if limited else -1


def _retention_ms(configs: Mapping[str, str | None]) -> int:
    for name, unit_ms in _RETENTION_UNITS_MS.items():
        value = configs.get(name)
        if value is not None:
            return int(value) * unit_ms if int(value) >= 0 else -1
    return _KAFKAS_RETENTION_MS


def _describe(
    kind: int, names: list[str], keys: list[str] | None = None, *, synonyms: bool = False
) -> Any:
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys
        )
        for name in names
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=synonyms, min_version=1)
