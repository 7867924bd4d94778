"""Numbers, sizes and times as the pages show them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_THOUSANDS = ("", "k", "M", "G", "T")
UNKNOWN = "n/a"


def format_count(value: float | None) -> str:
    """Return a number with separators between thousands."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def format_short(value: float | None) -> str:
    """Return a number in at most about five characters: 950, 1.2k, 33M."""
    if value is None:
        return UNKNOWN
    return _scaled(float(value), 1000, _THOUSANDS, "")


def format_bytes(value: float | None) -> str:
    """Return a size in binary units."""
    return UNKNOWN if value is None else _scaled(float(value), 1024, _BINARY, " ")


def _scaled(value: float, step: int, units: tuple[str, ...], space: str) -> str:
    index = 0
    while round(value) >= step and index < len(units) - 1:
        value /= step
        index += 1
    text = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
    return f"{text}{space}{units[index]}"


def format_duration(seconds: float | None) -> str:
    """Return a span of time by its largest unit: 12 s, 3 min, 5 h, 2 d."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return "0 s"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_ago(at_ms: int | None, now_ms: int) -> str:
    """Return how long ago something was."""
    if at_ms is None:
        return "never"
    seconds = max(0, now_ms - at_ms) / 1000
    return "just now" if seconds < 5 else f"{format_duration(seconds)} ago"


def format_utc(at_ms: int | None) -> str:
    """Return a time in UTC, to the second."""
    if at_ms is None:
        return UNKNOWN
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_record_time(at_ms: int | None) -> str:
    """Return the time of a record in UTC. Kafka allows any number; one that is no date is shown."""
    if at_ms is None or at_ms < 0:
        return UNKNOWN if at_ms in (None, -1) else f"{at_ms} ms"
    try:
        return format_utc(at_ms)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def iso_utc(at_ms: int | None) -> str:
    """Return a time for the ``datetime`` attribute."""
    if at_ms is None:
        return ""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def visible(text: str) -> str:
    """Return a text of unknown origin with escapes for what cannot be seen or reorders it."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
