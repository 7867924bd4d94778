"""HTTP as uvicorn parses it in C, with an end to headers, trailers and waiting, which it lacks."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_BYTES = 64 << 10
"""As much may come before headers are complete; bodies have a limit of their own."""
HEADERS_SECONDS = 30.0
"""Headers are complete so long after the connection, or their first byte on a used one."""
BODY_SECONDS = 120.0
"""The body is complete so long after its headers."""


class BoundedProtocol(HttpToolsProtocol):
    """Answers 400 to headers without end, whoever sends them: they would be kept in memory.

    A connection whose request does not become whole in time is closed: it would be kept for ever.
    """

    _unfinished_bytes = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait(HEADERS_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes, and count those that complete nothing."""
        if self._patience is None:
            self._wait(HEADERS_SECONDS)
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > HEADERS_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_headers_complete(self) -> None:
        """Begin the body."""
        self._unfinished_bytes = 0
        self._wait(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand on a part of the body."""
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._unfinished_bytes = 0
        self._wait(None)
        super().on_message_complete()

    def _wait(self, seconds: float | None) -> None:
        """Close the connection after so long, unless called again before."""
        if self._patience is not None:
            self._patience.cancel()
        self._patience = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self.flow.read_paused:
            self._wait(BODY_SECONDS)  # it is us who do not take what was sent
        else:
            self.transport.close()
