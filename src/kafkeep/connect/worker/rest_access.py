"""Users and tokens of the REST API, from their files; ``kafkeep user`` makes a user's line.

The files hold no password: users have an argon2 hash, tokens may have their SHA-256.

TLS of the REST API: Connect's ``listeners.https.ssl.…`` keys, or ``ssl.…`` where none is set.

As in Connect it is all or nothing: with one key under ``listeners.https.`` those without the prefix
are for Kafka's clients alone.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkeep.connect.worker.rest_security import Role, hash_password, parse_role, token_digest
from kafkeep.errors import UsageError
from kafkeep.kafka.security.client_config import check_properties
from kafkeep.kafka.security.keystores import server_context, tls_context
from kafkeep.options.files import load_text

PREFIX = "listeners.https."
CLIENT_AUTH = "ssl.client.auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What this worker shows callers, and what it trusts and shows when it calls another one."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    proves_callers: bool
    """Nobody gets through without a certificate that is trusted."""


def is_listener_key(key: str) -> bool:
    """Tell whether a key of the worker's file is about the listener alone."""
    return key == CLIENT_AUTH or key.startswith(PREFIX)


def listener_properties(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the ``ssl.…`` keys that are for the listener, without their prefix."""
    prefixed = {k.removeprefix(PREFIX): v for k, v in texts.items() if k.startswith(PREFIX)}
    return prefixed or {k: v for k, v in texts.items() if k.startswith("ssl.")}


def shares_with_clients(texts: Mapping[str, str]) -> bool:
    """Tell whether ``ssl.…`` keys without a prefix are for the listener as well."""
    return not any(key.startswith(PREFIX) for key in texts)


def read_tls(texts: Mapping[str, str], *, is_https: bool) -> Tls | None:
    """Open the listener's stores; None without https. UsageError names what is wrong.

    A key that would be passed over is refused: whoever sets one means to have TLS.
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
    return Tls(
        server=server_context({**properties, CLIENT_AUTH: auth}),
        client=tls_context(properties),
        proves_callers=auth.strip().lower() == "required",
    )


def _asks(key: str, text: str) -> bool:
    return is_listener_key(key) and not (key == CLIENT_AUTH and text.strip().lower() == "none")


_SHORTEST_TOKEN = 16


def read_users(path: str) -> Mapping[str, tuple[str, Role]]:
    """Read ``name:role:argon2 hash`` lines; UsageError tells the line, and no secret."""
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
    """Read ``role:token`` or ``role:sha256:digest`` lines, as digests."""
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
    """Return the line of a user."""
    if not name or ":" in name:
        raise UsageError("a user's name is not empty and has no colon")
    if not password:
        raise UsageError("the password is empty")
    return f"{name}:{parse_role(role).name.lower()}:{hash_password(password)}"
