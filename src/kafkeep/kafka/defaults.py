"""What a topic would be set to if it set nothing itself."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from kafkeep.kafka.admin import Admin
from kafkeep.kafka.failures import refusal

_TOPIC_RESOURCE = 2
_SET_ON_TOPIC = 1


def topic_defaults(admin: Admin, topic: str) -> dict[str, str]:
    """Return the settings the cluster would use for ``topic`` without its own."""
    kind = DescribeConfigsRequest.DescribeConfigsResource

    def make() -> Any:
        resource = kind(
            resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
        )
        return DescribeConfigsRequest(resources=[resource], include_synonyms=True, min_version=1)

    answer = admin.wire.call(
        admin.routes.any_broker, make, lambda found: [r.error_code for r in found.results]
    )
    defaults: dict[str, str] = {}
    for result in answer.results:
        if result.error_code:
            raise refusal(result.error_code, f"the settings of topic {topic}")
        for config in result.configs:
            for synonym in config.synonyms:  # the strongest first
                if synonym.source != _SET_ON_TOPIC and synonym.value is not None:
                    defaults.setdefault(config.name, synonym.value)
    return defaults
