"""What the REST API's server takes from a socket before any of it is a request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kafkeep.connect.server import Bound, RestServer, bind
from kafkeep.connect.worker.rest_keys import Listener

ENOUGH = 4 << 20


async def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())}")


@pytest.fixture(scope="module")
def bound() -> Iterator[Bound]:
    listening = bind(Listener("http", "127.0.0.1", 0))
    routes = [Route("/", answer, methods=["GET", "PUT"])]
    server = RestServer(Starlette(routes=routes), [listening], None)
    server.start()
    yield listening
    server.close()


def send_on(bound: Bound, begin: bytes, more: bytes) -> tuple[int, bytes]:
    """Send ``more`` again and again until the server has had enough; tell how much, and why."""
    with socket.create_connection(("127.0.0.1", bound.port), timeout=10) as caller:
        caller.sendall(begin)
        sent = 0
        with suppress(ConnectionError):
            while sent < ENOUGH:
                caller.sendall(more)
                sent += len(more)
        with suppress(ConnectionError):
            return sent, caller.recv(4096)
        return sent, b""


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"a" * 1024),
        (b"GET / HTTP/1.1\r\nHost: a\r\nx: ", b"a" * 1024),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"x: " + b"a" * 1000 + b"\r\n"),
        (
            b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"x: " + b"a" * 1000 + b"\r\n",
        ),
    ],
    ids=["a path", "one header", "many headers", "trailers"],
)
def test_headers_without_end_are_not_kept(bound: Bound, begin: bytes, more: bytes) -> None:
    sent, _ = send_on(bound, begin, more)
    assert sent < ENOUGH, "nobody ended it"


def test_large_headers_and_larger_bodies_are_taken(bound: Bound) -> None:
    with socket.create_connection(("127.0.0.1", bound.port), timeout=10) as caller:
        for _ in range(3):  # on one connection: what one request took is not held against the next
            head = b"PUT / HTTP/1.1\r\nHost: a\r\nx: " + b"a" * 40_000
            caller.sendall(head + b"\r\nContent-Length: 3000000\r\n\r\n")
            caller.sendall(b"b" * 3_000_000)
            answered = caller.recv(4096)
            while not answered.endswith(b"3000000"):
                answered += caller.recv(4096)
            assert answered.startswith(b"HTTP/1.1 200 OK")
