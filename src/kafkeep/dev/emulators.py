"""Emulators of Google Cloud Storage and Azure Blob Storage, for the tests. Their data is lost."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkeep.dev.downloads import azurite_command, fake_gcs_command
from kafkeep.dev.process import HOST, Ports, answers, launch, wait_ready

# The account that every Azurite has, with its public key.
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@contextmanager
def fake_gcs(folder: Path, bucket: str) -> Iterator[str]:
    """Run fake-gcs-server with one bucket; yield the value of STORAGE_EMULATOR_HOST."""
    command = fake_gcs_command()
    with Ports() as ports:
        port = ports.take()
    argv = [str(command), "-backend", "memory", "-scheme", "http", "-host", HOST]
    argv += ["-port", str(port), "-log-level", "error", "-data", str(folder)]
    with _running("fake-gcs-server", argv, folder, port):
        _make_bucket(port, bucket)
        yield f"http://{HOST}:{port}"


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Run Azurite; yield the address of its blob service, with the account."""
    node, script = azurite_command()
    with Ports() as ports:
        port = ports.take()
    argv = [node, str(script), "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    argv += ["--blobHost", HOST, "--blobPort", str(port), "--location", str(folder)]
    with _running("azurite", argv, folder, port):
        yield f"http://{HOST}:{port}/{AZURITE_ACCOUNT}"


@contextmanager
def _running(name: str, argv: list[str], folder: Path, port: int) -> Iterator[None]:
    log = folder.parent / f"{name}.log"
    server = launch(name, argv, log=log, mark=folder, cwd=folder)
    try:
        wait_ready(server, lambda: answers(port))
        yield
    finally:
        server.kill()


def _make_bucket(port: int, bucket: str) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    body, headers = json.dumps({"name": bucket}), {"Content-Type": "application/json"}
    connection.request("POST", "/storage/v1/b?project=dev", body, headers)
    connection.getresponse().read()
    connection.close()
