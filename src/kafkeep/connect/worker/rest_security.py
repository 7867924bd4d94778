"""Who may call the REST API, from where, and how much they may send. Values and checks, no HTTP."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from urllib.parse import urlsplit

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError

from kafkeep.errors import UsageError

DEFAULT_BODY_LIMIT_BYTES = 1 << 20
ANY_HOST = "*"
OWN_SITE = ("none", "same-origin")
"""What a browser's Sec-Fetch-Site says when no other page is behind a call."""
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class Role(IntEnum):
    """What a caller may do; each role may do what those below it may."""

    READ = 1
    """Look: every GET but the open ones."""
    OPERATE = 2
    """Pause, resume, stop, restart, validate, reset the list of topics."""
    ADMIN = 3
    """Create, change and delete connectors, move offsets, set log levels."""


def parse_role(text: str) -> Role:
    """Return the role of that name; UsageError when there is none."""
    try:
        return Role[text.strip().upper()]
    except KeyError:
        raise UsageError(
            f"no role is called {text!r}", hint="Roles are read, operate and admin."
        ) from None


def hash_password(password: str) -> str:
    """Return the argon2 hash to keep in place of a password."""
    return PasswordHasher().hash(password)


def token_digest(token: str) -> str:
    """Return the SHA-256 to keep in place of a bearer token, in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSecurity:
    """What the worker's file says of access. Without users and tokens, every caller is admin."""

    basic_users: Mapping[str, tuple[str, Role]] = field(default_factory=dict, repr=False)
    """Name → (argon2 hash of the password, role)."""
    bearer_tokens: Mapping[str, Role] = field(default_factory=dict, repr=False)
    """SHA-256 of the token in hex → role."""
    allowed_hosts: frozenset[str] = frozenset()
    """Names this service is called by, without port; loopback names and addresses always are.

    ``*`` turns the check off."""
    body_limit_bytes: int = DEFAULT_BODY_LIMIT_BYTES
    insecure: bool = False
    """Bind anywhere without asking who calls."""
    proves_callers: bool = False
    """TLS lets nobody through without a trusted certificate (ssl.client.auth=required)."""
    shows_secrets: bool = False
    """Callers who may change connectors see their configurations as they were sent."""

    def __post_init__(self) -> None:
        for name, (stored, _) in self.basic_users.items():
            try:
                extract_parameters(stored)
            except InvalidHashError:
                raise UsageError(
                    f"the password of REST user {name!r} is not an argon2 hash"
                ) from None
            if ":" in name:
                raise UsageError(f"REST user {name!r} has a colon in its name")
        for digest in self.bearer_tokens:
            if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
                raise UsageError("a bearer token is kept as its SHA-256, in 64 hex digits")
        if self.body_limit_bytes <= 0:
            raise UsageError("the limit of a request's body must be positive")

    @property
    def has_auth(self) -> bool:
        """Tell whether callers must say who they are."""
        return bool(self.basic_users or self.bearer_tokens)

    def shows_secrets_to(self, role: Role | None) -> bool:
        """Tell whether a caller sees secrets: one who may write them, and no other."""
        return self.shows_secrets and role is Role.ADMIN

    @property
    def _names(self) -> set[str]:
        return {_without_port(allowed) for allowed in self.allowed_hosts}

    def allows_host(self, host: str) -> bool:
        """Tell whether ``host``, as the Host header has it, is a name of this service.

        An address cannot be rebound by anyone's DNS, so it needs no entry.
        """
        name = _without_port(host)
        if not name:
            return False
        return (
            ANY_HOST in self.allowed_hosts
            or _is_address(name)
            or is_loopback(name)
            or name in self._names
        )

    def allows_origin(self, origin: str, host: str, fetch_site: str = "none") -> bool:
        """Tell whether a page of ``origin`` may call: one of this service, or of an allowed host.

        A page of this machine (a loopback name) may call as well, through a proxy that serves both
        and changes the Host: then the browser's Sec-Fetch-Site, if it sends one, says same-origin.
        Without a proxy the browser calls another port, which is another application, and says so.
        To an address without TLS it says nothing: there a page of this machine may not call.
        """
        try:
            netloc = urlsplit(origin).netloc.lower()
        except ValueError:
            return False
        if not netloc:
            return False
        if netloc == host.strip().lower():
            return True
        name = _without_port(netloc)
        if is_loopback(name):
            called = _without_port(host)
            is_named = is_loopback(called) or called in self._names
            return fetch_site in OWN_SITE if is_named else fetch_site == "same-origin"
        return name in self._names


def require_safe_bind(host: str, security: RestSecurity) -> None:
    """Raise UsageError when others could reach the API at ``host`` without saying who they are."""
    proved = security.has_auth or security.proves_callers or security.insecure
    if is_loopback(_without_port(host)) or proved:
        return
    raise UsageError(
        f"the REST API would be open to everyone who reaches {host or 'this machine'}",
        hint="Bind 127.0.0.1, set up users or tokens, or accept that with --insecure.",
    )


def is_loopback(name: str) -> bool:
    """Tell whether a name or address never leaves this machine."""
    if name.lower().rstrip(".") in _LOOPBACK_NAMES:
        return True
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    """Return the bare, lower-case host of ``host``, ``host:port`` or ``[v6]:port``."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    if host.count(":") == 1:
        return host.partition(":")[0]
    return host
