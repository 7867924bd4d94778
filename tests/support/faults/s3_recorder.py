"""A small HTTP proxy before an S3 server, which keeps what it saw."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Seen:
    """A request that went through the proxy."""

    method: str
    target: str
    headers: dict[str, str]
    size: int
    answer: int = 0
    """Status of what was answered; 0 as long as nothing was."""


class Recorder:
    """A small HTTP proxy before the server: forwards every request, and keeps what it saw.

    Asked like a server it forwards to ``upstream``; asked like a proxy, to where the request says.
    """

    def __init__(self, upstream: str) -> None:
        self.seen: list[Seen] = []
        self.refuse: dict[str, int] = {}
        self.allows: Callable[[Seen], bool] = lambda _seen: True
        """Requests for which it returns False are answered with 403."""
        recorder, host = self, urlsplit(upstream).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                recorder.forward(self, host)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any

            def log_message(self, *_words: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def forward(self, asked: BaseHTTPRequestHandler, host: str) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in asked.headers.items()}
        seen = Seen(asked.command, asked.path, headers, len(body))
        self.seen.append(seen)
        url = urlsplit(asked.path)
        path = url.path + ("?" + url.query if url.query else "")
        refused = next((code for word, code in self.refuse.items() if word in path), None)
        if refused is None and not self.allows(seen):
            refused = HTTPStatus.FORBIDDEN
        if refused is not None:
            seen.answer = refused
            asked.send_response(refused)
            asked.send_header("Content-Length", "0")
            asked.end_headers()
            return
        onward = http.client.HTTPConnection(url.netloc or host, timeout=30)
        sent = {k: v for k, v in headers.items() if k not in ("expect", "proxy-authorization")}
        onward.request(
            asked.command, path, body=body or None, headers={**sent, "connection": "close"}
        )
        answer = onward.getresponse()
        content = answer.read()
        seen.answer = answer.status
        asked.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in (
                "connection",
                "transfer-encoding",
                "content-length",
                "date",
                "server",
            ):
                asked.send_header(name, value)
        length = answer.getheader("Content-Length") if asked.command == "HEAD" else len(content)
        asked.send_header("Content-Length", str(length or 0))
        asked.end_headers()
        asked.wfile.write(content)
        onward.close()

    def puts(self) -> list[Seen]:
        """The requests that sent an object or a part; one that was refused may be sent again."""
        puts = [one for one in self.seen if one.method == "PUT" and "tagging" not in one.target]
        return [one for one in puts if one.answer < HTTPStatus.MULTIPLE_CHOICES]
