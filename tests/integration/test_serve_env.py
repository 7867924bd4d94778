"""``kafkeep serve`` with SINETStream's ``.env`` and with secrets, on real Kafka, S3 and Spark.

The service is a process of its own; calls are made with httpx, objects read with boto3.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.cluster import ANY_TIME, Cluster, until
from tests.support.run_kafkeep import kafkeep
from tests.support.sinetstream_cases import HOUR, envelope
from tests.support.sink_runs import Bucket
from tests.support.waiting import PATIENCE_S

from kafkeep.dev import DevStatus
from kafkeep.dev.process import Ports

pytestmark = pytest.mark.integration
PICTURE = b"\xff\xd8\xff\x00 picture\r\n\n"
PACKAGE = "org.apache.kafka.common.config.provider."
WRONG_SECRET = "hunter22-is-not-the-key"
WORKER = f"""\
kafkeep.state={{folder}}/state
offset.storage.topic=connect-offsets
config.providers=file,env
config.providers.file.class={PACKAGE}FileConfigProvider
config.providers.file.param.allowed.paths={{folder}}/secrets
config.providers.env.class={PACKAGE}EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=CONNECTOR_.*
"""


@dataclass
class World:
    """A service that was started with a ``.env``, and its bucket."""

    http: httpx.Client
    bucket: Bucket
    topic: str
    env_file: Path
    folder: Path
    endpoint: str

    def states(self, name: str) -> list[str]:
        """Return the state of a connector and of its tasks."""
        status = self.http.get(f"/connectors/{name}/status").json()
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def sink(self, **more: str) -> dict[str, str]:
        """Return a connector that stores each record's bytes."""
        return {
            "connector.class": "kafkeep.Backup",
            "topics": self.topic,
            "s3.bucket.name": self.bucket.name,
            "store.url": self.endpoint,
            **{key.replace("_", "."): text for key, text in more.items()},
        }


@pytest.fixture(scope="module")
def world(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    with Ports() as ports:
        folder, port = tmp_path_factory.mktemp("serve-env"), ports.take()
    bucket, s3 = Bucket(services), services.s3
    topic = cluster.create(f"sinetstream.{uuid.uuid4().hex[:8]}", 1, ANY_TIME)
    (folder / ".env").write_text(
        f"BROKER_HOSTNAME={services.bootstrap_servers}\nKAFKA_TOPIC={topic}\n"
        f"AWS_ACCESS_KEY_ID={s3.access_key}\nAWS_SECRET_KEY='{s3.secret_key}'\n"
        f"S3_BUCKET_NAME={bucket.name}\nS3_ENDPOINT_URL={s3.endpoint}\n"
        f"S3_OBJECT_EXTENSION=.jpeg\nREST_PORT={port}\n"
    )
    (folder / "secrets").mkdir()
    (folder / "secrets" / "s3.properties").write_text(f"secret={s3.secret_key}\n")
    (folder / "worker.properties").write_text(WORKER.format(folder=folder))
    command = [sys.executable, "-m", "kafkeep", "serve", "--env-file", str(folder / ".env")]
    command += ["--config", str(folder / "worker.properties")]
    environ = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    environ["CONNECTOR_ACCESS"] = s3.access_key
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environ, start_new_session=True
        )
    http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
    try:
        until(lambda: _is_ready(http, process, folder / "log"), "the service is ready")
        yield World(http, bucket, topic, folder / ".env", folder, s3.endpoint)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        http.close()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
        sys.stderr.write((folder / "log").read_text()[-10_000:])
        cluster.delete(topic)


