"""The REST app on a free port of this machine, for as long as a block lasts."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from tests.support.waiting import PATIENCE_S

from kafkeep.connect.rest.server import BoundedProtocol


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Yield the base URL."""
    config = uvicorn.Config(
        app, http=BoundedProtocol, port=0, log_level="error", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def raw_request(
    base_url: str, method: str, path: str, headers: dict[str, str | None] | None = None
) -> tuple[int, bytes]:
    """Send a path exactly as it is: other clients would tidy it up first. None leaves one out."""
    connection = http.client.HTTPConnection(base_url.removeprefix("http://"), timeout=PATIENCE_S)
    if headers and headers.get("Host", "") is None:
        connection._http_vsn_str = "HTTP/1.0"  # the only version in which a Host may be missing
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in ({"Host": "localhost"} | (headers or {})).items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
