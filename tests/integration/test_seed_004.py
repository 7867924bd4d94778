"""SINETStream's document, done on ``kafkeep serve``: a ``.env`` and the two connectors it makes.

How the ``.env`` is read and what payloads become is shown in test_serve_env.py; here are the steps
of the document that are left: what is not said in the ``.env``, the calls that look at the
connectors, and how they are registered again after the ``.env`` was changed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cluster import ANY_TIME, Cluster, until
from tests.support.connect.curl_service import PATIENCE, CurlService, Shelf, curl_service
from tests.support.run_kafkeep import kafkeep
from tests.support.sinetstream_cases import HOUR, envelope

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration

REGISTER_SH = Path(__file__).parents[2] / "deploy" / "sinetstream" / "register.sh"
NAMES = ("s3-sink-timestamp", "s3-sink-data")


@dataclass
class Server:
    """The machine the document is read on."""

    service: CurlService
    cluster: Cluster
    bucket: Shelf
    topic: str
    folder: Path

    def write_env(self, **more: str) -> None:
        """Write the ``.env`` with what has to be in it, and more."""
        lines = {
            "BROKER_HOSTNAME": self.cluster.bootstrap,
            "KAFKA_TOPIC": self.topic,
            **self._keys,
            "S3_BUCKET_NAME": self.bucket.name,
            "REST_PORT": str(self.service.port),
            **more,
        }
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        (self.folder / ".env").write_text(f"# as example_dot_env\n{text}")

    @property
    def _keys(self) -> dict[str, str]:
        s3 = self.service.s3_keys(self.bucket.name)
        return {
            "AWS_ACCESS_KEY_ID": s3["aws.access.key.id"],
            "AWS_SECRET_KEY": s3["aws.secret.access.key"],
            "S3_ENDPOINT_URL": s3["store.url"],
        }

    def register(self) -> str:
        """Do what ``register.sh`` does, with kafkeep's own command."""
        return kafkeep("register", "--env-file", self.folder / ".env").expect().stdout

    def run_register_sh(self) -> str:
        """Run ``register.sh`` in its folder, where the ``.env`` is."""
        shutil.copy(REGISTER_SH, self.folder)
        done = subprocess.run(
            ["./register.sh"], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def publish(self, first: int, count: int) -> None:
        """Send messages as SINETStream does, one a minute."""
        for number in range(first, first + count):
            time_ms = HOUR + number * 60_000
            payload = json.dumps({"sensor": number}).encode()
            message = {"value": envelope(payload, time_ms * 1000), "timestamp": time_ms}
            self.cluster.produce(self.topic, [message])

    def stored(self) -> dict[str, bytes]:
        """Return the objects of the topic's one hour, by their names."""
        folder = f"topics/{self.topic}/year=2022/month=04/day=18/hour=10/"
        sizes = self.bucket.sizes("topics/")
        assert all(key.startswith(folder) for key in sizes)
        return {key.removeprefix(folder): self.bucket.read(key) for key in sizes}

    def expect(self, extensions: list[str]) -> None:
        """Wait for the objects of so many messages; each payload has the extension given."""
        expected = {}
        for number, extension in enumerate(extensions):
            stem = f"{self.topic}+0+{number:010d}"
            expected[stem + extension] = b'{"sensor": %d}' % number
            expected[stem + "-timestamp.txt"] = b"2022-04-18T01:%02d:00.000" % number
        until(lambda: self.stored().keys() >= expected.keys(), "all is stored", seconds=PATIENCE)
        assert self.stored() == expected


@pytest.fixture(scope="module")
def server(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("kafka-connect-s3")
    bucket = Shelf(services, f"mybucket-{uuid.uuid4().hex[:6]}")
    bucket.client.create_bucket(Bucket=bucket.name)
    topic = cluster.create(f"sinetstream.sensor-{uuid.uuid4().hex[:6]}", 1, ANY_TIME)
    # The store's keys are in the service's environment, as the compose file passes them on.
    s3 = services.s3
    rest = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    with curl_service(services, folder, environ={**rest, **keys}) as service:
        yield Server(service, cluster, bucket, topic, folder)
        assert service.end() == 0
    bucket.remove()


def test_register_sh_registers_two_connectors_whose_output_is_checked(server: Server) -> None:
    server.write_env()
    server.publish(0, 3)
    assert server.run_register_sh() == "s3-sink-data: created\ns3-sink-timestamp: created\n"
    assert server.register() == "s3-sink-data: unchanged\ns3-sink-timestamp: unchanged\n"
    listed = server.service.curl("-X", "GET", "/connectors").expect()
    assert sorted(listed) == sorted(NAMES)
    for name in NAMES:
        server.service.wait_running(name)
        status = server.service.curl("-X", "GET", f"/connectors/{name}/tasks/0/status").expect()
        assert (status["id"], status["state"]) == (0, "RUNNING")
        assert status["worker_id"].endswith(f":{server.service.port}")
        shown = server.service.curl(f"/connectors/{name}/config").text
        assert server.service.s3_keys("")["aws.secret.access.key"] not in shown
    # No S3_OBJECT_EXTENSION is said: it is .bin; no S3_REGION: us-east-1.
    server.expect([".bin"] * 3)
    config = server.service.curl("/connectors/s3-sink-data/config").expect()
    assert config["s3.region"] == "us-east-1"


def test_a_changed_env_is_registered_after_the_connectors_were_deleted(server: Server) -> None:
    """What was stored stays, is not stored again, and messages in between are not lost."""
    for name in NAMES:
        answer = server.service.curl("-X", "DELETE", f"/connectors/{name}")
        assert (answer.status, answer.text) == (204, "")
    assert server.service.curl("-X", "GET", "/connectors").expect() == []
    server.publish(3, 1)
    server.write_env(S3_OBJECT_EXTENSION=".json", S3_REGION="ap-northeast-1")
    assert server.register() == "s3-sink-data: created\ns3-sink-timestamp: created\n"
    server.publish(4, 1)
    server.expect([".bin"] * 3 + [".json"] * 2)
    for name in NAMES:
        server.service.wait_running(name)
