"""A request's path, taken apart before it is decoded: ``%2F`` is part of a name, not a border."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from kafkeep.connect.model import RestError

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def has_controls(text: str) -> bool:
    """Tell whether there are control characters, as Java counts them: C0, DEL and C1."""
    return any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in text)


def check_name(name: str) -> None:
    """Refuse a connector's name that no URL could lead to, or that would break a header or a log.

    Spaces and letters of any script are fine.
    """
    if has_controls(name):
        raise RestError(400, "A connector's name may not contain control characters")
    if "/" in name:
        raise RestError(400, f"Connector name {name!r} contains a slash, which no URL can hold")
    if name in (".", ".."):
        raise RestError(400, f"Connector name {name!r} means a folder in a URL")


def split_path(raw_path: bytes) -> tuple[str, ...]:
    """Return the decoded segments; one slash at the end changes nothing. 400 for bad escapes."""
    if _BAD_ESCAPE.search(raw_path):
        raise RestError(400, "The path has a % that is not followed by two hex digits")
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise RestError(400, "The path is not UTF-8") from None
    if len(segments) > 1 and not segments[-1]:
        segments.pop()
    for segment in segments:
        check_name(segment)
    return tuple(segments)


def match(template: str, segments: tuple[str, ...]) -> Mapping[str, str] | None:
    """Return what the ``{names}`` of a template stand for, or None if the path is another one."""
    parts = template.split("/")[1:]
    if len(parts) != len(segments):
        return None
    values: dict[str, str] = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            values[part[1:-1]] = segment
        elif part != segment:
            return None
    return values


def allow_header(methods: Iterable[str]) -> str:
    """Return the value of Allow; whoever answers GET answers HEAD."""
    known = set(methods)
    return ", ".join(sorted(known | ({"HEAD"} if "GET" in known else set())))
