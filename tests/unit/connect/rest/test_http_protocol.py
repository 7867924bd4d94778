"""What the REST API's server takes from a socket before any of it is a request."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.support.waiting import PATIENCE_S, until

from kafkeep.connect.rest.server import BoundListener, RestServer, bind
from kafkeep.connect.worker.keys import Listener

ENOUGH = 4 << 20


async def answer(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())}")


async def answer_later(_request: Request) -> PlainTextResponse:
    await asyncio.sleep(0.7)
    return PlainTextResponse("at last")


@pytest.fixture(scope="module")
def bound() -> Iterator[BoundListener]:
    listening = bind(Listener("http", "127.0.0.1", 0))
    routes = [Route("/", answer, methods=["GET", "PUT"]), Route("/slow", answer_later)]
    server = RestServer(Starlette(routes=routes), [listening], None)
    server.start()
    yield listening
    server.close()


def send_on(bound: BoundListener, begin: bytes, more: bytes) -> tuple[int, bytes]:
    """Send ``more`` again and again until the server has had enough; tell how much, and why."""
    with socket.create_connection(("127.0.0.1", bound.port), timeout=PATIENCE_S) as caller:
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
def test_headers_without_end_are_not_kept(bound: BoundListener, begin: bytes, more: bytes) -> None:
    sent, _ = send_on(bound, begin, more)
    assert sent < ENOUGH, "nobody ended it"


def test_large_headers_and_larger_bodies_are_taken(bound: BoundListener) -> None:
    with socket.create_connection(("127.0.0.1", bound.port), timeout=PATIENCE_S) as caller:
        for _ in range(3):  # on one connection: what one request took is not held against the next
            head = b"PUT / HTTP/1.1\r\nHost: a\r\nx: " + b"a" * 40_000
            caller.sendall(head + b"\r\nContent-Length: 3000000\r\n\r\n")
            caller.sendall(b"b" * 3_000_000)
            answered = caller.recv(4096)
            while not answered.endswith(b"3000000"):
                answered += caller.recv(4096)
            assert answered.startswith(b"HTTP/1.1 200 OK")


def was_ended(caller: socket.socket, more: bytes) -> bool:
    """Send ``more``, and tell whether the server has ended the connection."""
    try:
        caller.sendall(more)
        return not caller.recv(4096)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


PUT = b"PUT / HTTP/1.1\r\nHost: a\r\n"
WHOLE = PUT + b"Content-Length: 1\r\n\r\nb"


def test_bodies_do_not_wait_for_their_headers_to_be_acknowledged() -> None:
    """Asked of the connection itself: how long it would take is the caller's kernel's to say."""
    with closing(bind(Listener("http", "127.0.0.1", 0))) as listening:
        with socket.create_connection(("127.0.0.1", listening.port), timeout=PATIENCE_S):
            connection, _ = listening.socket.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    make_impatient(monkeypatch)


def make_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkeep.connect.rest.server.HEADERS_SECONDS", 0.4)
    monkeypatch.setattr("kafkeep.connect.rest.server.BODY_SECONDS", 0.6)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"", b""),
        (PUT, b""),
        (PUT, b"x"),
        (PUT + b"Content-Length: 100\r\n\r\n", b"b"),
        (PUT + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nb\r\n"),
        (WHOLE, b"\r\n"),
        (WHOLE + PUT, b"x"),
    ],
    ids=["nothing", "half a head", "a head", "a body", "chunks", "lines", "the next head"],
)
def test_a_slow_client_is_disconnected(bound: BoundListener, begin: bytes, more: bytes) -> None:
    with socket.create_connection(("127.0.0.1", bound.port), timeout=0.05) as caller:
        caller.sendall(begin)
        until(lambda: was_ended(caller, more), "nobody waits for the rest", seconds=30)


def test_answers_and_next_requests_may_take_longer_than_requests(
    bound: BoundListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_connection(("127.0.0.1", bound.port), timeout=PATIENCE_S) as caller:
        for path in (b"/", b"/slow", b"/"):
            caller.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
            assert caller.recv(4096).startswith(b"HTTP/1.1 200 OK")
            # From now on: before, it would count how long this thread takes to send its first.
            make_impatient(monkeypatch)
            time.sleep(0.7)  # the connection is kept for the next request, as long as uvicorn says
