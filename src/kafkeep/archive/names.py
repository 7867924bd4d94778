"""Check names from users and stored documents: topics, logs, connectors, keys."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from kafkeep.errors import UsageError

ROOT = "_kafkeep/"
MAX_KEY_BYTES = 1024
"""The longest key that S3 accepts, including the archive's prefix."""
NOT_IN_KEYS = r"\x00-\x1f\x7f-\x9f\\\ud800-\udfff\ufffe\uffff"
"""A backslash, control characters, and characters that XML (and so S3's listing) cannot hold."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LOG_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_NOT_IN_LOG_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_KEPT_CHARACTERS = 100
_RESERVED = frozenset({"restores"})
_FOLDER = re.compile(r"([^~]+)(?:~([1-9][0-9]*))?")
_NO_NAMES = frozenset({"", ".", ".."})
_UNSAFE = re.compile(f"[{NOT_IN_KEYS}]")


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """How many bytes a key below the prefix may have, and each folder in it."""

    key_bytes: int = MAX_KEY_BYTES
    folder_bytes: int | None = None

    def __str__(self) -> str:
        each = "" if self.folder_bytes is None else f", and {self.folder_bytes} for each folder"
        return f"{self.key_bytes}{each}"


@lru_cache(maxsize=65536)
def check_topic_name(name: str) -> str:
    """Return ``name`` if Kafka allows it as a topic, else raise ValueError."""
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise ValueError(f"not a valid topic name: {name[:260]!r}")
    return name


def check_log_name(name: str) -> str:
    """Return ``name`` if a log may have it, else raise ValueError."""
    if not _LOG_NAME.fullmatch(name) or name in _RESERVED:
        raise ValueError(f"not a valid log name: {name[:210]!r}")
    return name


def topic_name(text: str) -> str:
    """Return the topic that a user named; UsageError if Kafka does not allow it."""
    try:
        return check_topic_name(text.strip())
    except ValueError as error:
        raise UsageError(
            f"{text[:260]!r} is not a valid topic name",
            hint="Use letters, digits, '.', '_' and '-', at most 249 of them.",
        ) from error


def log_name(text: str) -> str:
    """Return the log that a user named; UsageError if no log may have that name."""
    name = text.strip()
    if name in _RESERVED:
        raise UsageError(f"the name {name!r} is reserved", hint="Choose another name for the log.")
    try:
        return check_log_name(name)
    except ValueError as error:
        raise UsageError(
            str(error), hint="Use letters, digits, '.', '_' and '-', at most 200 of them."
        ) from error


def connector_log(name: str) -> str:
    """Return the name of a connector's log: the connector's own, if a log may have it.

    Connect accepts nearly any name. From a name that no log may have, invalid characters are
    removed and a digest is added. UsageError for an empty name and for a slash.
    """
    bare = name.strip()
    if not bare or "/" in bare:
        raise UsageError(
            f"not a valid connector name: {name[:210]!r}", hint="Use a name without a slash."
        )
    with suppress(ValueError):
        return check_log_name(bare)
    kept = _NOT_IN_LOG_NAMES.sub("-", bare).strip(".-")[:_KEPT_CHARACTERS]
    digest = hashlib.sha256(bare.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return check_log_name(f"{kept or 'connector'}-{digest}")


def check_key(key: str) -> str:
    """Return ``key`` if a data object may have it, else raise ValueError.

    Anyone who can write to the bucket can write keys into stored documents. A key must not lead out
    of the archive or into a log.
    """
    parts = key.split("/")
    if not _NO_NAMES.isdisjoint(parts) or parts[0] == ROOT[:-1]:
        raise ValueError(f"not a key of a data object: {key[:300]!r}")
    if _UNSAFE.search(key) or len(key.encode()) > MAX_KEY_BYTES:
        raise ValueError(f"not a key of a data object: {key[:300]!r}")
    return key


def parse_folder(folder: str) -> tuple[str, int]:
    """Return topic and incarnation of a topic's folder: ``orders~2`` is ``("orders", 2)``."""
    match = _FOLDER.fullmatch(folder)
    if match is None or match[2] == "1":
        raise ValueError(f"not a topic's folder: {folder[:260]!r}")
    return check_topic_name(match[1]), int(match[2] or 1)
