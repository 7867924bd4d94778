"""The console as an ASGI application: check role and form token, call the page, answer.

It is mounted at ``/ui`` behind the REST API's middleware, which checks origin and credentials.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from kafkeep.clock import now_ms
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import HttpError, error_answer
from kafkeep.connect.rest.middleware import unauthorized
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import RestSecurity, Role
from kafkeep.errors import KafkeepError
from kafkeep.ui.csrf import COOKIE, FIELD, FormTokens, is_cookie, new_cookie
from kafkeep.ui.events import EVERY_S, LiveStreams
from kafkeep.ui.frame import ROOT, STATIC, Frame
from kafkeep.ui.pages.registry import LIVE, MESSAGES, NAVIGATION, ROUTES
from kafkeep.ui.visit import PageRoute, Visit

log = logging.getLogger(__name__)

_PAGES_AT_ONCE = 16
_FORM_FIELDS = 2000
_FORM_TYPE = "application/x-www-form-urlencoded"
_ADVICE: Mapping[int, str] = {
    400: "Go back, correct the input and try again.",
    401: "Reload the page and enter your name and password.",
    403: "Ask an administrator for a user with a higher role, or reload the page and try again.",
    404: "Check the address. The connector may have been deleted; the list shows those that exist.",
    405: "Open the page from the navigation.",
    409: "Another change is under way, or no worker leads yet. Wait a moment and try again.",
    413: "Send a smaller form.",
    503: "Kafka or the object store did not answer. Wait a moment and reload the page.",
}
_OTHERWISE = "Reload the page. If it happens again, look into the worker's log."


def make_console(service: ConnectService, security: RestSecurity, secret: str) -> Console:
    """Return the pages. ``secret`` is the same on all workers of a group; it signs forms."""
    return Console(service, security, secret)


class Console:
    """An ASGI application; ``close`` ends its streams."""

    def __init__(
        self,
        service: ConnectService,
        security: RestSecurity,
        secret: str,
        every_s: float = EVERY_S,
    ) -> None:
        self._service = service
        self._security = security
        self._tokens = FormTokens(secret)
        self._frame = Frame(NAVIGATION, MESSAGES)
        self._streams = LiveStreams(every_s)
        self._pages = anyio.CapacityLimiter(_PAGES_AT_ONCE)
        self._app = Starlette(
            routes=[
                Mount("/static", _static),
                Route("/events", self._events, methods=["GET"]),
                *(Route(one.path, self._endpoint(one), methods=[one.method]) for one in ROUTES),
            ],
            exception_handlers={HTTPException: self._http_error},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._app(scope, receive, send)

    def close(self) -> None:
        """End all streams, so that the server can stop. Any thread may call it."""
        self._streams.close()

    def _endpoint(self, route: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            response = await self._answer(route, request)
            if request.method == "POST" and route.is_change:
                path = request.scope["raw_path"].decode("ascii", "backslashreplace")
                who = request.state.caller.name
                log.info("%r %s %s: %d", who, request.method, path, response.status_code)
            return response

        return answer

    async def _answer(self, route: PageRoute, request: Request) -> Response:
        cookie = _cookie(request)
        visit = self._visit(request, cookie)
        try:
            self._check_role(visit, route.role)
            if request.method == "POST":
                visit = self._visit(request, cookie, await self._form(request))
            response = await anyio.to_thread.run_sync(
                partial(route.run, visit), limiter=self._pages
            )
        except (KafkeepError, ClientDisconnect) as error:
            response = self._error(visit, error)
        except Exception:
            log.exception("a page failed: %s %s", request.method, route.path)
            response = self._error(visit, RestError(500, "The page failed unexpectedly."))
        if request.cookies.get(COOKIE) != cookie:
            is_https = request.url.scheme == "https"
            response.set_cookie(
                COOKIE, cookie, path=ROOT, httponly=True, samesite="strict", secure=is_https
            )
        return response

    def _visit(self, request: Request, cookie: str, form: Mapping[str, str] | None = None) -> Visit:
        caller = request.state.caller
        path = request.scope["path"].removeprefix(ROOT)
        return Visit(
            service=self._service,
            frame=self._frame,
            caller=caller,
            now_ms=now_ms(),
            token=self._tokens.token(cookie),
            sees_secrets=self._security.shows_secrets_to(caller.role),
            route=_section(path),
            path=dict(request.path_params),
            query=dict(request.query_params),
            form=form or {},
            is_htmx=request.headers.get("hx-request") == "true",
        )

    def _check_role(self, visit: Visit, needed: Role) -> None:
        if visit.caller.role is None:
            raise unauthorized(self._security)
        if visit.caller.role < needed:
            raise RestError(403, f"This needs the role {needed.name.lower()}, which you lack.")

    async def _form(self, request: Request) -> Mapping[str, str]:
        """Return the fields of a form; 403 without its token, 413 when it is too large."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._security.body_limit_bytes:
                raise RestError(413, "The form is too large.")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _FORM_TYPE:
            raise RestError(415, "The console reads forms only.")
        try:
            fields = dict(
                parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FORM_FIELDS)
            )
        except ValueError:
            raise RestError(400, "The form cannot be read.") from None
        if not self._tokens.accepts(request.cookies.get(COOKIE), fields.get(FIELD)):
            raise RestError(
                403,
                "The form has no valid token, so it may come from another site. Nothing changed.",
            )
        return fields

    async def _events(self, request: Request) -> Response:
        visit = self._visit(request, _cookie(request))
        try:
            self._check_role(visit, Role.READ)
            live = LIVE.get(visit.query.get("page", ""))
            if live is None:
                raise RestError(404, "There is no such stream.")

            async def read() -> Mapping[str, str]:
                now = self._visit(request, _cookie(request))
                now = _at_connector(now)
                return await anyio.to_thread.run_sync(partial(live, now), limiter=self._pages)

            return self._streams.respond(read)
        except KafkeepError as error:
            return self._error(visit, error)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        visit = self._visit(request, _cookie(request))
        message = "There is no such page." if status == 404 else HTTPStatus(status).phrase + "."
        return self._error(visit, RestError(status, message))

    def _error(self, visit: Visit, error: Exception) -> Response:
        """Return an error as a page in the frame, or for an anonymous caller as plain as it is."""
        known = error if isinstance(error, KafkeepError) else RestError(400, "The client left.")
        status = error_answer(known).status_code
        response = visit.page(
            "error.html",
            title=HTTPStatus(status).phrase,
            http_status=status,
            sentence=known.message,
            advice=known.hint or _ADVICE.get(status, _OTHERWISE),
        )
        if isinstance(known, HttpError):
            response.headers.update(known.headers)
        return response


def _section(path: str) -> str:
    """Return the navigation entry that a path belongs to."""
    first = path.strip("/").partition("/")[0]
    if first in ("new-connector", "check-config"):
        return "/connectors"
    return "/restores" if first == "new-restore" else f"/{first}"


def _cookie(request: Request) -> str:
    """Return the browser's cookie, or a new one when it has none; the same for one request."""
    given = request.cookies.get(COOKIE)
    if given is not None and is_cookie(given):
        return given
    if not hasattr(request.state, "console_cookie"):
        request.state.console_cookie = new_cookie()
    return str(request.state.console_cookie)


def _at_connector(visit: Visit) -> Visit:

    return replace(visit, path={"name": visit.query.get("name", "")})


class _Static:
    """Files that the pages load. They hold nothing secret, so anyone may read them."""

    def __init__(self) -> None:
        self._files = StaticFiles(directory=STATIC)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_revalidated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"cache-control", b"no-cache"))
            await send(message)

        await self._files(scope, receive, send_revalidated)


_static = _Static()
