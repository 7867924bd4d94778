"""Receive what another worker forwards to the leader: beside the REST API, behind a secret.

The caller has been authenticated by the worker it asked. The two workers know a secret that lies in
the state store. Without it there is nothing at this path.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from functools import partial

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import error_answer, json_answer, unexpected_answer
from kafkeep.connect.service.forward import HEADER, LARGEST_BODY, PATH, carry_out
from kafkeep.connect.service.leader import Leader
from kafkeep.errors import KafkeepError

log = logging.getLogger(__name__)


class ForwardMiddleware:
    """ASGI middleware that answers one path of its own and passes the rest on."""

    def __init__(self, app: ASGIApp, leader: Callable[[], Leader], token: str) -> None:
        self._app = app
        self._leader = leader
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a forwarded request; 404 without the secret."""
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            self._check(request)
            body = b""
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise RestError(413, "The request is too large")
            result = await anyio.to_thread.run_sync(partial(self._carry_out, body))
        except KafkeepError as error:
            return error_answer(error)
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("a forwarded request failed")
            return unexpected_answer()
        return json_answer({"result": result})

    def _carry_out(self, body: bytes) -> object:
        return carry_out(self._leader(), body)

    def _check(self, request: Request) -> None:
        given = request.headers.get(HEADER, "").encode()
        if request.method != "POST" or not hmac.compare_digest(given, self._token):
            raise RestError(404, "HTTP 404 Not Found")
