"""Middleware before every route: check origin and credentials, add security headers to answers.

Every route of the application is behind it, so no page or endpoint can bypass the policy. Secrets
are compared in constant time.

One path beside the REST API receives the requests that other workers forward to the leader. The
forwarding worker has authenticated the caller. The workers share a secret in the state store; a
request without it gets 404.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import HttpError, error_answer, json_answer, unexpected_answer
from kafkeep.connect.service.forward import HEADER, LARGEST_BODY, PATH, carry_out
from kafkeep.connect.service.leader import Leader
from kafkeep.connect.worker.rest_security import OWN_SITE, RestSecurity, Role, token_digest
from kafkeep.errors import KafkeepError


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call; ``role`` is None for an anonymous caller."""

    name: str
    role: Role | None


EVERYONE = Caller("everyone", Role.ADMIN)
ANONYMOUS = Caller("nobody", None)


class Authenticator:
    """Turns an Authorization header into a caller.

    argon2 takes tens of milliseconds by design, so the authenticator remembers a correct password
    as a keyed digest. A client that polls every second does not pay for argon2 each time.
    """

    def __init__(self, security: RestSecurity) -> None:
        self._security = security
        self._hasher = PasswordHasher()
        self._key = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}

    def known(self, header: str | None) -> Caller | None:
        """Return the caller when that needs no password check; None when it does, or is wrong."""
        if not self._security.has_auth:
            return EVERYONE
        if header is None:
            return ANONYMOUS
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "bearer":
            return self._bearer(value.strip())
        if scheme.lower() == "basic":
            name, password = _parse_basic(value)
            if hmac.compare_digest(self._right.get(name, b""), self._digest(name, password)):
                return Caller(name, self._security.basic_users[name][1])
        return None

    def check(self, header: str) -> Caller | None:
        """Check a password the slow way; None when the credentials are wrong."""
        scheme, _, value = header.partition(" ")
        users = self._security.basic_users
        if scheme.lower() != "basic" or not users:
            return None
        name, password = _parse_basic(value)
        # An unknown name takes as long as a wrong password, so that names cannot be guessed.
        stored, role = users.get(name) or next(iter(users.values()))
        try:
            self._hasher.verify(stored, password)
        except VerificationError:
            return None
        if name not in users:
            return None
        self._right[name] = self._digest(name, password)
        return Caller(name, role)

    def _bearer(self, token: str) -> Caller | None:
        digest = token_digest(token)
        found = None
        for stored, role in self._security.bearer_tokens.items():
            if hmac.compare_digest(stored, digest):
                found = Caller(f"token {digest[:8]}", role)
        return found

    def _digest(self, name: str, password: str) -> bytes:
        text = f"{name}\0{password}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).digest()


def _parse_basic(value: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password


log = logging.getLogger(__name__)

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PASSWORDS_AT_ONCE = 2
"""argon2 is slow on purpose: more checks at once would let guesses starve other calls."""


class AccessMiddleware:
    """ASGI middleware; leaves the caller in ``scope["state"]["caller"]``."""

    def __init__(self, app: ASGIApp, security: RestSecurity) -> None:
        self._app = app
        self._security = security
        self._authenticator = Authenticator(security)
        self._passwords = anyio.CapacityLimiter(_PASSWORDS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        send_with_headers = _with_headers(send)
        headers = Headers(scope=scope)
        try:
            self._check_origin(scope["method"], headers)
            caller = await self._caller(headers.get("authorization"), scope.get("client"))
        except RestError as error:
            await error_answer(error)(scope, receive, send_with_headers)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send_with_headers)

    def _check_origin(self, method: str, headers: Headers) -> None:
        """Refuse pages of other sites, and a Host that is not this service's (DNS rebinding)."""
        host = headers.get("host", "")
        # Every browser sends a Host; a probe over HTTP/1.0 may not.
        if "host" in headers and not self._security.allows_host(host):
            raise RestError(
                403, f"{host!r} is not a host name of this service; add it to kafkeep.rest.hosts"
            )
        origin, fetch_site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and not self._security.allows_origin(origin, host, fetch_site):
            raise RestError(
                403,
                f"Pages of {origin!r} may not call this service at {host!r}; add their host to "
                "kafkeep.rest.hosts, or if it is a loopback name, proxy the calls through their "
                "own server",
            )
        if origin is None and fetch_site not in OWN_SITE and method not in _SAFE_METHODS:
            raise RestError(403, "Pages of other sites may not call this service")

    async def _caller(self, header: str | None, client: tuple[str, int] | None) -> Caller:
        caller = self._authenticator.known(header)
        if caller is None and header is not None:
            caller = await anyio.to_thread.run_sync(
                self._authenticator.check, header, limiter=self._passwords
            )
        if caller is None:
            log.warning("wrong credentials from %s", client[0] if client else "an unknown address")
            raise unauthorized(self._security)
        return caller


def unauthorized(security: RestSecurity) -> HttpError:
    """Return the 401 that names the accepted schemes."""
    schemes = ['Basic realm="kafkeep", charset="UTF-8"'] if security.basic_users else []
    schemes += ['Bearer realm="kafkeep"'] if security.bearer_tokens else []
    return HttpError(
        401, "User cannot access the resource.", {"WWW-Authenticate": ", ".join(schemes)}
    )


def _with_headers(send: Send) -> Send:
    """Return a ``send`` that adds the security headers an answer does not set itself."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


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
