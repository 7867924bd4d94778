"""Secrets of connectors: recognise them, and keep them out of answers, traces and logs.

A reference such as ``${file:/run/secrets/s3:key}`` is not a secret: it is shown as it was sent.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import quote, unquote

from kafkeep.connect.connectors.sink_keys import is_secret as is_declared_secret
from kafkeep.connect.worker.config_providers import (
    FromProvider,
    is_reference,
    iter_references,
    without_references,
)
from kafkeep.options.option import ConfigErrors
from kafkeep.redact import MASK, clean_record, install, mask_words, redact

_SHORT = 4
"""Shorter words are masked only as whole words: they are part of many other words."""
_PATTERNS = re.compile(
    r"(.*(password|secret|token|key|passphrase|basic\.auth\.user\.info|sasl\.jaas\.config"
    r"|jaas\.configuration|connection\.uri)"
    r"|.*credentials.*|.*aws\.(access|secret|session)\..*)",
    re.IGNORECASE | re.DOTALL,
)
_HARMLESS = re.compile(
    r".*\.(class|source|mechanism|location|type|protocols?|algorithm|endpoint\.url)", re.IGNORECASE
)
"""Endings of keys that look secret but hold a method or a place."""
_KEY_IDS = re.compile(r"(.*[._])?access[._]key[._]id|connect\.s3\.aws\.access\.key", re.IGNORECASE)
"""The id of an access key, under any maker's key: useless without its secret."""
_JAAS_SECRET = re.compile(r"(?i)(?:password|secret|token)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|[^\s;]+)")
_ADDRESSES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("s3.proxy.",), ("s3.proxy.url",)),
    (
        ("aws.", "aws_", "s3.", "connect.s3.aws."),
        (
            *("store.url", "s3.endpoint", "aws.s3.endpoint", "aws_s3_endpoint"),
            *("connect.s3.custom.endpoint", "s3.proxy.url"),
        ),
    ),
    *(
        ((f"{role}.converter.",), (f"{role}.converter.schema.registry.url",))
        for role in ("key", "value", "header")
    ),
    *(
        (
            (f"{client}.override.",),
            (
                f"{client}.override.bootstrap.servers",
                f"{client}.override.sasl.oauthbearer.token.endpoint.url",
            ),
        )
        for client in ("consumer", "producer", "admin")
    ),
)
"""Keys of secrets → keys of the addresses they are sent to. When an address changes, its secret
must be written out again."""


def is_secret(key: str, text: str = "") -> bool:
    """Return True for a value that must not be shown; an address may contain a password."""
    if _password_in_address(text) or (isinstance(text, FromProvider) and text.words):
        return True
    if _HARMLESS.fullmatch(key) or _KEY_IDS.fullmatch(key):
        return False
    return _PATTERNS.fullmatch(key) is not None or is_declared_secret(key, text)


def mask(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration with its secrets masked."""
    return {
        key: MASK if text and is_secret(key, text) and not _is_reference(text) else text
        for key, text in config.items()
    }


def unmask(new: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Replace masks by the stored secrets: a client sends back what it was shown.

    ConfigErrors where nothing is stored, and where the address that a secret goes to has changed.
    Otherwise a caller could have secrets sent to a server of their own.
    """
    wrong: dict[str, str] = {}
    whole = dict(new)
    for key, text in new.items():
        if text != MASK:
            continue
        if key not in stored:
            wrong[key] = f"{MASK} means the stored value, and there is none"
        elif moved := _moved(key, new, stored):
            wrong[key] = f"must be written out again, because {moved} has changed"
        else:
            whole[key] = stored[key]
    if wrong:
        raise ConfigErrors(wrong)
    return whole


def hide(text: str, configs: Iterable[Mapping[str, str]]) -> str:
    """Return ``text`` with the secrets of these configurations masked."""
    return hide_words(text, secret_words(configs))


def secret_words(configs: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the secrets of these configurations, in every form they may be written in."""
    return frozenset(word for config in configs for word in _secret_words(config))


def hide_words(text: str, words: Iterable[str]) -> str:
    """Return ``text`` with these secrets masked; see ``secret_words``."""
    return mask_words(text, words, alone_below=_SHORT)


def _moved(key: str, new: Mapping[str, str], stored: Mapping[str, str]) -> str | None:
    for prefixes, addresses in _ADDRESSES:
        if key.startswith(prefixes):
            others = (one for one in addresses if one != key and new.get(one) != MASK)
            return next((one for one in others if new.get(one) != stored.get(one)), None)
    return None


def _is_reference(text: str) -> bool:
    """Return True when everything secret in a value is a reference."""
    first = next(iter_references(text), None)
    if first is None:
        return False
    if passwords := _JAAS_SECRET.findall(text):
        return all(is_reference(word.strip('"')) for word in passwords)
    if password := _password_in_address(text):
        return is_reference(password)
    secret = text if first.start == 0 else text.partition(":")[2]
    return re.sub(r"[\s,:;]", "", without_references(secret)) == ""


def _password_in_address(text: str) -> str | None:
    for word in re.split(r"[\s,]+", text):
        if "://" in word and "@" in word:
            user, _, password = word.partition("://")[2].rpartition("@")[0].partition(":")
            if "/" not in user and password:
                return password
    return None


def _secret_words(config: Mapping[str, str]) -> Iterator[str]:
    for key, text in config.items():
        if not text or not is_secret(key, text):
            continue
        for word in _parts(text):
            if word and word != MASK and not is_reference(word):
                yield from {word, quote(word, safe=""), json.dumps(word)[1:-1], repr(word)[1:-1]}


def _parts(text: str) -> Iterator[str]:
    """Yield a value, and each secret inside it that may appear alone."""
    yield str(text)
    if isinstance(text, FromProvider):
        yield from text.words
    for quoted in _JAAS_SECRET.findall(text):
        yield re.sub(r"\\(.)", r"\1", quoted.strip('"'))
    if password := _password_in_address(text):
        yield password
        yield unquote(password)
        return
    user, colon, password = text.partition(":")
    if colon and re.fullmatch(r"[\w.@-]+", user) and not password.startswith("//"):
        yield password


class SecretRedactor(logging.Filter):
    """Masks the secrets of connectors in log records and tracebacks.

    It also masks what ``kafkeep.redact`` recognises, because a library's logger may be set to DEBUG
    over REST. Safe to use from any thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._words_of: dict[str, frozenset[str]] = {}
        """By connector."""
        self._words: frozenset[str] = frozenset()
        """Of all connectors; read without the lock, because any thread may log."""

    def keep(self, name: str, *configs: Mapping[str, str]) -> None:
        """Replace the secrets of a connector by those of these configurations."""
        words = secret_words(configs)
        with self._lock:
            self._words_of[name] = words
            self._words = frozenset().union(*self._words_of.values())

    def forget(self, name: str) -> None:
        """Forget the secrets of a deleted connector."""
        with self._lock:
            self._words_of.pop(name, None)
            self._words = frozenset().union(*self._words_of.values())

    def redact(self, text: str) -> str:
        """Return a text, such as a trace, with all known secrets masked."""
        return redact(hide_words(text, self._words))

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask secrets in a record; it always passes."""
        clean_record(record, self.redact)
        return True

    def install(self) -> Callable[[], None]:
        """Mask every record of this process from now on; returns a function that undoes it."""
        return install(self.redact)
