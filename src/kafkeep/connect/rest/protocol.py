"""HTTP as uvicorn parses it in C, with what that lacks: an end to headers and trailers."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_BYTES = 64 << 10
"""As much may come before headers are complete; bodies have a limit of their own."""


class BoundedProtocol(HttpToolsProtocol):
    """Answers 400 to headers without end, whoever sends them: they would be kept in memory."""

    _unfinished_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes, and count those that complete nothing."""
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > HEADERS_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_headers_complete(self) -> None:
        """Begin the body."""
        self._unfinished_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand on a part of the body."""
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._unfinished_bytes = 0
        super().on_message_complete()
