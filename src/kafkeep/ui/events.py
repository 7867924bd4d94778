"""Server-Sent Events: the live parts of a page, sent again when they have changed.

A stream is a coroutine that sleeps between looks; only rendering takes a thread, for moments. All
streams end when the console is closed, so that they do not hold up the server's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from starlette.responses import Response, StreamingResponse

from kafkeep.connect.model import RestError
from kafkeep.errors import KafkeepError
from kafkeep.ui.frame import HEADERS

EVERY_S = 2.0
_TICK_S = 0.25
_KEEPALIVE_S = 15.0
"""A comment after this much silence, so that proxies keep the connection."""
_STREAMS_AT_ONCE = 200

ReadParts = Callable[[], Awaitable[Mapping[str, str]]]
"""Renders the parts of a page, by the name of their event."""


class LiveStreams:
    """The open streams of one console; all run on the server's event loop."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._open = 0
        self._is_closed = False

    def close(self) -> None:
        """End all streams within a moment. Any thread may call it."""
        self._is_closed = True

    def respond(self, read: ReadParts) -> Response:
        """Return the answer that sends what ``read`` renders until the client leaves."""
        if self._is_closed or self._open >= _STREAMS_AT_ONCE:
            raise RestError(503, "Too many pages are open, or the service is stopping.")
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(self._stream(read), 200, headers, media_type="text/event-stream")

    async def _stream(self, read: ReadParts) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            yield b"retry: 1000\n\n"
            sent: dict[str, str] = {}
            silent_s = 0.0
            while not self._is_closed:
                changed = {
                    name: html
                    for name, html in (await _read(read)).items()
                    if sent.get(name) != html
                }
                sent |= changed
                for name, html in changed.items():
                    yield format_event(name, html)
                silent_s = 0.0 if changed else silent_s + self._every_s
                if silent_s >= _KEEPALIVE_S:
                    silent_s = 0.0
                    yield b": still here\n\n"
                await self._pause()
        finally:
            self._open -= 1

    async def _pause(self) -> None:
        waited = 0.0
        while waited < self._every_s and not self._is_closed:
            await asyncio.sleep(min(_TICK_S, self._every_s))
            waited += _TICK_S


async def _read(read: ReadParts) -> Mapping[str, str]:
    """Return the parts; a connector that is gone, or a store that is silent, sends nothing."""
    try:
        return await read()
    except KafkeepError:
        return {}


def format_event(name: str, html: str) -> bytes:
    """Return one event; each line of its text is a line of data."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines()) or "data:\n"
    return f"event: {name}\n{lines}\n".encode()
