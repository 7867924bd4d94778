"""Access to the REST API: roles, users, bearer tokens, host names, TLS, and the checks on them.

Users and tokens come from files without passwords: a user has an argon2 hash, a token may have its
SHA-256. ``kafkeep user`` prints a user's line. HTTP is in ``rest/middleware.py``.

TLS is set by Connect's ``listeners.https.ssl.…`` keys, or by ``ssl.…`` if none of those is set. As
in Connect it is all or nothing: with one key under ``listeners.https.``, those without the prefix
are for Kafka's clients alone.
"""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from urllib.parse import urlsplit

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError

from kafkeep.errors import UsageError
from kafkeep.kafka.security.client_config import check_properties
from kafkeep.kafka.security.tls import server_context, tls_context
from kafkeep.options.config_files import load_text

DEFAULT_BODY_LIMIT_BYTES = 1 << 20
ANY_HOST = "*"
_SHORTEST_TOKEN = 16
OWN_SITE = ("none", "same-origin")
"""What a browser's Sec-Fetch-Site says when no other page is behind a call."""
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class Role(IntEnum):
    """What a caller may do; each role includes those below it."""

    READ = 1
    """Read: every GET."""
    OPERATE = 2
    """Pause, resume, stop, restart, validate, reset the list of topics."""
    ADMIN = 3
    """Create, change and delete connectors, move offsets, set log levels."""


def parse_role(text: str) -> Role:
    """Return the role of that name; UsageError for an unknown one."""
    try:
        return Role[text.strip().upper()]
    except KeyError:
        raise UsageError(
            f"no role is called {text!r}", hint="Roles are read, operate and admin."
        ) from None


def hash_password(password: str) -> str:
    """Return the argon2 hash to store instead of a password."""
    return PasswordHasher().hash(password)


