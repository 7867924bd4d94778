"""What all modules of this API share: where it begins, and how it writes times."""

from __future__ import annotations

from kafkeep.connect.rest.answers import format_time

ROOT = "/kafkeep/v1"


def maybe_time(at_ms: int | None) -> str | None:
    """Return a time as text, or None when it is not known."""
    return None if at_ms is None else format_time(at_ms)
