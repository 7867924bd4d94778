"""The REST API's listeners: one application on several sockets, some of them over TLS.

HTTP/1.1 as h11 parses it, strictly, with limits on headers and on waiting.

An offer to upgrade (``Upgrade: h2c``, as Java's HttpClient sends it, or ``websocket``) is ignored,
as RFC 9110 allows: the request is answered over HTTP/1.1, and its body is read. httptools skips
that body and takes its bytes for the next request, so uvicorn's faster protocol cannot be used.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from kafkeep.connect.worker.keys import Listener
from kafkeep.errors import EnvironmentFault

HEADERS_BYTES = 64 << 10
"""As much may come before headers are complete; bodies have a limit of their own."""
HEADERS_SECONDS = 30.0
"""Headers are complete so long after the connection, or their first byte on a used one."""
BODY_SECONDS = 120.0
"""The body is complete so long after its headers."""
CHUNKS = 4000
"""So many chunks of a body may be tiny; a client that sends each word alone needs fewer."""
CHUNK_BYTES = 64
"""Of more chunks, each has so many bytes on average."""

_NOT_STRICT = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""A line that ends without CR, or goes on in the next one (obs-fold)."""
_CODING = b"transfer-encoding"


class StrictConnection(h11.Connection):
    """h11 without the leniency that lets two servers disagree on where a request ends.

    Requests come out without an Upgrade header, and with a path as their target.
    """

    request_count = 0
    problem = ""
    """What was wrong with the request that was refused."""
    _in_chunks = False
    _chunks = 0
    _chunk_bytes = 0

    def __init__(self, our_role: type[h11.CLIENT | h11.SERVER], max_bytes: int) -> None:
        super().__init__(our_role, max_bytes)
        self._sent = bytearray()
        """What h11 has not taken yet, after the last byte that it took: the end of a line may be
        shared by two events."""
        self._taken = 0
        """How many of these h11 has taken: 0 or 1."""

    def receive_data(self, data: bytes) -> None:
        """Take what was sent, and keep it as it was until its lines are checked."""
        super().receive_data(data)
        self._sent += data

    def next_event(self) -> Any:
        """Return the next event; h11.RemoteProtocolError when the request is refused."""
        try:
            event = super().next_event()
            self._check_lines(event)
            if isinstance(event, h11.Request):
                self.request_count += 1
                self._in_chunks = any(name == _CODING for name, _ in event.headers)
                self._chunks = self._chunk_bytes = 0
                return _checked(event)
            if isinstance(event, h11.Data) and self._in_chunks:
                self._check_chunks(event)
        except h11.RemoteProtocolError as error:
            self.problem = str(error)
            raise
        return event

    def _check_lines(self, event: Any) -> None:
        """Check headers and trailers as they were sent: h11 has put their lines right.

        Only what this event took is looked at or moved: a body may have very many events.
        """
        end = len(self._sent) - len(self._receive_buffer)
        is_lines = isinstance(event, h11.Request) or (
            isinstance(event, h11.EndOfMessage) and self._in_chunks
        )
        if is_lines and _NOT_STRICT.search(self._sent, self._taken, end):
            raise h11.RemoteProtocolError("a line of the headers does not end with CR LF")
        self._taken = min(end, 1)
        del self._sent[: end - self._taken]

    def _check_chunks(self, event: h11.Data) -> None:
        """Refuse a flood of tiny chunks: each costs as much time as a large one."""
        self._chunks += event.chunk_end
        self._chunk_bytes += len(event.data)
        if self._chunks > CHUNKS and self._chunk_bytes < self._chunks * CHUNK_BYTES:
            raise h11.RemoteProtocolError("the body comes in too many tiny chunks")


def _checked(request: h11.Request) -> h11.Request:
    """Return the request as the service is to see it; h11 has checked Host and Content-Length."""
    headers = dict(request.headers)
    if _CODING in headers:
        if b"content-length" in headers:
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding are given")
        if request.http_version < b"1.1":
            raise h11.RemoteProtocolError("Transfer-Encoding needs HTTP/1.1")
    is_url = request.target.lower().startswith((b"http://", b"https://"))
    if b"upgrade" not in headers and not is_url:
        return request
    target = _path_of(request.target, headers.get(b"host", b"")) if is_url else request.target
    return h11.Request(
        method=request.method,
        headers=[(name, value) for name, value in request.headers if name != b"upgrade"],
        target=target,
        http_version=request.http_version,
    )


