"""TLS of the REST API: Connect's ``listeners.https.ssl.…`` keys, or ``ssl.…`` where none is set.

As in Connect it is all or nothing: with one key under ``listeners.https.``, those without the
prefix are for Kafka's clients alone.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.errors import UsageError
from kafkeep.kafka.security.client_config import check_properties
from kafkeep.kafka.security.keystores import server_context, tls_context

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
