"""``kafkeep serve`` in processes of its own, and topics whose records know their number."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import httpx
from confluent_kafka import Producer
from tests.support.cluster import Cluster
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev import DevStatus

FLUSH = 5
PARTITIONS = 2
LEASE_MS = 6_000


class Service:
    """One ``kafkeep serve`` in a process group of its own, Spark's JVM included."""

    def __init__(
        self, services: DevStatus, state: str, log: Path, port: int = 0, flags: Sequence[str] = ()
    ) -> None:
        self._log = log.open("ab")
        command = [sys.executable, "-m", "kafkeep", "serve", "--output", "json"]
        command += ["--port", str(port)]
        command += ["--bootstrap-servers", services.bootstrap_servers, "--state", state]
        command += ["--set", f"kafkeep.lease.timeout.ms={LEASE_MS}", *flags]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env=_environ(services),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, log.read_text()
        self.ready = json.loads(line)
        self.http = httpx.Client(base_url=self.ready["url"], timeout=PATIENCE_S)

    def call(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def states(self, name: str) -> tuple[str, list[str]]:
        status = self.call("GET", f"/connectors/{name}/status")
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]

    def leads(self) -> bool:
        return bool(self.http.get("/health").json()["is_leader"])  # 503 while nobody does

    def wait_ready(self) -> Service:
        until(lambda: self.http.get("/health").status_code == 200, "the service is ready")
        return self

    def jvm(self) -> int:
        """Return the process of Spark's JVM."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
                command = stat.with_name("cmdline").read_bytes()
            except (OSError, IndexError):
                continue  # it has ended
            if parent == self.process.pid and b"PythonGatewayServer" in command:
                return int(stat.parent.name)
        raise AssertionError("Spark does not run")

    def end(self) -> int:
        """Stop it as an init system does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self._close()
        return code

    def kill(self) -> None:
        """Let everything of it be gone at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE_S)
        self._close()

    def _close(self) -> None:
        self.http.close()
        self._log.close()
        if self.process.stdout is not None:
            self.process.stdout.close()


def _environ(services: DevStatus) -> Mapping[str, str]:
    """The state lies in a bucket, whose credentials are the service's own."""
    left = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3")
    kept = {name: text for name, text in os.environ.items() if name not in left}
    return {**kept, **services.s3.environment}


@dataclass
class World:
    """What the tests of this file share."""

    services: DevStatus
    cluster: Cluster
    log: Path
    folder: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    running: list[Service] = field(default_factory=list)
    flags: tuple[str, ...] = ()
    """More flags of each service."""

    def start(self, port: int = 0) -> Service:
        state = f"s3://{self.services.s3.bucket}/{self.folder}-state"
        service = Service(self.services, state, self.log, port, self.flags)
        self.running.append(service)
        return service

    def damage_newest_heartbeat(self) -> None:
        """Flip a bit of it, and put a stray file beside it."""
        s3 = self.services.s3
        client = boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            region_name=s3.region,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=s3.secret_key,
        )
        rows = client.list_objects_v2(Bucket=s3.bucket, Prefix=f"{self.folder}-state/")["Contents"]
        newest = max(row["Key"] for row in rows if "/lease/" in row["Key"])
        body = client.get_object(Bucket=s3.bucket, Key=newest)["Body"].read()
        client.put_object(Bucket=s3.bucket, Key=newest, Body=body[:-9] + b"!" + body[-8:])
        client.put_object(Bucket=s3.bucket, Key=f"{newest}.bak", Body=b"stray")

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

    def source(self, topic: Topic, log: str) -> dict[str, str]:
        """Return what brings a topic back from a sink's log while that grows."""
        places = ("s3.bucket.name", "s3.region", "store.url", "aws.")
        where = {k: v for k, v in self.config(topic).items() if k.startswith(places)}
        return {
            "connector.class": "kafkeep.Restore",
            "topics": f"{topic.name}:{topic.name}-back",
            "restore.log": log,
            "poll.interval.ms": "300",
            **where,
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
        assert producer.flush(PATIENCE_S) == 0

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
