"""The options of removing left-overs."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.config.option import option
from kafkeep.config.units import format_duration, parse_duration
from kafkeep.errors import UsageError

DAY_MS = 86_400_000
SHORTEST_MS = 3_600_000
"""An upload is open while its task reads and sends, which takes minutes."""


def parse_age(text: str) -> int:
    """Return milliseconds; UsageError for an age that something still being written may have."""
    age_ms = parse_duration(text)
    if age_ms < SHORTEST_MS:
        raise UsageError(
            f"{text!r} is less than {format_duration(SHORTEST_MS)}",
            hint="What is younger may be on its way: write 1h, 12h, 1d or more.",
        )
    return age_ms


@dataclass(frozen=True, kw_only=True)
class GcOptions:
    """What is old enough to go, and whether it goes."""

    older_than_ms: int = option(
        "older.than",
        "Remove what is older than this, by the store's clock; 1h at least.",
        default=DAY_MS,
        parse=parse_age,
        metavar="DURATION",
    )
    dry_run: bool = option("dry.run", "Show what would go and why; remove nothing.", default=False)
