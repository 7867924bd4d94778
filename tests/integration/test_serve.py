"""``kafkeep serve`` on real Kafka, S3 and Spark: connectors over REST, objects by boto3.

Every record is in one object and no other, whatever is done to connectors and services. The tests
share one state and run in order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from confluent_kafka import Producer

from cluster import Cluster
from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration
FLUSH = 5
PARTITIONS = 2
LEASE_MS = 2_000


class Service:
    """One ``kafkeep serve`` in a process group of its own, Spark's JVM included."""

    def __init__(self, services: DevStatus, state: Path, log: Path) -> None:
        self._log = log.open("ab")
        command = [sys.executable, "-m", "kafkeep", "serve", "--output", "json", "--port", "0"]
        command += ["--bootstrap-servers", services.bootstrap_servers, "--state", str(state)]
        command += ["--set", f"kafkeep.lease.timeout.ms={LEASE_MS}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, log.read_text()
        self.ready = json.loads(line)
        self.http = httpx.Client(base_url=self.ready["url"], timeout=30)

    def call(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def states(self, name: str) -> tuple[str, list[str]]:
        status = self.call("GET", f"/connectors/{name}/status")
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]

    def leads(self) -> bool:
        return bool(self.call("GET", "/health")["is_leader"])

    def wait_ready(self) -> Service:
        until(lambda: self.http.get("/health").status_code == 200, "the service is ready")
        return self

    def end(self) -> int:
        """Stop it as an init system does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(40)
        self._close()
        return code

    def kill(self) -> None:
        """Let everything of it be gone at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        self._close()

    def _close(self) -> None:
        self.http.close()
        self._log.close()
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass
class World:
    """What the tests of this file share."""

    services: DevStatus
    cluster: Cluster
    state: Path
    log: Path
    folder: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    running: list[Service] = field(default_factory=list)

    def start(self) -> Service:
        service = Service(self.services, self.state, self.log)
        self.running.append(service)
        return service

    def topic(self, name: str) -> Topic:
        topic = f"{name}-{self.folder}"
        self.cluster.create(topic, PARTITIONS)
        return Topic(self, topic)

    def config(self, topic: Topic, **more: str) -> dict[str, str]:
        s3 = self.services.s3
        return {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "tasks.max": "2",
            "topics": topic.name,
            "topics.dir": self.folder,
            "s3.bucket.name": s3.bucket,
            "s3.region": s3.region,
            "store.url": s3.endpoint,
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
            "flush.size": str(FLUSH),
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            **more,
        }


@dataclass
class Topic:
    """A topic whose records know their number, and what lies of it in the bucket."""

    world: World
    name: str
    sent: int = 0

    def send(self, objects: int) -> None:
        """Fill so many objects of each partition."""
        producer = Producer({"bootstrap.servers": self.world.services.bootstrap_servers})
        for _ in range(objects * FLUSH):
            for partition in range(PARTITIONS):
                value = json.dumps({"n": self.sent}).encode()
                producer.produce(self.name, value=value, partition=partition)
                self.sent += 1
        assert producer.flush(30) == 0

    def stored(self) -> list[int]:
        """Return the numbers of all records in the bucket."""
        s3 = self.world.services.s3
        client = boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            region_name=s3.region,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=s3.secret_key,
        )
        prefix = f"{self.world.folder}/{self.name}/"
        found: list[int] = []
        for page in client.get_paginator("list_objects_v2").paginate(
            Bucket=s3.bucket, Prefix=prefix
        ):
            for row in page.get("Contents", []):
                body = client.get_object(Bucket=s3.bucket, Key=row["Key"])["Body"].read()
                found += [json.loads(line)["n"] for line in body.splitlines()]
        return sorted(found)

    def expect_all(self) -> None:
        """Wait until everything sent is stored, once."""
        until(lambda: len(self.stored()) >= self.sent, f"{self.sent} records are stored")
        assert self.stored() == list(range(self.sent))


