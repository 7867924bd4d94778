"""What a store answers on bad days, and what is said of it: a small server that answers as told."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

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
from kafkeep.store.s3 import S3Store

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


class Server:
    """Answers with what is next, and with the last of them for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.seen: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.seen.append(f"{self.command} {self.path}")
                more = len(outer.answers) > 1
                status, headers, body = outer.answers.pop(0) if more else outer.answers[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any

            def log_message(self, *_words: Any) -> None: ...

        self.handler = Handler
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def tell(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, named, body))

    def refuse(self, status: int, code: str) -> None:
        self.tell(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


def options(endpoint: str) -> StorageOptions:
    return StorageOptions(endpoint=endpoint, access_key="id", secret_key="secret", region="r")


@pytest.fixture
def bare(server: Server) -> S3Store:
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
    store: RetryingStore, server: Server, body: bytes
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
    store: RetryingStore, server: Server
) -> None:
    server.tell(200, listing(("p/a/1",)).replace(b">false<", b">true<"))
    with pytest.raises(TransientError, match="NextContinuationToken"):
        list(store.list("a/"))


def test_an_object_answered_by_an_empty_200_is_read_again(
    store: RetryingStore, server: Server
) -> None:
    server.tell(200)
    with pytest.raises(TransientError, match="does not come from S3"):
        store.get("a")
    with pytest.raises(TransientError, match="does not come from S3"):
        store.head("a")
    server.tell(200, b"abc", **STAMP)
    assert store.get("a") == b"abc"


def test_a_range_of_a_store_that_sends_the_whole_object_is_cut_out(
    store: RetryingStore, server: Server
) -> None:
    server.tell(200, b"0123456789", **STAMP)
    assert store.get_range("a", 3, 5) == b"34"
    server.answers.clear()
    server.tell(206, b"78", **STAMP, Content_Range="bytes 7-8/10")
    with pytest.raises(TransientError, match="bytes 7-8/10"):
        store.get_range("a", 3, 5)


def test_a_creation_answered_by_an_empty_200_is_of_unknown_outcome(
    bare: S3Store, server: Server
) -> None:
    bare._seen_in = os.getpid()
    server.tell(200)
    with pytest.raises(UnknownOutcomeError, match=r"creating a.*no ETag"):
        bare.put_new("a", b"body")


def test_a_completion_answered_by_an_empty_200_is_of_unknown_outcome(
    bare: S3Store, server: Server
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
    bare: S3Store, server: Server, status: int, code: str, kind: type[KafkeepError]
) -> None:
    bare._seen_in = os.getpid()
    server.refuse(status, code)
    with pytest.raises(kind, match="the store is full, or a quota is used up") as caught:
        bare.put_new("a", b"x")
    assert caught.value.exit_code == 1
    assert code in caught.value.message
    assert "quota of bucket bucket" in (caught.value.hint or "")


@pytest.mark.parametrize("status", [403, 400, 503])
def test_slow_down_is_never_a_missing_right(bare: S3Store, server: Server, status: int) -> None:
    server.refuse(status, "SlowDown")
    with pytest.raises(TransientError) as caught:
        bare.get("a")
    assert "fewer requests" in (caught.value.hint or "")


def test_a_missing_right_is_still_one(bare: S3Store, server: Server) -> None:
    server.refuse(403, "AccessDenied")
    with pytest.raises(AccessDeniedError):
        bare.get("a")


def test_an_object_in_cold_storage_is_not_a_missing_right(bare: S3Store, server: Server) -> None:
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


def test_a_broken_connection_is_reported_without_the_url(server: Server) -> None:
    def break_off(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.handler.do_GET = break_off  # type: ignore[attr-defined]
    with pytest.raises(TransientError) as caught:
        list(S3Store("bucket", "p", options(server.url)).list("a/"))
    assert server.url in caught.value.message
    assert "list-type" not in caught.value.message
