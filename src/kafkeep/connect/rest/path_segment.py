"""Names of any text as one segment of a path: of groups and subjects, which Kafka does not limit.

A plain name is its own segment. A name that no path can hold (a slash, control characters, ``.``
and ``..``, the empty name) is written as ``~`` and its UTF-8 in URL-safe base64.
"""

from __future__ import annotations

import base64
import binascii

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.call import has_controls

_MARK = "~"


def to_segment(name: str) -> str:
    """Return a name as a segment; percent-encode it in an address as usual."""
    if name and name not in (".", "..") and name[0] != _MARK and _is_plain(name):
        return name
    return _MARK + base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def from_segment(segment: str) -> str:
    """Return the name of a segment; 404 for one that ``to_segment`` does not make."""
    if not segment.startswith(_MARK):
        return segment
    body = segment[1:]
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise RestError(404, f"{segment!r} is not a name in a path") from None


def _is_plain(name: str) -> bool:
    return "/" not in name and not has_controls(name)
