"""Kafka: is it there, how do we talk to it, and what may we see."""

from __future__ import annotations

from collections.abc import Iterator

from kafkeep.care.doctor.check import failed, passed, warned
from kafkeep.check import Check
from kafkeep.config.kafka import KafkaOptions
from kafkeep.errors import AccessDeniedError, KafkeepError
from kafkeep.kafka.admin import Admin
from kafkeep.kafka.groups import list_groups
from kafkeep.kafka.wire import Wire

TIMEOUT_MS = 10_000


def check_kafka(options: KafkaOptions) -> Iterator[Check]:
    """Connect, then ask for all that a backup asks for; changes nothing."""
    with Wire(options, connect_timeout_ms=TIMEOUT_MS) as wire:
        admin = Admin(wire, timeout_ms=TIMEOUT_MS)
        cluster = admin.cluster_id()
        version = ".".join(map(str, admin.broker_version()))
        brokers = len(admin.brokers())
        yield passed(
            "kafka", f"cluster {cluster}, version {version}, {brokers} broker(s), {_way(options)}"
        )
        yield from _check_topics(admin)
        yield from _check_groups(admin)


def _way(options: KafkaOptions) -> str:
    protocol = options.properties.get("security.protocol", "PLAINTEXT").upper()
    mechanism = options.properties.get("sasl.mechanism", "GSSAPI")
    return f"{protocol} ({mechanism})" if protocol.startswith("SASL") else protocol


def _check_topics(admin: Admin) -> Iterator[Check]:
    names = sorted(admin.topics())
    if not names:
        yield warned(
            "kafka topics",
            "none can be seen",
            "Grant Describe and Read on the topics to be backed up.",
        )
        return
    yield passed("kafka topics", f"{len(names)} can be seen")
    try:
        admin.topic_configs(names[:1])
    except AccessDeniedError as error:
        yield warned(
            "kafka settings",
            error.message,
            "Grant DescribeConfigs on the topics, or they are restored with default settings.",
        )
    else:
        yield passed("kafka settings", "topic settings can be read")


def _check_groups(admin: Admin) -> Iterator[Check]:
    try:
        groups = list_groups(admin)
    except AccessDeniedError as error:
        hint = "Grant Describe on groups, or their offsets are not kept."
        yield warned("kafka groups", error.message, hint)
    except KafkeepError as error:
        yield failed("kafka groups", error)
    else:
        yield passed("kafka groups", f"{len(groups)} can be seen")
