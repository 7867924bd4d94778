"""Workers with listeners of their own, run in the test's process and called with the real curl."""

from __future__ import annotations

import queue
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12
from tests.support.waiting import PATIENCE_S, until

from kafkeep.connect.serve import ServiceInfo, run_service
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.dev.secure import make_certificates
from kafkeep.options.option import ConfigErrors

PASSWORD = "store secret"
CERTIFIED = ("--cacert", "ca.pem", "--cert", "client.pem")
SINK = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "t",
    "s3.bucket.name": "bucket",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}


def make_stores(folder: Path) -> Path:
    """Make certificates in ``folder``, and the worker's as a PKCS12 store."""
    make_certificates(folder)
    pem = (folder / "broker.pem").read_bytes()
    key = load_pem_private_key(pem, None)
    own, *others = x509.load_pem_x509_certificates(pem)
    locked = serialization.BestAvailableEncryption(PASSWORD.encode())
    store = pkcs12.serialize_key_and_certificates(b"w", key, own, others, locked)  # type: ignore[arg-type]
    (folder / "worker.p12").write_bytes(store)
    return folder


def keys(folder: Path, prefix: str = "listeners.https.", **more: str) -> dict[str, str]:
    """Return the keys of an https listener that lets in certificates of one authority alone."""
    found = {
        "ssl.keystore.location": str(folder / "worker.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.client.auth": "required",
        **more,
    }
    return {prefix + key: text for key, text in found.items()}


def load(flags: dict[str, str]) -> WorkerOptions:
    return WorkerOptions.load(None, {}, {"bootstrap.servers": "127.0.0.1:1", **flags})


def wrong(flags: dict[str, str]) -> dict[str, str]:
    """Return what is refused, by key."""
    with pytest.raises(ConfigErrors) as caught:
        load(flags)
    return dict(caught.value.by_key)


@dataclass
class Worker:
    """A service that runs."""

    ready: ServiceInfo
    stop: threading.Event
    thread: threading.Thread

    def curl(
        self, folder: Path, path: str, *arguments: str, url: str | None = None
    ) -> tuple[int, str]:
        """Return curl's exit code, and the answer with its status in the last line."""
        command = ["curl", "--silent", "--noproxy", "*", "--max-time", str(PATIENCE_S), *arguments]
        command += ["--write-out", "\n%{http_code}", (url or self.ready.url) + path]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def wait_status(self, folder: Path, words: str) -> None:
        """Return when the worker's health has these words."""
        until(lambda: words in self.curl(folder, "/health", *CERTIFIED)[1], words)

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_S)


def start(flags: dict[str, str]) -> Worker:
    """Run a service in a thread; returns when it answers."""
    told: queue.Queue[ServiceInfo] = queue.Queue()
    stop = threading.Event()
    worker = load(flags)
    thread = threading.Thread(
        target=lambda: run_service(worker, on_ready=told.put, stop=stop), daemon=True
    )
    thread.start()
    return Worker(told.get(timeout=PATIENCE_S), stop, thread)
