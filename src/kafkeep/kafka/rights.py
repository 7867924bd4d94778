"""What we may do to topics, as the broker tells it. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from kafkeep.kafka.admin import Admin


class Right(IntEnum):
    """An operation on a topic, by Kafka's number; the name is that of ACLs."""

    READ = 3
    WRITE = 4
    DELETE = 6
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11

    @property
    def label(self) -> str:
        """As Kafka's documents write it."""
        return "".join(word.title() for word in self.name.split("_"))


def topic_rights(admin: Admin, names: Collection[str]) -> dict[str, frozenset[Right]]:
    """Return what we may do to each of these topics; without those of which nothing is told.

    Brokers before 2.3 tell nothing.
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
        topic.name: frozenset(right for right in Right if right in topic.authorized_operations)
        for topic in answer.topics
        if not topic.error_code and topic.authorized_operations is not None
    }
