"""What kafkeep sends to Google Cloud Storage, and what it makes of the answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.faults.canned_server import CannedServer

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.options.clouds import GoogleOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.retry import RetryPolicy
from kafkeep.store.google.store import GoogleStore
from kafkeep.store.google.upload import Crc32c
from kafkeep.store.retry import RetryingStore

CHUNK = 256 * 1024
QUICK = RetryPolicy(deadline_s=0.2, first_wait_s=0.01, longest_wait_s=0.05)
EMPTY_LISTING = b'{"kind": "storage#objects"}'


@pytest.fixture
def server() -> Iterator[CannedServer]:
    running = CannedServer()
    yield running
    running.stop()


@pytest.fixture
def store(server: CannedServer) -> GoogleStore:
    options = StorageOptions(
        google=GoogleOptions(emulator=server.url), part_bytes=5 * 1024 * 1024, retry_backoff_ms=1
    )
    return GoogleStore("bucket", "p", options)


def resource(body: bytes, **more: object) -> bytes:
    checksum = Crc32c()
    checksum.update(body)
    return json.dumps({"name": "p/a", "crc32c": checksum.encode(), **more}).encode()


def refuse(server: CannedServer, status: int, reason: str = "") -> None:
    error = {"code": status, "message": "no", "errors": [{"reason": reason, "message": "no"}]}
    server.tell(status, json.dumps({"error": error}).encode(), Content_Type="application/json")


def begin_session(server: CannedServer) -> None:
    server.tell(200, EMPTY_LISTING)  # the bucket is there
    server.tell(200, Location=f"{server.url}/session")


def test_a_small_object_is_created_on_the_condition_that_there_is_none(
    store: GoogleStore, server: CannedServer
) -> None:
    server.tell(200, EMPTY_LISTING)
    server.tell(200, resource(b"body"))
    store.put_new("a", b"body", {"by": "test"})
    created = server.requests[-1]
    assert created.method == "POST" and "ifGenerationMatch=0" in created.target
    checksum = Crc32c()
    checksum.update(b"body")
    assert f'"crc32c": "{checksum.encode()}"'.encode() in created.body
    assert b'"by": "test"' in created.body


def test_a_large_object_is_created_on_the_condition_that_there_is_none(
    store: GoogleStore, server: CannedServer
) -> None:
    begin_session(server)
    server.tell(200, resource(b"body"))
    writer = store.create_in_parts("a")
    writer.write(b"body")
    writer.finish()
    begun, sent = server.requests[-2:]
    assert "uploadType=resumable" in begun.target and "ifGenerationMatch=0" in begun.target
    assert sent.target == "/session" and sent.headers["content-range"] == "bytes 0-3/4"


def test_an_upload_continues_where_the_store_says_after_a_lost_answer(
    store: GoogleStore, server: CannedServer
) -> None:
    body = bytes(5 * 1024 * 1024) + b"rest"
    begin_session(server)
    server.lose()
    server.tell(308, Range=f"bytes=0-{CHUNK - 1}")
    server.tell(308, Range=f"bytes=0-{5 * 1024 * 1024 - 1}")
    server.lose()
    server.tell(200, resource(body))
    writer = RetryingStore(store, QUICK).create("a")
    writer._writer._parts_from = 0  # type: ignore[attr-defined]
    writer.write(body)
    writer.finish()
    ranges = [one.headers.get("content-range") for one in server.requests[2:]]
    assert ranges == [
        "bytes 0-5242879/*",
        "bytes */*",
        f"bytes {CHUNK}-5242879/*",
        "bytes 5242880-5242883/5242884",
        "bytes */*",
    ]


def test_an_object_that_differs_from_what_was_sent_is_an_error(
    store: GoogleStore, server: CannedServer
) -> None:
    begin_session(server)
    server.tell(200, resource(b"other"))
    writer = store.create_in_parts("a")
    writer.write(b"body")
    with pytest.raises(EnvironmentFault, match="differs from what was sent"):
        writer.finish()


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (403, "forbidden", AccessDeniedError),
        (403, "rateLimitExceeded", TransientError),
        (404, "notFound", KeyMissingError),
        (408, "", TransientError),
        (429, "rateLimitExceeded", TransientError),
        (400, "invalid", EnvironmentFault),
        (500, "backendError", TransientError),
        (503, "", TransientError),
    ],
)
def test_answers_to_reads_become_errors(
    store: GoogleStore, server: CannedServer, status: int, reason: str, kind: type[KafkeepError]
) -> None:
    store._seen_in = os.getpid()
    refuse(server, status, reason)
    with pytest.raises(kind) as caught:
        store.get("a")
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [(412, KeyExistsError), (500, UnknownOutcomeError), (429, TransientError)],
)
def test_answers_to_creates_become_errors(
    store: GoogleStore, server: CannedServer, status: int, kind: type[KafkeepError]
) -> None:
    store._seen_in = os.getpid()
    refuse(server, status)
    with pytest.raises(kind) as caught:
        store.put_new("a", b"x")
    assert type(caught.value) is kind


def test_a_create_whose_answer_was_lost_has_an_unknown_outcome(
    store: GoogleStore, server: CannedServer
) -> None:
    store._seen_in = os.getpid()
    server.lose()
    with pytest.raises(UnknownOutcomeError):
        store.put_new("a", b"x")


def test_a_missing_bucket_is_named(store: GoogleStore, server: CannedServer) -> None:
    refuse(server, 404, "notFound")
    for call in (lambda: store.get("a"), lambda: list(store.list("")), store.now_ms):
        with pytest.raises(NoSuchArchiveError, match="there is no bucket bucket"):
            call()


def test_missing_credentials_are_denied_access(tmp_path: Path) -> None:
    missing = StorageOptions(google=GoogleOptions(credentials_file=str(tmp_path / "none.json")))
    with pytest.raises(AccessDeniedError, match="no Google credentials") as caught:
        GoogleStore("bucket", "p", missing).get("a")
    assert "GOOGLE_APPLICATION_CREDENTIALS" in (caught.value.hint or "")
