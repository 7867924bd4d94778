"""Spredfast's connectors, done on ``kafkeep serve``: a topic kept in S3, lost, and brought back.

The store's keys are not in the connectors but in a file ``aws/credentials`` of the service, and
each connector is a file that is posted with ``curl -d @``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import Cluster, until
from tests.support.connect.curl_service import PATIENCE, CurlService, Shelf, curl_service
from tests.support.independent_client import dump

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration

PACKAGE = "com.spredfast.kafka.connect.s3."
JSON = ("-H", "Content-Type: application/json", "-H", "Accept: application/json")
LINES = [b"hello world", b"", "приветствие".encode(), b"\x00\xff no text", b"x" * 5_000]


@dataclass
class Stack:
    """What the compose file brings up."""

    service: CurlService
    cluster: Cluster
    bucket: Shelf
    endpoint: str

    def post(self, name: str, config: dict[str, str]) -> Any:
        """Create a connector as it is written down: verbose, with its file."""
        file = self.service.write(f"{name}.json", {"name": name, "config": config})
        return self.service.curl("-v", "-d", f"@{file}", *JSON, "/connectors").expect(201)

    def common(self, topic: str) -> dict[str, str]:
        return {
            "topics": topic,
            "tasks.max": "1",
            "format": "binary",
            "format.include.keys": "true",
            "s3.bucket": self.bucket.name,
            "s3.prefix": "connect",
            "s3.endpoint": self.endpoint,
            "s3.path_style": "true",
            "key.converter": PACKAGE + "AlreadyBytesConverter",
            "value.converter": PACKAGE + "AlreadyBytesConverter",
        }

    def sink(self, topic: str) -> dict[str, str]:
        return {
            "connector.class": PACKAGE + "sink.S3SinkConnector",
            **self.common(topic),
            "local.buffer.dir": "/tmp/connect-system-test",
            "compressed_block_size": "67108864",
            "segment.age": "500ms",  # a minute unless told
        }

    def source(self, topic: str) -> dict[str, str]:
        return {
            "connector.class": PACKAGE + "source.S3SourceConnector",
            **self.common(topic),
            "max.partition.count": "200",
            "s3.new.record.poll.interval": "200",
        }

    def contents(self, topic: str) -> dict[int, list[tuple[object, ...]]]:
        """What any consumer gets from a topic."""
        found = dump(self.cluster.bootstrap, topic)
        return {number: [record.content for record in all_] for number, all_ in found.items()}

    def wait_kept(self, name: str, topic: str, ends: dict[int, int]) -> None:
        """Wait until a sink's offsets, as it tells them, are the topic's ends."""

        def kept() -> bool:
            said = self.service.curl(f"/connectors/{name}/offsets").expect()["offsets"]
            return {
                one["partition"]["kafka_partition"]: one["offset"]["kafka_offset"]
                for one in said
                if one["partition"]["kafka_topic"] == topic
            } == ends

        until(kept, f"{topic} is kept to its end", seconds=PATIENCE)


@pytest.fixture(scope="module")
def stack(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    folder, s3 = tmp_path_factory.mktemp("spredfast"), services.s3
    bucket = Shelf(services, f"example-kafka-backup-bucket-{uuid.uuid4().hex[:6]}")
    bucket.client.create_bucket(Bucket=bucket.name)
    with curl_service(services, folder, environ=_environ(folder, services)) as service:
        yield Stack(service, cluster, bucket, s3.endpoint)
        assert service.end() == 0
    bucket.remove()


def _environ(folder: Path, services: DevStatus) -> dict[str, str]:
    """The file of the store's keys, as AWS's tools have it, and where it is."""
    credentials = folder / "aws" / "credentials"
    credentials.parent.mkdir()
    credentials.write_text(
        f"[default]\naws_access_key_id = {services.s3.access_key}\n"
        f"aws_secret_access_key = {services.s3.secret_key}\n"
    )
    rest = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    return {**rest, "AWS_SHARED_CREDENTIALS_FILE": str(credentials)}


def test_a_topic_is_kept_lost_and_brought_back(stack: Stack) -> None:
    service, cluster = stack.service, stack.cluster
    topic = cluster.create(f"example-topic-{uuid.uuid4().hex[:6]}")
    cluster.produce(topic, [{"value": line} for line in LINES])
    before = stack.contents(topic)
    assert [content[2] for content in before[0]] == LINES

    made = stack.post("example-topic-backup-tasks", stack.sink(topic))
    assert (made["type"], made["config"]["s3.bucket"]) == ("sink", stack.bucket.name)
    stack.wait_kept("example-topic-backup-tasks", topic, {0: len(LINES)})
    assert [key for key in stack.bucket.sizes("connect/") if topic in key]
    # Another store than Amazon's, and no error about a sum that does not fit.
    service.wait_running("example-topic-backup-tasks")

    service.curl("-X", "DELETE", "/connectors/example-topic-backup-tasks").expect(204)
    cluster.delete(topic)
    assert service.curl("/connectors").expect() == []

    stack.post("example-restore", stack.source(topic))
    until(lambda: cluster.partitions(topic) == [0], "the topic is there again", seconds=PATIENCE)
    until(lambda: cluster.end(topic) == len(LINES), "and its records", seconds=PATIENCE)
    assert stack.contents(topic) == before
    assert service.curl("/connectors/example-restore/status").expect()["type"] == "source"
    service.curl("-X", "DELETE", "/connectors/example-restore").expect(204)


def test_keys_are_kept_and_a_topic_can_come_back_under_another_name(stack: Stack) -> None:
    """A compacted topic of configurations, as Connect itself has one."""
    service, cluster = stack.service, stack.cluster
    compacted = {"cleanup.policy": "compact"}
    topic = cluster.create(f"kafka-connect.config-{uuid.uuid4().hex[:6]}", 2, compacted)
    headers = [("who", b"worker"), ("who", b""), ("none", None)]
    for partition in (0, 1):
        sent = [
            {"key": b"connector-%d" % (n % 3), "value": b'{"n":%d}' % n, "headers": headers}
            for n in range(6)
        ]
        sent.append({"key": b"connector-1", "value": None})
        cluster.produce(topic, [{**one, "partition": partition} for one in sent])
    before = stack.contents(topic)
    assert {len(records) for records in before.values()} == {7}

    stack.post("kafka-connect-topic-backup-tasks", stack.sink(topic))
    stack.wait_kept("kafka-connect-topic-backup-tasks", topic, {0: 7, 1: 7})
    # Two logs lie there, and the source that brought the first topic back may be named again: the
    # topic says which log is meant.
    names = ("kafka-connect-topic-restore", "example-restore")
    for name in names:
        target = f"{topic}-by-{name}"
        stack.post(name, {**stack.source(topic), f"targetTopic.{topic}": target})
        until(lambda t=target: _ends(cluster, t) == [7, 7], "all is back", seconds=PATIENCE)
        assert stack.contents(target) == before
        # Put back when all records are there: nothing is compacted before.
        until(
            lambda t=target: cluster.config(t)["cleanup.policy"] == "compact",  # type: ignore[misc]
            "its settings are back",
            seconds=PATIENCE,
        )
    for name in ("kafka-connect-topic-backup-tasks", *names):
        service.wait_running(name)
        service.curl("-X", "DELETE", f"/connectors/{name}").expect(204)


def _ends(cluster: Cluster, topic: str) -> list[int]:
    return [cluster.end(topic, number) for number in cluster.partitions(topic)]
