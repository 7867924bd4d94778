"""``kafkeep serve`` as people meet it: a process of its own, asked with the real ``curl``.

Beside it stands what else is on their desk: Kafka's own tools, a bucket, connectors in files.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from tests.support.cluster import until
from tests.support.waiting import PATIENCE_S

from kafkeep.dev import DevStatus, kafka_tool

PATIENCE = PATIENCE_S


@dataclass(frozen=True)
class Answer:
    """What curl got."""

    status: int
    text: str

    def expect(self, status: int = 200) -> Any:
        """Return the document, None where there is no body; fail on another status."""
        assert self.status == status, f"{self.status}: {self.text}"
        return json.loads(self.text) if self.text else None


def patiently(claim: Callable[[], bool], what: str, *, seconds: float = PATIENCE) -> None:
    """Wait until ``claim`` holds, without taking the machine's time from those who work."""

    def look() -> bool:
        holds = claim()
        if not holds:
            time.sleep(0.25)
        return holds

    until(look, what, seconds=seconds)


class CurlService:
    """One service with a state of its own, and the folder in which people work."""

    def __init__(
        self,
        services: DevStatus,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.log = folder / "service.log"
        self._services = services
        command = [sys.executable, "-m", "kafkeep", "serve", "--output", "json", "--port", "0"]
        command += ["--bootstrap-servers", services.bootstrap_servers]
        command += ["--state", str(folder / "state"), *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, start_new_session=True, env=environ
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.port = int(json.loads(line)["url"].rpartition(":")[2])

    def curl(self, *arguments: str) -> Answer:
        """Run curl in the folder; an argument that begins with a slash is a path of the API."""
        here = f"http://localhost:{self.port}"
        told = [here + one if one.startswith("/") else one for one in arguments]
        command = ["curl", "--silent", "--show-error", "--noproxy", "*", "--globoff"]
        command += ["--max-time", "60", "--write-out", "\n%{http_code}"]
        done = subprocess.run(
            [*command, *told], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        text, _, status = done.stdout.rpartition("\n")
        return Answer(int(status), text)

    def send(self, method: str, path: str, file: str) -> Answer:
        """Send a file as people write it down: ``-X``, ``-H`` and ``-d @file``."""
        header = "Content-Type: application/json"
        return self.curl("-X", method, path, "-H", header, "-d", f"@{file}")

    def write(self, file: str, document: object) -> str:
        """Put a document into the folder and return the file's name."""
        (self.folder / file).write_text(json.dumps(document, indent=2))
        return file

    def s3_keys(self, bucket: str) -> dict[str, str]:
        """Return the keys that tell a connector where the store of these services is."""
        s3 = self._services.s3
        return {
            "s3.bucket.name": bucket,
            "s3.region": s3.region,
            "store.url": s3.endpoint,
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
        }

    def post(self, name: str, config: Mapping[str, str]) -> Any:
        """Create a connector by a file of its name."""
        file = self.write(f"{name}.json", {"name": name, "config": dict(config)})
        return self.send("POST", "/connectors", file).expect(201)

    def states(self, name: str) -> set[str]:
        """Return the states of a connector and all its tasks."""
        status = self.curl(f"/connectors/{name}/status").expect()
        return {part["state"] for part in (status["connector"], *status["tasks"])}

    def wait_running(self, name: str) -> None:
        """Wait until a connector and all its tasks run; a failed one ends the wait at once."""

        def runs() -> bool:
            states = self.states(name)
            assert "FAILED" not in states, self.curl(f"/connectors/{name}/status").text
            return states == {"RUNNING"}

        patiently(runs, f"{name} runs")

    def tool(self, name: str, *arguments: str, typed: Sequence[str] = ()) -> str:
        """Run one of Kafka's own tools, with lines typed into it, and return what it prints."""
        servers = ("--bootstrap-server", self._services.bootstrap_servers)
        lines = "".join(line + "\n" for line in typed)
        done = subprocess.run(
            kafka_tool(name, *servers, *arguments),
            input=lines,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> int:
        """Stop the service as an init system does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Let nothing of it be left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        sys.stderr.write(self.log.read_text()[-10_000:])


@contextmanager
def curl_service(
    services: DevStatus,
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[CurlService]:
    """Run a service for as long as the body lasts, whatever becomes of it.

    ``environ`` is all of its environment, ``options`` more of its command line.
    """
    service = CurlService(services, folder, environ=environ, options=options)
    try:
        yield service
    finally:
        service.close()


class Shelf:
    """A bucket by its plain name, seen by a client that is not kafkeep's."""

    def __init__(self, services: DevStatus, name: str, *, secret: str | None = None) -> None:
        s3 = services.s3
        self.name = name
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            region_name=s3.region,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=secret or s3.secret_key,
        )

    def buckets(self) -> list[str]:
        """Return the names of all buckets."""
        return [one["Name"] for one in self.client.list_buckets()["Buckets"]]

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return every object under a prefix, and how large it is."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix
        )
        return {row["Key"]: row["Size"] for page in pages for row in page.get("Contents", ())}

    def read(self, key: str) -> bytes:
        """Return one object."""
        body: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body

    def lines(self, prefix: str) -> dict[str, list[Any]]:
        """Return the JSON objects under a prefix, with their lines as documents."""
        return {
            key: [json.loads(line) for line in self.read(key).splitlines()]
            for key in sorted(self.sizes(prefix))
        }

    def expiry(self) -> dict[str, int]:
        """Return after how many days the bucket deletes what, as S3 tells it."""
        answer = self.client.get_bucket_lifecycle_configuration(Bucket=self.name)
        return {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in answer["Rules"]}

    def copy(self, target: Shelf, prefix: str) -> None:
        """Make another bucket of what lies under a prefix, under the same names."""
        target.client.create_bucket(Bucket=target.name)
        for key in self.sizes(prefix):
            source = {"Bucket": self.name, "Key": key}
            target.client.copy_object(Bucket=target.name, Key=key, CopySource=source)

    def remove(self) -> None:
        """Delete the bucket with everything in it, if it is there."""
        if self.name not in self.buckets():
            return
        for key in self.sizes():
            self.client.delete_object(Bucket=self.name, Key=key)
        self.client.delete_bucket(Bucket=self.name)
