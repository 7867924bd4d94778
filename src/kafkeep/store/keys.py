"""Checks of keys, metadata and tags that all stores share. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from kafkeep.archive.names import MAX_KEY_BYTES

MAX_TAGS = 10
_TAG_NAME = re.compile(r"[\w .:/=+@-]{1,128}")
_TAG_VALUE = re.compile(r"[\w .:/=+@-]{0,256}")
_METADATA_NAME = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
_READABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

# Some stores drop an empty value, so it is sent as a single percent sign.
_EMPTY = "%"


def check_key(key: str) -> str:
    """Return ``key`` if every store keeps it unchanged, else raise ValueError.

    Some stores normalise or refuse ``//``, ``.`` and ``..``, so no store gets them.
    """
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in key:
        raise ValueError(f"not an object key: {key!r}")
    if len(key.encode()) > MAX_KEY_BYTES:
        raise ValueError(f"object key is longer than {MAX_KEY_BYTES} bytes: {key!r}")
    return key


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy. Raise ValueError unless names are lowercase letters, digits and hyphens."""
    checked = dict(metadata or {})
    for name in checked:
        if not _METADATA_NAME.fullmatch(name):
            raise ValueError(f"not a metadata name: {name!r}")
    return checked


def check_tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy if S3 accepts these tags, else raise ValueError."""
    checked = dict(tags or {})
    if len(checked) > MAX_TAGS:
        raise ValueError(f"{len(checked)} tags, but an object may have {MAX_TAGS} at most")
    for name, value in checked.items():
        if not _TAG_NAME.fullmatch(name) or not _TAG_VALUE.fullmatch(value):
            raise ValueError(f"not a tag: {name!r}: {value!r}")
    return checked


def encode_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with all values as printable ASCII, which HTTP headers require."""
    return {name: _encode(value) for name, value in metadata.items()}


def decode_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Undo ``encode_metadata``."""
    return {
        name.lower(): "" if value == _EMPTY else unquote(value) for name, value in metadata.items()
    }


def _encode(value: str) -> str:
    # HTTP strips leading and trailing spaces of a header.
    if not value:
        return _EMPTY
    inner = value.strip(" ")
    if not inner:
        return "%20" * len(value)
    head, _, tail = value.partition(inner)
    return "%20" * len(head) + quote(inner, safe=_READABLE) + "%20" * len(tail)
