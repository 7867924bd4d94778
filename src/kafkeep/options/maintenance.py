"""Options of the maintenance commands compare, drill and gc."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkeep.errors import UsageError
from kafkeep.options.option import option, topic_names
from kafkeep.options.restore import TargetOptions
from kafkeep.options.selection import LogOptions, SelectionOptions
from kafkeep.options.units import format_duration, parse_duration

# ruff: noqa: RUF009  (``option`` makes a dataclass field, also where the type is a class)


_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")


@dataclass(frozen=True, slots=True)
class Sample:
    """How much of each partition a drill restores: a share, or a number of records."""

    share: float | None = None
    records: int | None = None

    def offsets(self, archived: int) -> int:
        """Return how many of the archived offsets of a partition to restore; at least one."""
        wanted = self.records if self.share is None else round(archived * self.share)
        return min(archived, max(1, wanted or 0))

    def __str__(self) -> str:
        return f"{self.records} records" if self.share is None else f"{self.share * 100:g}%"


def parse_sample(text: str) -> Sample:
    """Parse ``1%`` or ``1000`` into a sample."""
    bare = text.strip()
    if (match := _PERCENT.fullmatch(bare)) and 0 < float(match[1]) <= 100:
        return Sample(share=float(match[1]) / 100)
    if bare.isdecimal() and int(bare) > 0:
        return Sample(records=int(bare))
    raise UsageError(
        f"{text!r} is not a sample",
        hint="Write 1% for a share of each partition, or 1000 for a number of records.",
    )


COMPARE_REPORT = "verify-against"
"""The kind of the report of a comparison."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions(SelectionOptions):
    """The records that the target must hold, and how to compare them."""

    exact_offsets: bool = option(
        "exact.offsets", "Records must be at their original offsets.", default=False
    )
    repartitioned: bool = option(
        "repartitioned",
        "Records may be in other partitions: each key must have the same records in the same "
        "order.",
        default=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exact_offsets and self.repartitioned:
            raise UsageError("exact-offsets and repartitioned cannot both be given")

    @property
    def is_whole(self) -> bool:
        """True if all of the newest commit is compared."""
        return self == CompareOptions(
            exact_offsets=self.exact_offsets, repartitioned=self.repartitioned
        )


@dataclass(frozen=True, kw_only=True)
class DrillOptions(TargetOptions, LogOptions):
    """The topics and the sample that a drill restores."""

    topics: tuple[str, ...] = option(
        "topics",
        "Topics to restore. Default: all.",
        default=(),
        parse=topic_names,
        metavar="NAMES",
        short="-t",
    )
    sample: Sample | None = option(
        "sample",
        "Restore a part of each partition, at a random position: 1% of it, or 1000 records. "
        "Default: all.",
        default=None,
        parse=parse_sample,
        metavar="HOW-MUCH",
    )


DAY_MS = 86_400_000
SHORTEST_MS = 3_600_000
"""Uploads are open for minutes while tasks read and send."""


def parse_age(text: str) -> int:
    """Return milliseconds; UsageError if a writer may still use an upload of that age."""
    age_ms = parse_duration(text)
    if age_ms < SHORTEST_MS:
        raise UsageError(
            f"{text!r} is less than {format_duration(SHORTEST_MS)}",
            hint="Younger uploads may still be running: write 1h, 12h, 1d or more.",
        )
    return age_ms


@dataclass(frozen=True, kw_only=True)
class GcOptions:
    """How old orphans must be to be removed."""

    older_than_ms: int = option(
        "older.than",
        "Remove orphans that are older than this by the store's clock; at least 1h.",
        default=DAY_MS,
        parse=parse_age,
        metavar="DURATION",
    )
    dry_run: bool = option(
        "dry.run", "Show what would be removed and why; remove nothing.", default=False
    )
