"""Parse and format sizes, durations and times.

``parse_*`` and ``format_*`` of one kind are each other's inverse up to rounding; ``write_*`` is the
exact inverse, for defaults that are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from kafkeep.errors import UsageError

_SIZES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
}
_DURATIONS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_NUMBER_UNIT = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)(ms|s|m|h|d|w)", re.ASCII)
_EPOCH_MS = re.compile(r"-?[0-9]{1,30}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX = 2**63 - 1


def parse_size(text: str) -> int:
    """Return bytes: ``64MiB``, ``64M`` (both 2^26), ``10MB`` (10^7), ``512`` (bytes)."""
    match = _NUMBER_UNIT.fullmatch(text.strip())
    unit = _SIZES.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise UsageError(
            f"{text!r} is not a size",
            hint="Write a number with a unit: 512KiB, 64MiB, 2GiB, or plain bytes.",
        )
    return _whole(Fraction(match[1]) * unit, text, "bytes")


def above_zero(parse: Callable[[str], int]) -> Callable[[str], int]:
    """Return a parser of sizes or durations that refuses zero."""

    def parse_some(text: str) -> int:
        found = parse(text)
        if not found:
            raise UsageError(f"{text!r} is not above zero", hint="Leave it out for the default.")
        return found

    return parse_some


def parse_duration(text: str) -> int:
    """Return milliseconds: ``500ms``, ``10s``, ``15m``, ``1h30m``, ``2d``, ``1w``."""
    bare = text.strip()
    parts = list(_DURATION_PART.finditer(bare))
    if not parts or "".join(part[0] for part in parts) != bare:
        if bare == "0":
            return 0
        hint = "Write a number with a unit: 500ms, 10s, 15m, 1h30m, 7d."
        if bare.isascii() and bare.isdigit():
            hint = f"Add the unit: {bare}ms or {bare}s."
        raise UsageError(f"{text!r} is not a duration", hint=hint)
    total = sum((Fraction(part[1]) * _DURATIONS[part[2]] for part in parts), Fraction(0))
    return _whole(total, text, "milliseconds")


def write_size(size_bytes: int) -> str:
    """Format bytes so that ``parse_size`` returns the same number: ``64MiB``, ``1000``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _SIZES[unit.lower()] == 0:
            return f"{size_bytes // _SIZES[unit.lower()]}{unit}"
    return str(size_bytes)


def write_duration(duration_ms: int) -> str:
    """Format milliseconds so that ``parse_duration`` returns the same number: ``60s``, ``7d``."""
    if not duration_ms:
        return "0"
    unit = next(unit for unit in ("d", "h", "s", "ms") if duration_ms % _DURATIONS[unit] == 0)
    return f"{duration_ms // _DURATIONS[unit]}{unit}"


def parse_time(text: str) -> int:
    """Return milliseconds since the epoch, from ISO-8601 or from such a number.

    A time without a zone is UTC; a date alone is its first moment.
    """
    bare = text.strip()
    if _EPOCH_MS.fullmatch(bare):
        value = int(bare)
        if not -_MAX <= value <= _MAX:
            raise UsageError(f"{text!r} is out of range", hint="Write milliseconds since 1970.")
        return value
    try:
        when = datetime.fromisoformat(bare)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a time",
            hint="Write 2024-12-03T10:00:00Z, 2024-12-03, or milliseconds since 1970.",
        ) from error
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def count_of(number: int, thing: str) -> str:
    """Return a number with what it counts: ``1 partition``, ``12,000 partitions``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def format_size(size_bytes: int) -> str:
    """Format bytes with a binary unit: ``64.0 MiB``."""
    if abs(size_bytes) < 1024:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= 1024
        # 1023.95 would print as 1024.0.
        if abs(value) < 1023.95 or unit == "PiB":
            break
    return f"{value:.1f} {unit}"


def format_duration(duration_ms: int) -> str:
    """Format milliseconds in at most two units: ``850ms``, ``12.3s``, ``1m 40s``, ``2d 3h``."""
    if duration_ms < 0:
        return "-" + format_duration(-duration_ms)
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms < 59_950:
        return f"{duration_ms / 1000:.1f}s"
    seconds = (duration_ms + 500) // 1000
    for unit, size, lesser, lesser_size in (("m", 60, "s", 1), ("h", 3600, "m", 60)):
        if seconds < size * (60 if unit == "m" else 24):
            return f"{seconds // size}{unit} {seconds % size // lesser_size}{lesser}"
    return f"{seconds // 86400}d {seconds % 86400 // 3600}h"


def format_time(time_ms: int) -> str:
    """Format a time as ISO-8601 in UTC with milliseconds; as its number if it is out of range."""
    try:
        when = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _whole(value: Fraction, text: str, of: str) -> int:
    if value.denominator != 1:
        raise UsageError(f"{text!r} is not a whole number of {of}", hint="Use a smaller unit.")
    if value > _MAX:
        raise UsageError(f"{text!r} is too large", hint="Write a smaller number.")
    return int(value)
