"""A small HTTP server that gives the answers that a test prepares."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class CannedRequest:
    """A request that came; names of headers in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class CannedServer:
    """Answers with what is next, and with the last of them for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.seen: list[str] = []
        self.requests: list[CannedRequest] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.seen.append(f"{self.command} {self.path}")
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append(CannedRequest(self.command, self.path, headers, sent))
                more = len(outer.answers) > 1
                status, headers, body = outer.answers.pop(0) if more else outer.answers[0]
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any

            def log_message(self, *_words: Any) -> None: ...

        self.handler = Handler
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def tell(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, named, body))

    def refuse(self, status: int, code: str) -> None:
        self.tell(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def lose(self) -> None:
        """Break the connection instead of answering."""
        self.tell(0)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
