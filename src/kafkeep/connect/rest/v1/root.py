"""What all modules of this API share: where it begins, its query, and how it writes times."""

from __future__ import annotations

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import format_time
from kafkeep.connect.rest.call import Call

ROOT = "/kafkeep/v1"
_BIGGEST = 2**63 - 1


def maybe_time(at_ms: int | None) -> str | None:
    """Return a time as text, or None when it is not known."""
    return None if at_ms is None else format_time(at_ms)


def query_number(
    call: Call, name: str, default: int, most: int = _BIGGEST, *, least: int = 0
) -> int:
    """Return a whole number of the query; 400 for anything else."""
    values = call.query.get(name)
    return parse_number(name, values[0], most, least=least) if values else default


def parse_number(name: str, text: str, most: int = _BIGGEST, *, least: int = 0) -> int:
    """Return a whole number; 400 for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not is_number or not least <= int(text) <= most:
        raise RestError(400, f"{name} must be a whole number from {least} to {most}")
    return int(text)


def query_text(call: Call, name: str) -> str:
    """Return a text of the query; empty when it is not given."""
    return (call.query.get(name) or [""])[0]
