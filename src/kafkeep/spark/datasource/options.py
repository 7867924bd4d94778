"""The options of ``spark.read.format("kafkeep")``, and the values they take.

Spark shows the message of an error and not its hint, so the message says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from kafkeep.errors import UsageError
from kafkeep.options.storage import StorageOptions

_STORAGE = {
    "endpoint": "endpoint",
    "region": "region",
    "accessKey": "access_key",
    "secretKey": "secret_key",
    "sessionToken": "session_token",
    "profile": "profile",
    "caFile": "ca_file",
}
NAMES = (
    "path",
    "topics",
    "name",
    "commit",
    "at",
    "incarnation",
    "includeTimestampMs",
    "numPartitions",
    *_STORAGE,
    "pathStyle",
)
"""Every option; Spark takes them in any case."""


def check_known(options: Iterable[str]) -> None:
    """UsageError for an option that there is not: it would narrow nothing, and nobody would see."""
    known = {name.lower(): name for name in NAMES}
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, 1)
            there = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(NAMES)}"
            raise UsageError(f"an archive has no option {option}: {there}")


def number(options: Mapping[str, str], name: str, *, least: int) -> int | None:
    """Return an option's whole number; None where it is not given."""
    text = options.get(name.lower())
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        raise UsageError(f"{name} is a whole number from {least} on, not {text!r}")
    return int(text)


def is_true(text: str | None) -> bool:
    """Tell whether an option is switched on."""
    return (text or "").strip().lower() in ("true", "yes", "1")


def storage_options(options: Mapping[str, str]) -> StorageOptions:
    """Return how to reach the store: the reader's options (lower case), else the environment's."""
    given: dict[str, Any] = {field: options.get(name.lower()) for name, field in _STORAGE.items()}
    path_style = options.get("pathstyle")
    given["path_style"] = is_true(path_style) if path_style else None
    return StorageOptions.from_env(None, **given)
