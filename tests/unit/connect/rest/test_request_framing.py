"""Where one request ends and the next begins: upgrades that are offered, split and odd requests."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import h11
import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from tests.support.waiting import PATIENCE_S
from uvicorn.server import ServerState

from kafkeep.connect.rest.server import (
    CHUNK_BYTES,
    CHUNKS,
    BoundedProtocol,
    BoundListener,
    RestServer,
    StrictConnection,
    bind,
)
from kafkeep.connect.worker.keys import Listener

HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
OFFERS = {
    "h2c as Java's HttpClient": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n",
    "websocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "nothing": b"",
}
BODIES = {
    "whole": b"Content-Length: %d\r\n\r\n%s" % (len(HIDDEN), HIDDEN),
    "in chunks": b"Transfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n%x;e=1\r\n%s\r\n0\r\nx: y\r\n\r\n"
    % (HIDDEN[:5], len(HIDDEN) - 5, HIDDEN[5:]),
}

Seen = list[tuple[str, str, bytes]]


class Echo:
    """An app that answers with the length of a body, and remembers whole requests."""

    def __init__(self) -> None:
        self.seen: Seen = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        self.seen.append((request.method, request.scope["raw_path"].decode(), body))
        await PlainTextResponse(f"{len(body)}")(scope, receive, send)


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def _received(segments: Sequence[bytes]) -> tuple[Seen, Wire]:
    app, wire = Echo(), Wire()
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none")
    protocol = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(wire)
    for segment in segments:
        if not wire.closed:
            protocol.data_received(segment)
        for _ in range(8):  # as often as the app waits for something
            await asyncio.sleep(0)
    closed = wire.closed
    protocol.connection_lost(None)
    wire.closed = closed  # as it was before the caller went
    await asyncio.gather(*protocol.tasks)
    return app.seen, wire


def received(*segments: bytes) -> tuple[Seen, Wire]:
    """Hand segments to a connection of their own; return the whole requests, and the answers."""
    return asyncio.run(_received(segments))


def statuses(wire: Wire) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", wire.written)]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("offer", OFFERS)
def test_a_body_is_read_where_an_upgrade_is_offered_however_it_is_split(
    offer: str, body: str
) -> None:
    head = b"PUT /first HTTP/1.1\r\nHost: a\r\n" + OFFERS[offer]
    sent = head + BODIES[body] + NEXT
    expected = [("PUT", "/first", HIDDEN), ("GET", "/next", b"")]
    for cut in range(1, len(sent)):
        seen, wire = received(sent[:cut], sent[cut:])
        assert (seen, statuses(wire), wire.closed) == (expected, [200, 200], False), cut


def test_a_body_is_read_where_every_byte_comes_alone() -> None:
    head = b"PUT /first HTTP/1.1\r\nHost: a\r\n" + OFFERS["websocket"]
    sent = head + BODIES["whole"] + NEXT
    seen, wire = received(*(bytes([one]) for one in sent))
    assert [path for _, path, _ in seen] == ["/first", "/next"]
    assert statuses(wire) == [200, 200]


def test_requests_without_a_body_that_offer_an_upgrade_are_answered_in_turn() -> None:
    offers = [b"GET / HTTP/1.1\r\nHost: a\r\n" + one + b"\r\n" for one in OFFERS.values()]
    seen, wire = received(b"".join([*offers, *offers]))
    assert len(seen) == 6
    assert statuses(wire) == [200] * 6


PUT = b"PUT /first HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
REFUSED = {
    "length and chunks": PUT + b"Content-Length: 4\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunks and length": PUT + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": PUT.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n0\r\n\r\n",
    "two lengths": PUT + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "two lengths in one": PUT + b"Content-Length: 0, 5\r\n\r\n",
    "a length with a sign": PUT + b"Content-Length: +0\r\n\r\n",
    "a length in hex": PUT + b"Content-Length: 0x0\r\n\r\n",
    "a length below zero": PUT + b"Content-Length: -1\r\n\r\n",
    "another coding": PUT + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two codings": PUT + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "a coding by another name": PUT + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": PUT + b"Content-Length : 0\r\n\r\n",
    "a folded header": PUT + b"x: y\r\n Content-Length: 5\r\n\r\n",
    "a folded first header": b"PUT /first HTTP/1.1\r\n x: y\r\nHost: a\r\n\r\n",
    "a line without CR": PUT + b"x: y\nContent-Length: 5\r\n\r\n",
    "an end without CR": PUT + b"x: y\n\n",
    "a CR alone": PUT + b"x: y\rContent-Length: 5\r\n\r\n",
    "a zero byte": PUT + b"x: y\0z\r\n\r\n",
    "a chunk's size and more": PUT + CHUNKED + b"\r\n0 x\r\n\r\n",
    "a chunk's size without CR": PUT + CHUNKED + b"\r\n1\na\r\n0\r\n\r\n",
    "a chunk that is longer": PUT + CHUNKED + b"\r\n1\r\nabc\r\n0\r\n\r\n",
    "a trailer without CR": PUT + CHUNKED + b"\r\n0\r\nx: y\n\r\n",
    "chunks that end without CR": PUT + CHUNKED + b"\r\n0\r\n\n",
    "two Host headers": PUT + b"Host: b\r\n\r\n",
    "two Host headers that agree": PUT + b"Host: a\r\n\r\n",
    "no Host header": b"PUT /first HTTP/1.1\r\n\r\n",
    "a URL of another host": b"PUT http://b/first HTTP/1.1\r\nHost: a\r\n\r\n",
    "no request at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_two_servers_could_read_differently_is_refused_with_all_after_it(
    name: str,
) -> None:
    sent = REFUSED[name] + HIDDEN
    for cut in range(1, len(sent), 3):
        seen, wire = received(sent[:cut], sent[cut:])
        assert (seen, statuses(wire), wire.closed) == ([], [400], True), cut
        head, _, body = wire.written.partition(b"\r\n\r\n")
        assert b"application/json" in head
        assert json.loads(body)["error_code"] == 400


def chunked(chunk: bytes, count: int) -> bytes:
    one = b"%x\r\n%s\r\n" % (len(chunk), chunk)
    return PUT + CHUNKED + b"\r\n" + one * count + b"0\r\n\r\n"


@pytest.mark.parametrize("piece", [1 << 18, 1000], ids=["at once", "in pieces"])
def test_a_flood_of_tiny_chunks_is_refused(piece: int) -> None:
    sent = chunked(b"x", CHUNKS + 1)
    seen, wire = received(*(sent[at : at + piece] for at in range(0, len(sent), piece)))
    assert (seen, statuses(wire), wire.closed) == ([], [400], True)
    assert b"too many tiny chunks" in wire.written


def test_many_chunks_are_taken_where_they_are_not_tiny_and_tiny_ones_where_they_are_few() -> None:
    large, small = b"x" * CHUNK_BYTES, b"x"
    requests = [chunked(large, CHUNKS + 1), chunked(small, CHUNKS), chunked(small, CHUNKS)]
    seen, wire = received(*requests)
    assert [len(body) for _, _, body in seen] == [CHUNK_BYTES * (CHUNKS + 1), CHUNKS, CHUNKS]
    assert statuses(wire) == [200] * 3


def test_a_chunk_costs_no_copy_of_what_was_sent_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(_: StrictConnection) -> None:
        raise AssertionError("all that was sent is copied")

    monkeypatch.setattr(StrictConnection, "trailing_data", property(copied))
    connection = StrictConnection(h11.SERVER, 1 << 16)
    connection.receive_data(chunked(b"x", 9))
    events = [connection.next_event() for _ in range(11)]
    assert [type(event) for event in events] == [h11.Request, *[h11.Data] * 9, h11.EndOfMessage]


def test_the_answer_to_two_host_headers_says_so() -> None:
    _, wire = received(REFUSED["two Host headers"])
    assert b"multiple Host: headers" in wire.written


def test_a_whole_url_of_this_service_is_taken_as_its_path() -> None:
    seen, _ = received(b"PUT HTTP://A:1/a%20b?c=d HTTP/1.1\r\nHost: a:1\r\n\r\n")
    assert seen == [("PUT", "/a%20b", b"")]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[BoundListener, Echo]]:
    listening, app = bind(Listener("http", "127.0.0.1", 0)), Echo()
    running = RestServer(app, [listening], None)
    running.start()
    yield listening, app
    running.close()


@pytest.mark.parametrize("offer", OFFERS)
def test_a_body_in_a_segment_of_its_own_is_no_request(
    server: tuple[BoundListener, Echo], offer: str
) -> None:
    """The server says when it has read the headers, so the body is surely a second segment."""
    listening, app = server
    app.seen.clear()
    head = b"PUT /first HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" + OFFERS[offer]
    with socket.create_connection(("127.0.0.1", listening.port), timeout=PATIENCE_S) as caller:
        for _ in range(2):
            caller.sendall(head + b"Content-Length: %d\r\n\r\n" % len(HIDDEN))
            assert caller.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
            caller.sendall(HIDDEN)
            answer = b""
            while not answer.endswith(b"\r\n\r\n%d" % len(HIDDEN)):
                answer += caller.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200 ")
    assert app.seen == [("PUT", "/first", HIDDEN)] * 2
