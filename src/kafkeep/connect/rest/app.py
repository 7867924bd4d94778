"""The REST API as an ASGI application: find the endpoint, call it, answer.

Endpoints run in a thread, except those that only read memory: a thread would have to wait for the
interpreter while jobs compute.
"""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Mapping
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import error_answer, json_answer, plain_error, unexpected_answer
from kafkeep.connect.rest.call import Call, Endpoint, allow_header, match, read_body, split_path
from kafkeep.connect.rest.endpoints import SERVICE_ENDPOINTS
from kafkeep.connect.rest.middleware import AccessMiddleware, Caller, unauthorized
from kafkeep.connect.rest.openapi import PAGE_POLICY, openapi_document, openapi_page
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import RestSecurity, Role
from kafkeep.errors import KafkeepError

log = logging.getLogger(__name__)

_VERSION = importlib.metadata.version("kafkeep")
_CALLS_AT_ONCE = 32
_PROBES_AT_ONCE = 4
"""Health has its own threads, so that it answers when every other call hangs."""


PAGES = "/ui"


class Pages(Protocol):
    """An ASGI application of pages for people; ``close`` ends its streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request below ``/ui``."""

    def close(self) -> None:
        """End what would keep connections open while the server stops. Any thread may call it."""


def make_app(
    service: ConnectService, security: RestSecurity, pages: Pages | None = None
) -> Starlette:
    """Return the application. Routes added to it come first, behind the same middleware.

    ``pages`` answer below ``/ui``, and a browser that asks for ``/`` is sent there.
    """
    app = Starlette(
        middleware=[Middleware(AccessMiddleware, security=security)],
        exception_handlers={HTTPException: _http_exception},
    )
    app.router.redirect_slashes = False
    # Not a route: Starlette's patterns match the decoded path and stop at a newline in it.
    app.router.default = _Dispatch(service, security, has_pages=pages is not None)
    if pages is not None:
        app.router.routes += [Route(PAGES, _to_pages, methods=["GET"]), Mount(PAGES, pages)]
    return app


async def _to_pages(_: Request) -> Response:
    return RedirectResponse(f"{PAGES}/", 307, {"Vary": "Accept"})


def prefers_html(accept: str) -> bool:
    """Return True for the Accept header of a browser: it names text/html before JSON."""
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    if "text/html" not in kinds:
        return False
    return "application/json" not in kinds[: kinds.index("text/html")]


async def _http_exception(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return error_answer(plain_error(status))


def _document(_: ConnectService, __: Call) -> Response:
    return json_answer(openapi_document(ENDPOINTS, _VERSION))


def _page(_: ConnectService, __: Call) -> Response:
    page = openapi_page(ENDPOINTS, _VERSION)
    return HTMLResponse(page, headers={"Content-Security-Policy": PAGE_POLICY})


ENDPOINTS: tuple[Endpoint, ...] = (
    *SERVICE_ENDPOINTS,
    Endpoint(
        method="GET",
        path="/openapi.json",
        role=Role.READ,
        run=_document,
        help="The OpenAPI document.",
        answers={200: "Document"},
    ),
    Endpoint(
        method="GET",
        path="/openapi",
        role=Role.READ,
        run=_page,
        help="The same as a page to read.",
        answers={200: "Text"},
        media_type="text/html",
    ),
)


class _Dispatch:
    """Answers every path that no route has."""

    def __init__(self, service: ConnectService, security: RestSecurity, *, has_pages: bool) -> None:
        self._service = service
        self._has_pages = has_pages
        self._security = security
        self._calls = anyio.CapacityLimiter(_CALLS_AT_ONCE)
        self._probes = anyio.CapacityLimiter(_PROBES_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if self._has_pages and _is_browser_at_root(request):
            await (await _to_pages(request))(scope, receive, send)
            return
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        if request.method not in ("GET", "HEAD"):
            who = request.state.caller.name
            log.info("%r %s: %d", who, _described(request), response.status_code)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            endpoint, values = find(request.method, request.scope["raw_path"])
            self._check_role(endpoint, request.state.caller)
            body = await read_body(request, self._security.body_limit_bytes)
            query = {name: request.query_params.getlist(name) for name in request.query_params}
            role = request.state.caller.role
            sees_secrets = self._security.shows_secrets_to(role)
            call = Call(
                path=values,
                query=query,
                body=body,
                role=role,
                caller=request.state.caller.name,
                sees_secrets=sees_secrets,
            )
            if endpoint.quick and self._service.answers_from_memory():
                return endpoint.run(self._service, call)
            limiter = self._probes if endpoint.role is None else self._calls
            return await anyio.to_thread.run_sync(
                partial(endpoint.run, self._service, call), limiter=limiter
            )
        except KafkeepError as error:
            answer = error_answer(error)
            if answer.status_code >= 500:
                log.error("%s: %s", _described(request), error.message)
            return answer
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("%s failed", _described(request))
            return unexpected_answer()

    def _check_role(self, endpoint: Endpoint, caller: Caller) -> None:
        if endpoint.role is None:
            return
        if caller.role is None:
            raise unauthorized(self._security)
        if caller.role < endpoint.role:
            raise RestError(
                403, f"This needs the role {endpoint.role.name.lower()}, which the caller lacks"
            )


def _is_browser_at_root(request: Request) -> bool:
    if request.method not in ("GET", "HEAD") or request.scope["path"] != "/":
        return False
    return prefers_html(request.headers.get("accept", ""))


def _described(request: Request) -> str:
    """Return the call for a log line, with the path still escaped: it may contain a newline."""
    return f"{request.method} {request.scope['raw_path'].decode('ascii', 'backslashreplace')}"


def find(method: str, raw_path: bytes) -> tuple[Endpoint, Mapping[str, str]]:
    """Return a request's endpoint and the values of its path; 404 and 405 in Connect's words."""
    segments = split_path(raw_path)
    wanted = "GET" if method == "HEAD" else method
    here = [
        (endpoint, values)
        for endpoint in ENDPOINTS
        if (values := match(endpoint.path, segments)) is not None
    ]
    for endpoint, values in here:
        if endpoint.method == wanted:
            return endpoint, values
    if here:
        allowed = allow_header(endpoint.method for endpoint, _ in here)
        raise plain_error(405, {"Allow": allowed})
    raise plain_error(404)
