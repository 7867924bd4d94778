"""The commands that are measured, and what they need."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.measure import Cost, run_kafkeep
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

GONE_SECONDS = 90


def new_archive(status: DevStatus) -> str:
    return f"s3://{status.s3.bucket}/{uuid.uuid4().hex}"


def new_topic() -> str:
    return f"bench-{uuid.uuid4().hex}"


def kafka_options(status: DevStatus, config: str | None = None) -> KafkaOptions:
    return KafkaOptions.load(status.bootstrap_servers, config)


def delete(status: DevStatus, *names: str) -> None:
    """Delete topics and wait until their files are gone: what is measured next has no part in it.

    The first time after its start, a broker looks for them after a minute.
    """
    with Wire(kafka_options(status)) as wire:
        Admin(wire).delete_topics(names)
    deadline = time.monotonic() + GONE_SECONDS
    while left := _folders(status, names):
        if time.monotonic() > deadline:
            raise SystemExit(f"the broker keeps files of deleted topics: {left[0]}")
        time.sleep(0.1)


def _folders(status: DevStatus, names: Iterable[str]) -> list[Path]:
    """Return the folders of these topics' partitions, also those marked to be removed."""
    mine = re.compile(rf"({'|'.join(map(re.escape, names))})-\d+(\.\w+-delete)?")
    found = Path(status.folder).glob("broker-*/data/*")
    return [folder for folder in found if mine.fullmatch(folder.name)]


def backup(
    status: DevStatus,
    topic: str,
    archive: str,
    *more: str,
    at: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Cost:
    return run_kafkeep(
        "backup",
        "--bootstrap-servers",
        at or status.bootstrap_servers,
        "--topics",
        topic,
        "--archive",
        archive,
        *more,
        environment=environment,
    )


def restore(
    status: DevStatus,
    topic: str,
    target: str,
    archive: str,
    *more: str,
    at: str | None = None,
    environment: Mapping[str, str] | None = None,
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
