"""The REST API's listeners: one application on several sockets, some of them over TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any

import uvicorn

from kafkeep.connect.rest.protocol import BoundedProtocol
from kafkeep.connect.worker.rest_keys import Listener
from kafkeep.errors import EnvironmentFault

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
