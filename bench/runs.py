"""The commands that are measured, and what they need."""

from __future__ import annotations

import uuid

from bench.measure import Cost, run_kafkeep
from kafkeep.config.kafka import KafkaOptions
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin import Admin
from kafkeep.kafka.wire import Wire


def new_archive(status: DevStatus) -> str:
    return f"s3://{status.s3.bucket}/{uuid.uuid4().hex}"


def new_topic() -> str:
    return f"bench-{uuid.uuid4().hex}"


def kafka_options(status: DevStatus, config: str | None = None) -> KafkaOptions:
    return KafkaOptions.load(status.bootstrap_servers, config)


def delete(status: DevStatus, *names: str) -> None:
    with Wire(kafka_options(status)) as wire:
        Admin(wire).delete_topics(names)


def backup(status: DevStatus, topic: str, archive: str, *more: str, at: str | None = None) -> Cost:
    return run_kafkeep(
        "backup",
        "--bootstrap-servers",
        at or status.bootstrap_servers,
        "--topics",
        topic,
        "--archive",
        archive,
        *more,
    )


def restore(
    status: DevStatus,
    topic: str,
    target: str,
    archive: str,
    *more: str,
    at: str | None = None,
    environment: dict[str, str] | None = None,
) -> Cost:
    return run_kafkeep(
        "restore",
        "--bootstrap-servers",
        at or status.bootstrap_servers,
        "--topics",
        f"{topic}:{target}",
        "--archive",
        archive,
        *more,
        environment=environment,
    )
