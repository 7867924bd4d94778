"""Options of the commands that look after an archive: compare, drill and gc."""

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
    """How much of each partition is tried: a share of it, or so many records."""

    share: float | None = None
    records: int | None = None

    def offsets(self, archived: int) -> int:
        """Return how many offsets of a partition with so many are taken: one at least."""
        wanted = self.records if self.share is None else round(archived * self.share)
        return min(archived, max(1, wanted or 0))

    def __str__(self) -> str:
        return f"{self.records} records" if self.share is None else f"{self.share * 100:g}%"


def parse_sample(text: str) -> Sample:
    """Turn ``1%`` or ``1000`` into a sample."""
    bare = text.strip()
    if (match := _PERCENT.fullmatch(bare)) and 0 < float(match[1]) <= 100:
        return Sample(share=float(match[1]) / 100)
    if bare.isdecimal() and int(bare) > 0:
        return Sample(records=int(bare))
    raise UsageError(
        f"{text!r} is not a sample", hint="Write 1% of each partition, or 1000 records of each."
    )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(SelectionOptions):
    """What the target must hold, and how it is compared."""

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
            raise UsageError("a repartitioned topic has no exact offsets: give one of both")

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the archive's newest commit is left out."""
        return self == CompareOptions(
            exact_offsets=self.exact_offsets, repartitioned=self.repartitioned
        )


@dataclass(frozen=True, kw_only=True)
class DrillOptions(TargetOptions, LogOptions):
    """What a drill restores, and how much of it."""

    topics: tuple[str, ...] = option(
        "topics", "Topics to try. Default: all.", default=(), parse=topic_names, metavar="NAMES"
    )
    sample: Sample | None = option(
        "sample",
        "Restore a stretch of each partition, at a random place: 1% of it, or so many records. "
        "Default: all.",
        default=None,
        parse=parse_sample,
        metavar="HOW-MUCH",
    )


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