def _path_of(url: bytes, host: bytes) -> bytes:
    """Return path and query of a target that is a whole URL, as clients of proxies send it."""
    parts = urlsplit(url)
    if parts.netloc.lower() != host.lower():
        raise h11.RemoteProtocolError("the request's URL and its Host header differ")
    return (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")


class BoundedProtocol(H11Protocol):
    """Answers 400 to what is not HTTP and to headers without end: they would be kept in memory.

    A connection whose request does not become whole in time is closed: it would be kept for ever.
    """

    conn: StrictConnection

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = StrictConnection(h11.SERVER, HEADERS_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._awaited: tuple[int, float | None] = (0, None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await(HEADERS_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._await(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come, then wait for the rest of the request, if there is one."""
        super().handle_events()
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._await(BODY_SECONDS)
        else:
            has_begun = state is h11.IDLE and bool(self.conn.trailing_data[0])
            self._await(HEADERS_SECONDS if has_begun else None)

    def send_400_response(self, msg: str) -> None:
        """Answer as every error is answered, say what is wrong, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            message = f"{msg.rstrip('.')}: {self.conn.problem}" if self.conn.problem else msg
            body = json.dumps({"error_code": 400, "message": message}).encode()
            headers = [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
            ]
            answer = h11.Response(status_code=400, headers=headers, reason="Bad Request")
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _await(self, seconds: float | None) -> None:
        """Close the connection unless this part of this request is whole after ``seconds``."""
        awaited = (self.conn.request_count, seconds)
        if awaited == self._awaited:
            return
        self._awaited = awaited
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self.flow.read_paused:  # it is us who do not take what was sent
            self._timer = self.loop.call_later(BODY_SECONDS, self._give_up)
        else:
            self.transport.close()


_START_SECONDS = 30.0
_SWITCH_SECONDS = 0.0005
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener, and the socket that callers reach it at."""

    listener: Listener
    socket: socket.socket

    @property
    def port(self) -> int:
        """The port it has got."""
        return int(self.socket.getsockname()[1])

    def close(self) -> None:
        """Let go of the port; safe to call twice."""
        self.socket.close()


def bind(listener: Listener) -> Bound:
    """Take a listener's port; EnvironmentFault when it cannot be had."""
    host, port = listener.address, listener.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        opened = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        why = error.strerror or str(error)
        raise EnvironmentFault(
            f"cannot listen on {host}:{port}: {why}",
            hint="Choose another in listeners or with --host and --port, or stop what has it.",
        ) from error
    # Connections inherit it. Else a body waits 40 ms for the caller to acknowledge the headers.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Bound(listener, opened)


class RestServer:
    """uvicorn in a thread of its own, so that signals are ours and it answers until the end.

    TLS is a server's, so every listener has one; all are in one loop, for the application counts
    what is under way in the loop it is called from.
    """

    def __init__(self, app: Any, listening: Sequence[Bound], tls: SSLContext | None) -> None:
        """Make it; ``tls`` is what https listeners show."""
        self._listening = listening
        self._servers = [
            uvicorn.Server(_config(app, tls if bound.listener.is_https else None))
            for bound in listening
        ]
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)

    def start(self) -> None:
        """Return when requests are answered."""
        # Jobs' threads would each keep the interpreter for 5 ms at a time while a call waits.
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not all(server.started for server in self._servers):
            self.check()
            if time.monotonic() > deadline:
                raise EnvironmentFault("the REST API did not start")
            time.sleep(0.01)
        for bound in self._listening:
            at = Listener(bound.listener.scheme, bound.listener.address, bound.port)
            logger.info("the REST API listens on %s", at)

    def check(self) -> None:
        """Raise when it has died."""
        if not self._thread.is_alive():
            raise EnvironmentFault("the REST API has ended by itself")

    def close(self) -> None:
        """Answer what was asked, then end."""
        for server in self._servers:
            server.should_exit = True
        self._thread.join(10.0)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._servers[0].config.get_loop_factory()) as runner:
            runner.run(_serve(zip(self._servers, self._listening, strict=True)))


async def _serve(pairs: Iterable[tuple[uvicorn.Server, Bound]]) -> None:
    """Answer until each is told to end; where one fails, all end."""
    await asyncio.gather(*(server.serve(sockets=[bound.socket]) for server, bound in pairs))


def _config(app: Any, tls: SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=5,
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
