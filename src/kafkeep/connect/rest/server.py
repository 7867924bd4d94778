"""Serve the REST API: one application on several sockets, some of them over TLS.

h11 parses HTTP/1.1. ``StrictConnection`` refuses what h11 tolerates, and ``BoundedProtocol`` limits
the size of headers and the time to send a request.

An offer to upgrade (``Upgrade: h2c``, as Java's HttpClient sends it, or ``websocket``) is ignored,
as RFC 9110 allows: the request is answered over HTTP/1.1 and its body is read. httptools skips that
body and takes its bytes for the next request, so uvicorn's faster protocol cannot be used.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
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
"""The limit of a request's headers. Bodies have a limit of their own."""
HEADERS_SECONDS = 30.0
"""The time to send headers, from the connection or, on a used one, from their first byte."""
BODY_SECONDS = 120.0
"""The time to send the body, from the end of its headers."""
CHUNKS = 4000
"""How many chunks of a body may be tiny. A client that sends each word alone needs fewer."""
CHUNK_BYTES = 64
"""What chunks must have on average when there are more."""

_NOT_STRICT = re.compile(rb"(?<!\r)\n|\n[ \t]")
"""A line that ends without CR, or continues in the next one (obs-fold)."""
_CODING = b"transfer-encoding"


class StrictConnection(h11.Connection):
    """h11 without the leniency that lets two servers disagree on where a request ends.

    The requests it returns have no Upgrade header, and a path as their target.
    """

    request_count = 0
    problem = ""
    """Why the last request was refused."""
    _in_chunks = False
    _chunks = 0
    _chunk_bytes = 0

    def __init__(self, our_role: type[h11.CLIENT | h11.SERVER], max_bytes: int) -> None:
        super().__init__(our_role, max_bytes)
        self._sent = bytearray()
        """What h11 has not consumed, and the last byte that it did: two events may share the end of
        a line."""
        self._consumed = 0
        """How many of these bytes h11 has consumed: 0 or 1."""

    def receive_data(self, data: bytes) -> None:
        """Receive bytes, and keep a copy until their lines are checked."""
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
        """Check headers and trailers as they were sent: h11 has already repaired their lines.

        This reads and moves only the bytes of this event, because a body may have very many events.
        """
        end = len(self._sent) - len(self._receive_buffer)
        is_lines = isinstance(event, h11.Request) or (
            isinstance(event, h11.EndOfMessage) and self._in_chunks
        )
        if is_lines and _NOT_STRICT.search(self._sent, self._consumed, end):
            raise h11.RemoteProtocolError("a line of the headers does not end with CR LF")
        self._consumed = min(end, 1)
        del self._sent[: end - self._consumed]

    def _check_chunks(self, event: h11.Data) -> None:
        """Refuse a flood of tiny chunks: each costs as much time as a large one."""
        self._chunks += event.chunk_end
        self._chunk_bytes += len(event.data)
        if self._chunks > CHUNKS and self._chunk_bytes < self._chunks * CHUNK_BYTES:
            raise h11.RemoteProtocolError("the body comes in too many tiny chunks")


def _checked(request: h11.Request) -> h11.Request:
    """Return the request that the application gets; h11 has checked Host and Content-Length."""
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
    """Answers 400 to what is not HTTP and to endless headers, which would fill the memory.

    It closes a connection whose request is not complete in time, which would stay open for ever.
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
        self._timed: tuple[int, float | None] = (0, None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._set_timer(HEADERS_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._set_timer(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what was received, then set the timer for the rest of the request."""
        super().handle_events()
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._set_timer(BODY_SECONDS)
        else:
            has_begun = state is h11.IDLE and bool(self.conn.trailing_data[0])
            self._set_timer(HEADERS_SECONDS if has_begun else None)

    def send_400_response(self, msg: str) -> None:
        """Answer with Connect's form of an error, and close the connection."""
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

    def _set_timer(self, seconds: float | None) -> None:
        """Close the connection unless this part of the request is complete after ``seconds``."""
        timed = (self.conn.request_count, seconds)
        if timed == self._timed:
            return
        self._timed = timed
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self.flow.read_paused:  # the application does not read; the client is not to blame
            self._timer = self.loop.call_later(BODY_SECONDS, self._give_up)
        else:
            self.transport.close()


_START_SECONDS = 30.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with its socket."""

    listener: Listener
    socket: socket.socket

    @property
    def port(self) -> int:
        """The port; the system's choice where the listener asks for port 0."""
        return int(self.socket.getsockname()[1])

    def close(self) -> None:
        """Close the socket; safe to call twice."""
        self.socket.close()


def bind(listener: Listener) -> BoundListener:
    """Bind a listener's port; EnvironmentFault when it is not available."""
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
    # Connections inherit it. Otherwise a body waits 40 ms until the caller acknowledges headers.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return BoundListener(listener, opened)


class RestServer:
    """uvicorn in a thread of its own, so that this process handles signals and answers to the end.

    uvicorn sets TLS per server, so each listener has a server. All servers share one event loop,
    because the application limits concurrent calls per loop.
    """

    def __init__(
        self, app: Any, listening: Sequence[BoundListener], tls: SSLContext | None
    ) -> None:
        """Create the servers; https listeners use ``tls``."""
        self._listening = listening
        self._servers = [
            uvicorn.Server(_config(app, tls if bound.listener.is_https else None))
            for bound in listening
        ]
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)

    def start(self) -> None:
        """Start, and return once requests are answered."""
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
        """Raise EnvironmentFault when the server has died."""
        if not self._thread.is_alive():
            raise EnvironmentFault("the REST API stopped unexpectedly")

    def close(self) -> None:
        """Answer open requests, then stop."""
        for server in self._servers:
            server.should_exit = True
        self._thread.join(10.0)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._servers[0].config.get_loop_factory()) as runner:
            runner.run(_serve(zip(self._servers, self._listening, strict=True)))


async def _serve(pairs: Iterable[tuple[uvicorn.Server, BoundListener]]) -> None:
    """Serve until every server is stopped; when one fails, all end."""
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
