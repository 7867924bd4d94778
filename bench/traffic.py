"""Counts what comes from a server: a forwarder of connections, with headers and all."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

PIECE_BYTES = 1 << 18


class Counter:
    """Listens on a port of its own; ``received`` are the bytes the server has sent so far."""

    def __init__(self, upstream: str) -> None:
        place = urlsplit(upstream)
        self._upstream = (place.hostname or "127.0.0.1", place.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.received = 0

    def __enter__(self) -> Counter:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._upstream)
                for source, sink in ((client, server), (server, client)):
                    counts = source is server
                    threading.Thread(
                        target=self._pass, args=(source, sink, counts), daemon=True
                    ).start()

    def _pass(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE_BYTES):
                if counts:
                    with self._lock:
                        self.received += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