def token_digest(token: str) -> str:
    """Return the SHA-256 to store instead of a bearer token, in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSecurity:
    """Who may call the REST API. Without users and tokens, every caller is admin."""

    basic_users: Mapping[str, tuple[str, Role]] = field(default_factory=dict, repr=False)
    """Name → (argon2 hash of the password, role)."""
    bearer_tokens: Mapping[str, Role] = field(default_factory=dict, repr=False)
    """SHA-256 of the token in hex → role."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host names of this service, without port; loopback names and addresses are always allowed.

    ``*`` turns the check off."""
    body_limit_bytes: int = DEFAULT_BODY_LIMIT_BYTES
    insecure: bool = False
    """Listen on any address without authentication."""
    proves_callers: bool = False
    """TLS requires a trusted certificate of every caller (``ssl.client.auth=required``)."""
    shows_secrets: bool = False
    """Callers who may change connectors see configurations with their secrets."""

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
        """True when callers must authenticate."""
        return bool(self.basic_users or self.bearer_tokens)

    def shows_secrets_to(self, role: Role | None) -> bool:
        """Return True for a caller who sees secrets: only one who may write them."""
        return self.shows_secrets and role is Role.ADMIN

    @property
    def _names(self) -> set[str]:
        return {_without_port(allowed) for allowed in self.allowed_hosts}

    def allows_host(self, host: str) -> bool:
        """Return True when ``host``, from the Host header, is a name of this service.

        No DNS can rebind an IP address, so addresses need no entry.
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
        """Return True when a page of ``origin`` may call: one of this service or an allowed host.

        A page on a loopback name may call as well, through a proxy that serves both and changes the
        Host: then the browser's Sec-Fetch-Site, if it sends one, is same-origin. Without a proxy
        the browser calls another port, which is another application, and Sec-Fetch-Site says so.
        Browsers do not send it to an address without TLS, so there such a page may not call.
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
    """Raise UsageError when others could reach the API at ``host`` without authentication."""
    proved = security.has_auth or security.proves_callers or security.insecure
    if is_loopback(_without_port(host)) or proved:
        return
    raise UsageError(
        f"the REST API would be open to everyone who reaches {host or 'this machine'}",
        hint="Bind 127.0.0.1, set up users or tokens, or accept that with --insecure.",
    )


def is_loopback(name: str) -> bool:
    """Return True for a name or address that never leaves this machine."""
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


def read_users(path: str) -> Mapping[str, tuple[str, Role]]:
    """Read ``name:role:argon2 hash`` lines; UsageError names the line, without secrets."""
    users: dict[str, tuple[str, Role]] = {}
    for number, line in _lines(path):
        name, role, stored = [*line.split(":", 2), "", ""][:3]
        if not name or not stored:
            raise UsageError(f"{path}, line {number}: a user is name:role:argon2 hash")
        if name in users:
            raise UsageError(f"{path}, line {number}: {name} is there twice")
        users[name] = (stored.strip(), _role(path, number, role))
    return users


def read_tokens(path: str) -> Mapping[str, Role]:
    """Read ``role:token`` or ``role:sha256:digest`` lines; return digests."""
    tokens: dict[str, Role] = {}
    for number, line in _lines(path):
        role, _, token = line.partition(":")
        if token.startswith("sha256:"):
            digest = token.removeprefix("sha256:").strip().lower()
        elif len(token.strip()) < _SHORTEST_TOKEN:
            raise UsageError(
                f"{path}, line {number}: a token has {_SHORTEST_TOKEN} characters or more",
                hint="Make one with: openssl rand -hex 32",
            )
        else:
            digest = token_digest(token.strip())
        tokens[digest] = _role(path, number, role)
    return tokens


def _lines(path: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(load_text(path).splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _role(path: str, number: int, text: str) -> Role:
    try:
        return parse_role(text)
    except UsageError as error:
        raise UsageError(f"{path}, line {number}: {error.message}", hint=error.hint) from error


def user_line(name: str, role: str, password: str) -> str:
    """Return the line of a user for the file of users."""
    if not name or ":" in name:
        raise UsageError("a user's name is not empty and has no colon")
    if not password:
        raise UsageError("the password is empty")
    return f"{name}:{parse_role(role).name.lower()}:{hash_password(password)}"


PREFIX = "listeners.https."
CLIENT_AUTH = "ssl.client.auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """TLS for the calls this worker answers, and for those it makes to other workers."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    proves_callers: bool
    """True when every caller needs a trusted certificate."""


def is_listener_key(key: str) -> bool:
    """Return True for a key of the worker's file about the listener alone."""
    return key == CLIENT_AUTH or key.startswith(PREFIX)


def listener_properties(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the listener's ``ssl.…`` keys, without their prefix."""
    prefixed = {k.removeprefix(PREFIX): v for k, v in texts.items() if k.startswith(PREFIX)}
    return prefixed or {k: v for k, v in texts.items() if k.startswith("ssl.")}


def shares_with_clients(texts: Mapping[str, str]) -> bool:
    """Return True when ``ssl.…`` keys without a prefix are for the listener as well."""
    return not any(key.startswith(PREFIX) for key in texts)


def read_tls(texts: Mapping[str, str], *, is_https: bool) -> ListenerTls | None:
    """Open the listener's key stores; None without https. UsageError names what is wrong.

    Without https, keys of the listener are refused: who sets one expects TLS.
    """
    if not is_https:
        unused = [key for key, text in texts.items() if _asks(key, text)]
        if unused:
            raise UsageError(f"{min(unused)} is set, but listeners has no https://…")
        return None
    properties = listener_properties(texts)
    auth = properties.pop(CLIENT_AUTH, "")
    unknown = [key for key in properties if not key.startswith("ssl.")]
    if unknown:
        raise UsageError(f"{PREFIX}{min(unknown)} is no key of a listener")
    check_properties({"security.protocol": "SSL", **properties})
    return ListenerTls(
        server=server_context({**properties, CLIENT_AUTH: auth}),
        client=tls_context(properties),
        proves_callers=auth.strip().lower() == "required",
    )


def _asks(key: str, text: str) -> bool:
    return is_listener_key(key) and not (key == CLIENT_AUTH and text.strip().lower() == "none")
