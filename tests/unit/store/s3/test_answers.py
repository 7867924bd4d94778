"""What a store answers on bad days, and what is said of it: a small server that answers as told."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.faults.canned_server import CannedServer

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.options.storage import StorageOptions
from kafkeep.retry import RetryPolicy
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3.store import S3Store

STAMP = {"ETag": '"e"', "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
QUICK = RetryPolicy(deadline_s=0.2, first_wait_s=0.01, longest_wait_s=0.05)


def listing(keys: tuple[str, ...] = (), *, name: str = "bucket", prefix: str = "p/a/") -> bytes:
    rows = "".join(
        f"<Contents><Key>{key}</Key><Size>1</Size>"
        "<LastModified>2025-01-01T00:00:00.000Z</LastModified></Contents>"
        for key in keys
    )
    return (
        f"<ListBucketResult><Name>{name}</Name><Prefix>{prefix}</Prefix>"
        f"<IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
    ).encode()


@pytest.fixture
def server() -> Iterator[CannedServer]:
    running = CannedServer()
    yield running
    running.stop()


def options(endpoint: str) -> StorageOptions:
    return StorageOptions(endpoint=endpoint, access_key="id", secret_key="secret", region="r")


@pytest.fixture
def bare(server: CannedServer) -> S3Store:
    return S3Store("bucket", "p", options(server.url))


@pytest.fixture
def store(bare: S3Store) -> RetryingStore:
    return RetryingStore(bare, QUICK)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Welcome</body></html>",
        b"not XML",
        listing(("p/a/1",))[:60],
        listing(name="another"),
        listing(prefix="p/other/"),
    ],
)
def test_a_list_answered_by_an_empty_200_is_not_believed(
    store: RetryingStore, server: CannedServer, body: bytes
) -> None:
    server.tell(200, body)
    for call in (lambda: list(store.list("a/")), lambda: store.folders("a/")):
        with pytest.raises(TransientError, match="listing a/ failed after"):
            call()
    server.answers.clear()
    server.tell(200, body)
    server.tell(200, listing(("p/a/1",)))
    assert [row.key for row in store.list("a/")] == ["a/1"]


def test_a_list_that_says_there_is_more_and_not_where_is_not_believed(
    store: RetryingStore, server: CannedServer
) -> None:
    server.tell(200, listing(("p/a/1",)).replace(b">false<", b">true<"))
    with pytest.raises(TransientError, match="NextContinuationToken"):
        list(store.list("a/"))


def test_an_object_answered_by_an_empty_200_is_read_again(
    store: RetryingStore, server: CannedServer
) -> None:
    server.tell(200)
    with pytest.raises(TransientError, match="does not come from S3"):
        store.get("a")
    with pytest.raises(TransientError, match="does not come from S3"):
        store.head("a")
    server.tell(200, b"abc", **STAMP)
    assert store.get("a") == b"abc"


def test_a_range_of_a_store_that_sends_the_whole_object_is_cut_out(
    store: RetryingStore, server: CannedServer
) -> None:
    server.tell(200, b"0123456789", **STAMP)
    assert store.get_range("a", 3, 5) == b"34"
    server.answers.clear()
    server.tell(206, b"78", **STAMP, Content_Range="bytes 7-8/10")
    with pytest.raises(TransientError, match="bytes 7-8/10"):
        store.get_range("a", 3, 5)


def test_a_creation_answered_by_an_empty_200_is_of_unknown_outcome(
    bare: S3Store, server: CannedServer
) -> None:
    bare._seen_in = os.getpid()
    server.tell(200)
    with pytest.raises(UnknownOutcomeError, match=r"creating a.*no ETag"):
        bare.put_new("a", b"body")


def test_a_completion_answered_by_an_empty_200_is_of_unknown_outcome(
    bare: S3Store, server: CannedServer
) -> None:
    bare._seen_in = os.getpid()
    server.tell(
        200,
        b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
    )
    server.tell(200, ETag='"e"')
    server.tell(200)
    writer = bare.create_in_parts("a")
    writer.write(b"x")
    with pytest.raises(UnknownOutcomeError, match="no ETag"):
        writer.finish()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "QuotaExceeded", EnvironmentFault),
        (400, "XMinioAdminBucketQuotaExceeded", EnvironmentFault),
        (403, "StorageCapExceeded", EnvironmentFault),
        (507, "XMinioStorageFull", TransientError),
        (507, "InsufficientStorage", TransientError),
    ],
)
def test_quota_exceeded_is_a_full_store_and_not_a_missing_right(
    bare: S3Store, server: CannedServer, status: int, code: str, kind: type[KafkeepError]
) -> None:
    bare._seen_in = os.getpid()
    server.refuse(status, code)
    with pytest.raises(kind, match="the store is full, or a quota is used up") as caught:
        bare.put_new("a", b"x")
    assert caught.value.exit_code == 1
    assert code in caught.value.message
    assert "quota of bucket bucket" in (caught.value.hint or "")


@pytest.mark.parametrize("status", [403, 400, 503])
def test_slow_down_is_never_a_missing_right(
    bare: S3Store, server: CannedServer, status: int
) -> None:
    server.refuse(status, "SlowDown")
    with pytest.raises(TransientError) as caught:
        bare.get("a")
    assert "fewer requests" in (caught.value.hint or "")


def test_a_missing_right_is_still_one(bare: S3Store, server: CannedServer) -> None:
    server.refuse(403, "AccessDenied")
    with pytest.raises(AccessDeniedError):
        bare.get("a")


def test_an_object_in_cold_storage_is_not_a_missing_right(
    bare: S3Store, server: CannedServer
) -> None:
    server.refuse(403, "InvalidObjectState")
    with pytest.raises(EnvironmentFault) as caught:
        bare.get("a")
    assert "cold storage" in (caught.value.hint or "")


def test_an_endpoint_that_is_down_is_named_without_the_raw_list_url() -> None:
    store = RetryingStore(S3Store("bucket", "some/prefix", options("http://127.0.0.1:1")), QUICK)
    with pytest.raises(TransientError) as caught:
        list(store.list("_kafkeep/"))
    said = caught.value.message
    assert "nothing answers at http://127.0.0.1:1, where bucket bucket should be" in said
    assert "list-type" not in said
    assert "prefix" not in said


def test_a_broken_connection_is_reported_without_the_url(server: CannedServer) -> None:
    def break_off(handler: Any) -> None:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.handler.do_GET = break_off  # type: ignore[attr-defined]
    with pytest.raises(TransientError) as caught:
        list(S3Store("bucket", "p", options(server.url)).list("a/"))
    assert server.url in caught.value.message
    assert "list-type" not in caught.value.message