def _is_ready(http: httpx.Client, process: subprocess.Popen[Any], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return http.get("/health/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_register_does_what_register_sh_did(world: World, cluster: Cluster) -> None:
    first = kafkeep("register", "--env-file", world.env_file).expect()
    assert first.stdout == "s3-sink-data: created\ns3-sink-timestamp: created\n"
    again = kafkeep("register", "--env-file", world.env_file).expect()
    assert again.stdout == "s3-sink-data: unchanged\ns3-sink-timestamp: unchanged\n"
    assert sorted(world.http.get("/connectors").json()) == ["s3-sink-data", "s3-sink-timestamp"]

    sent = {"value": envelope(PICTURE, (HOUR - 250) * 1000), "timestamp": HOUR}
    cluster.produce(world.topic, [sent, {**sent, "value": b"in no envelope"}])
    stem = f"topics/{world.topic}/year=2022/month=04/day=18/hour=10/{world.topic}+0+000000000"
    expected = {
        f"{stem}0.jpeg": PICTURE,
        f"{stem}0-timestamp.txt": b"2022-04-18T00:59:59.750",
        f"{stem}1.jpeg": b"in no envelope",
        f"{stem}1-timestamp.txt": b"2022-04-18T01:00:00.000",
    }
    until(lambda: world.bucket.list_keys() >= set(expected), "the objects are there")
    assert {key: world.bucket.read(key) for key in expected} == expected
    for name in ("s3-sink-data", "s3-sink-timestamp"):
        status = world.http.get(f"/connectors/{name}/tasks/0/status").json()
        assert status["state"] == "RUNNING"
        assert status["worker_id"].endswith(f":{world.http.base_url.port}")


def test_secrets_are_used_and_not_shown(world: World) -> None:
    secret = f"${{file:{world.folder}/secrets/s3.properties:secret}}"
    config = world.sink(aws_access_key_id="${env:CONNECTOR_ACCESS}", aws_secret_access_key=secret)
    assert world.http.put("/connectors/refers/config", json=config).status_code == 201
    until(lambda: world.states("refers") == ["RUNNING", "RUNNING"], "it runs")
    shown = world.http.get("/connectors/refers/config").json()
    assert shown["aws.secret.access.key"] == secret
    until(lambda: _log_of("refers", world) != [], "its log is in the bucket")

    said = (world.folder / "log").read_text() + _state(world)
    real = (world.folder / "secrets" / "s3.properties").read_text().strip().removeprefix("secret=")
    assert real not in said


def test_a_literal_secret_is_masked_and_comes_back_as_it_was(world: World) -> None:
    config = world.sink(aws_access_key_id="nobody", aws_secret_access_key=WRONG_SECRET)
    world.http.put("/connectors/literal/config", json=config).raise_for_status()
    for path in ("", "/config", "/tasks", "/status"):
        assert WRONG_SECRET not in world.http.get(f"/connectors/literal{path}").text
    shown = world.http.get("/connectors/literal/config").json()
    assert shown["aws.secret.access.key"] == "******"
    assert world.http.put("/connectors/literal/config", json=shown).status_code == 200
    assert WRONG_SECRET in _state(world)

    until(lambda: "FAILED" in world.states("literal"), "the store refuses it")
    status = world.http.get("/connectors/literal/status").text
    assert "trace" in status
    assert WRONG_SECRET not in status + (world.folder / "log").read_text()
    stolen = {**shown, "store.url": "http://localhost:1"}
    answer = world.http.put("/connectors/literal/config", json=stolen)
    assert answer.status_code == 400
    assert "store.url has changed" in answer.text


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("aws.secret.access.key", "${file:/etc/passwd:root}", "allowed.paths"),
        ("aws.secret.access.key", "${env:HOME}", "allowlist.pattern"),
        ("aws.secret.access.key", "${vault:a:b}", "config.providers=file,env,vault"),
        ("store.url", "http://169.254.169.254", "kafkeep.outbound.hosts"),
        ("store.url", "http://2852039166/", "kafkeep.outbound.hosts"),
        ("consumer.override.sasl.login.callback.handler.class", "x.Y", "refused"),
        ("consumer.override.ssl.keystore.location", "/etc/ssl/a", "kafkeep.allowed.folders"),
    ],
)
def test_what_the_worker_does_not_allow_is_refused_with_the_reason(
    world: World, key: str, text: str, why: str
) -> None:
    config = {**world.sink(aws_access_key_id="a", aws_secret_access_key="b"), key: text}
    answer = world.http.post("/connectors", json={"name": "refused", "config": config})
    assert answer.status_code == 400
    assert why in answer.json()["message"]
    assert "refused" not in world.http.get("/connectors").json()


def _log_of(name: str, world: World) -> list[str]:
    found = world.bucket.client.list_objects_v2(
        Bucket=world.bucket.name, Prefix=f"_kafkeep/{name}/"
    )
    return [row["Key"] for row in found.get("Contents", [])]


def _state(world: World) -> str:
    """Return all that is written down; signs of life come and go meanwhile."""
    texts = []
    for path in (world.folder / "state").rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):
            texts.append(path.read_text(errors="replace"))
    assert texts
    return "".join(texts)