def until(what: Callable[[], bool], claim: str, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not true in {seconds} s: {claim}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def world(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("serve")
    made = World(services, cluster, folder / "state", folder / "log")
    yield made
    for service in made.running:
        service.kill()
    sys.stderr.write(made.log.read_text()[-20_000:])


@pytest.fixture(scope="module")
def service(world: World) -> Service:
    return world.start().wait_ready()


def test_pause_stop_restart_and_a_new_start_under_the_name_lose_and_double_nothing(
    world: World, service: Service
) -> None:
    topic = world.topic("story")
    config = world.config(topic)
    made = service.call("POST", "/connectors", {"name": "story", "config": config}, expect=201)
    assert made["config"]["aws.secret.access.key"] == "******"
    topic.send(2)
    topic.expect_all()
    until(lambda: service.states("story") == ("RUNNING", ["RUNNING"] * 2), "both tasks run")

    service.call("PUT", "/connectors/story/pause", expect=202)
    until(lambda: service.states("story") == ("PAUSED", ["PAUSED"] * 2), "both tasks pause")
    before = topic.sent
    topic.send(1)
    time.sleep(2.5)
    assert len(topic.stored()) == before
    service.call("PUT", "/connectors/story/resume", expect=202)
    topic.expect_all()

    service.call("PUT", "/connectors/story/stop", expect=204)
    assert service.states("story") == ("STOPPED", [])
    assert service.call("GET", "/connectors/story/tasks") == []
    topic.send(1)
    service.call("PUT", "/connectors/story/resume", expect=202)
    restarted = service.call(
        "POST", "/connectors/story/restart?includeTasks=true&onlyFailed=false", expect=202
    )
    assert restarted["connector"]["state"] == "RESTARTING"
    topic.expect_all()

    # What was shown is sent back, masks included: nothing changes and nothing is restarted.
    shown = service.call("GET", "/connectors/story/config")
    service.call("PUT", "/connectors/story/config", shown)
    service.call("DELETE", "/connectors/story", expect=204)
    topic.send(1)
    service.call("POST", "/connectors", {"name": "story", "config": config}, expect=201)
    topic.expect_all()
    assert service.call("GET", "/connectors/story/topics") == {"story": {"topics": [topic.name]}}


def test_a_connector_that_fails_leaves_the_one_beside_it_running_and_can_be_mended(
    world: World, service: Service
) -> None:
    bad, good = world.topic("bad"), world.topic("good")
    producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
    for _ in range(FLUSH):  # a sink reads when there is enough for an object
        producer.produce(bad.name, value=b"{not json", partition=0)
    assert producer.flush(30) == 0
    for topic, name in ((bad, "bad"), (good, "good")):
        body = {"name": name, "config": world.config(topic)}
        service.call("POST", "/connectors", body, expect=201)
    until(lambda: "FAILED" in service.states("bad")[1], "the bad record is met")
    trace = service.call("GET", "/connectors/bad/tasks/0/status")["trace"]
    assert f"{bad.name}-0" in trace
    assert world.services.s3.secret_key not in trace
    good.send(1)
    good.expect_all()
    assert service.states("good")[0] == "RUNNING"
    assert service.call("GET", "/health")["failed"] == ["bad"]

    service.call("PATCH", "/connectors/bad/config", {"errors.tolerance": "all"})
    until(lambda: service.states("bad") == ("RUNNING", ["RUNNING"] * 2), "it is mended")
    bad.send(1)
    bad.expect_all()
    service.call("DELETE", "/connectors/bad", expect=204)


def test_a_service_started_again_keeps_its_connectors_and_what_they_were_told(
    world: World, service: Service
) -> None:
    service.call("PUT", "/connectors/good/pause", expect=202)
    body = {"name": "idle", "config": world.config(world.topic("idle")), "initial_state": "STOPPED"}
    service.call("POST", "/connectors", body, expect=201)
    assert service.end() == 0
    again = world.start().wait_ready()
    assert again.call("GET", "/connectors") == ["good", "idle", "story"]
    assert again.states("idle") == ("STOPPED", [])
    until(lambda: again.states("good") == ("PAUSED", ["PAUSED"] * 2), "it is paused as before")
    until(lambda: again.states("story") == ("RUNNING", ["RUNNING"] * 2), "it runs as before")


def test_the_other_service_takes_over_when_the_leader_is_killed(world: World) -> None:
    leader = world.running[-1]
    follower = world.start().wait_ready()
    assert leader.leads()
    assert not follower.leads()
    topic = world.topic("two")
    body = {"name": "two", "config": world.config(topic)}
    follower.call("POST", "/connectors", body, expect=201)  # carried out by the leader
    follower.call("POST", "/connectors", body, expect=409)
    until(lambda: follower.states("two") == ("RUNNING", ["RUNNING"] * 2), "the follower tells it")
    assert follower.call("GET", "/connectors/two/status") == leader.call(
        "GET", "/connectors/two/status"
    )
    for _ in range(4):
        topic.send(2)
        time.sleep(0.3)
    leader.kill()
    topic.send(3)
    until(follower.leads, "the follower leads")
    topic.send(2)
    topic.expect_all()
    assert follower.states("two")[0] == "RUNNING"
    follower.call("PUT", "/connectors/two/stop", expect=204)
    assert follower.end() == 0
