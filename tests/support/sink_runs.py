"""Run kafkeep as the sink connector of a stored case, and see what it left behind."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import boto3
import pytest
from confluent_kafka import TopicPartition
from tests.support.cluster import WAIT, Cluster
from tests.support.golden.cases import GoldenCase, GoldenRecord

from kafkeep.archive.object_store import ObjectStore
from kafkeep.backup import run
from kafkeep.backup.summary import BackupSummary
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.dev import DevStatus
from kafkeep.errors import KafkeepError
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.spark import SparkOptions

OWN = "_kafkeep/"
"""Where the log lies; everything else under an archive is data."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a connector left behind, and how it ended."""

    objects: Mapping[str, bytes]
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    error: str | None = None
    dlq: tuple[GoldenRecord, ...] = ()


class Bucket:
    """A bucket of the test's own, seen by a client that is not kafkeep's."""

    def __init__(self, services: DevStatus) -> None:
        s3 = services.s3
        self.name = f"golden-{uuid.uuid4().hex[:8]}"
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=s3.secret_key,
            region_name=s3.region,
        )
        self.client.create_bucket(Bucket=self.name)

    def list_keys(self) -> set[str]:
        """Return the keys of all data objects."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        found = {entry["Key"] for page in pages for entry in page.get("Contents", ())}
        return {key for key in found if not key.startswith(OWN)}

    def read(self, key: str) -> bytes:
        """Return one object."""
        body: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body

    def remove(self) -> None:
        """Delete it with all it holds: each bucket takes up room that others want."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        for key in [entry["Key"] for page in pages for entry in page.get("Contents", ())]:
            self.client.delete_object(Bucket=self.name, Key=key)
        self.client.delete_bucket(Bucket=self.name)

    def tags(self, key: str) -> dict[str, str]:
        """Return the tags of one object."""
        answer = self.client.get_object_tagging(Bucket=self.name, Key=key)
        return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}


def filled_in(config: Mapping[str, str], services: DevStatus, bucket: str) -> dict[str, str]:
    """Return a configuration with the locations of this machine in it."""
    locations = {
        "${ENDPOINT}": services.s3.endpoint,
        "${ACCESS_KEY}": services.s3.access_key,
        "${SECRET_KEY}": services.s3.secret_key,
        "${BUCKET}": bucket,
    }
    return {name: locations.get(value, value) for name, value in config.items()}


def run_sink(
    case: GoldenCase,
    services: DevStatus,
    bucket: Bucket,
    *,
    settings: Mapping[str, str] | None = None,
) -> Outcome:
    """Run the case's connector until it is idle; in as many phases as the case has.

    With ``settings`` in its configuration it is another connector, with a log of its own. Between
    phases the consumer group is deleted, which the real sink takes its position from.
    """
    cluster = Cluster(services.bootstrap_servers)
    name = case.connector if not settings else f"{case.connector}-{uuid.uuid4().hex[:6]}"
    before = bucket.list_keys()
    error: str | None = None
    for phase in range(max(1, len(case.phases))):
        config = filled_in({**case.config, **(settings or {})}, services, bucket.name)
        if case.number == "49" and phase == 0:
            config = {n: value for n, value in config.items() if not n.startswith("errors.")}
        if phase:
            _delete_group(cluster, f"connect-{name}")
        try:
            left = len(case.records) if phase == 0 else None
            run_connector({**config, "name": name}, services.bootstrap_servers, records=left)
        except KafkeepError as failure:
            error = f"{failure.message} {failure.hint or ''}"
    written = sorted(bucket.list_keys() - before)
    dead_letters = case.config.get("errors.deadletterqueue.topic.name")
    return Outcome(
        objects={key: bucket.read(key) for key in written},
        tags={key: bucket.tags(key) for key in written} if case.tags else {},
        error=error,
        dlq=_read_topic(cluster, dead_letters) if dead_letters else (),
    )


@contextmanager
def probed_once() -> Iterator[None]:
    """Spare every connector after the first the question whether the store can be trusted.

    It takes longer than a small case, and they all use one server.
    """
    answers: list[bool] = []
    ask = run.probe_conditional_create

    def probe(store: ObjectStore) -> bool:
        if not answers:
            answers.append(ask(store))
        return answers[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "probe_conditional_create", probe)
        yield


def run_connector(
    config: Mapping[str, str], bootstrap_servers: str, *, records: int | None = None
) -> None:
    """Run one connector until no rule can close a file any more; tails stay in Kafka.

    With rotation by the clock it goes on until it has written so many ``records``; without a
    number, until it has written nothing for longer than a step.
    """
    read = ConnectorConfig.from_map(config)
    options = BackupOptions(
        topics=read.topics,
        topics_regex=read.topics_regex,
        name=read.name,
        format=read.format,
        isolation_level=read.isolation_level,
        sink=read.sink,
        keeps_tail=True,
    )
    locations = Locations(
        kafka=KafkaOptions(bootstrap_servers), archive=read.archive, storage=read.storage
    )
    step = int(config.get("rotate.schedule.interval.ms", -1))
    if step < 0:
        run.run_backup(options, locations, SparkOptions.load())
    else:
        follow = replace(options, follow=True, interval_ms=500)
        quiet_s = WAIT if records is not None else step / 1000 + 5
        _follow(follow, locations, records=records, quiet_s=quiet_s)


def _follow(
    options: BackupOptions, locations: Locations, *, records: int | None, quiet_s: float
) -> None:
    stop = threading.Event()
    last = time.monotonic()

    def on_commit(_commit: object, summary: BackupSummary) -> None:
        nonlocal last
        last = time.monotonic()
        if summary.records == records:
            stop.set()

    def watch() -> None:
        while time.monotonic() - last < quiet_s and not stop.wait(0.2):
            pass
        stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run.run_backup(options, locations, SparkOptions.load(), stop=stop, on_commit=on_commit)
    finally:
        stop.set()
        watcher.join()


def _delete_group(cluster: Cluster, group: str) -> None:
    deleted = cluster.admin.delete_consumer_groups([group], request_timeout=WAIT)
    failure = deleted[group].exception()
    assert failure is None or "GROUP_ID_NOT_FOUND" in str(failure), failure


def _read_topic(cluster: Cluster, topic: str) -> tuple[GoldenRecord, ...]:
    """Return everything in a topic of one partition; nothing when it is not there."""
    if not cluster.partitions(topic):
        return ()
    found: list[GoldenRecord] = []
    with cluster.consumer("golden-letters") as consumer:
        where = TopicPartition(topic, 0, 0)
        end = consumer.get_watermark_offsets(where, timeout=WAIT)[1]
        consumer.assign([where])
        deadline = time.monotonic() + WAIT
        while len(found) < end and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=0.05):
                assert message.error() is None
                headers = tuple(message.headers() or ())
                found.append(
                    GoldenRecord(
                        topic, 0, message.offset(), message.timestamp()[1],
                        message.key(), message.value(), headers,
                    )
                )  # fmt: skip
    return tuple(found)
