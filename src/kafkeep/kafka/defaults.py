"""What a topic would be set to if it set nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from kafkeep.kafka.admin import Admin
from kafkeep.kafka.failures import refusal

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_SET_ON_TOPIC = 1
_RETENTION_UNITS_MS = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
}
"""The broker's settings behind retention.ms: the first that is set counts."""
_KAFKAS_RETENTION_MS = 168 * 3_600_000


def topic_defaults(admin: Admin, topic: str) -> dict[str, str]:
    """Return the settings the cluster would use for ``topic`` without its own."""
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
            for synonym in config.synonyms:  # the strongest first
                if synonym.source != _SET_ON_TOPIC and synonym.value is not None:
                    defaults.setdefault(config.name, synonym.value)
    if "retention.ms" not in defaults:
        # Kafka names no synonym where only log.retention.hours is set, which is the usual case.
        defaults["retention.ms"] = str(_broker_retention_ms(admin))
    return defaults


def new_topic_defaults(admin: Admin) -> dict[str, str]:
    """Return how long the cluster keeps records of a topic that is not there yet."""
    return {"retention.ms": str(_broker_retention_ms(admin))}


def _broker_retention_ms(admin: Admin) -> int:
    """Return the shortest retention any broker uses; Kafka's own where none may be asked."""
    brokers = [str(broker.node_id) for broker in admin.brokers()]
    # A broker's settings are hundreds: to hear of all of them takes an eighth of a second.
    keys = list(_RETENTION_UNITS_MS)
    answers = admin.wire.call(
        admin.routes.each_broker, lambda: _describe(_BROKER_RESOURCE, brokers, keys)
    )
    found = []
    for answer in answers:
        for result in [] if isinstance(answer, Exception) else answer.results:
            if result.error_code == 0:  # a broker answers for itself alone
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
