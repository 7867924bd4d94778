"""The options of removing left-overs.

The options of holding a target against an archive, and of a drill.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkeep.errors import UsageError
from kafkeep.options.option import commit_number, option, positive, topic_names
from kafkeep.options.restore import parse_renames
from kafkeep.options.selection import (
    OffsetPick,
    parse_incarnations,
    parse_offset_picks,
    parse_partitions,
)
from kafkeep.options.units import (
    above_zero,
    format_duration,
    parse_duration,
    parse_size,
    parse_time,
)

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
class CompareOptions:
    """What the target must hold, and how it is compared."""

    topics: tuple[tuple[str, str], ...] = option(
        "topics",
        "With --against, topics to compare, and how they are called in the target: a,b:new-b. "
        "Default: all.",
        default=(),
        parse=parse_renames,
        metavar="NAMES",
    )
    commit: int | None = option(
        "commit",
        "With --against, compare with what this commit held.",
        default=None,
        parse=commit_number,
        metavar="N",
    )
    at_ms: int | None = option(
        "at",
        "With --against, compare with what the last commit made at or before this time held.",
        default=None,
        parse=parse_time,
        metavar="TIME",
    )
    incarnations: tuple[tuple[str, int], ...] = option(
        "incarnation",
        "With --against, of a topic that was re-created, compare this one: TOPIC:NUMBER. Default: "
        "the one that was restored, else the newest.",
        default=(),
        parse=parse_incarnations,
        metavar="PAIRS",
    )
    partitions: tuple[int, ...] = option(
        "partitions",
        "With --against, compare these partitions alone, as 0,3-5.",
        default=(),
        parse=parse_partitions,
        metavar="NUMBERS",
    )
    offsets: tuple[OffsetPick, ...] = option(
        "offsets",
        "With --against, the target holds these offsets alone: TOPIC:PARTITION:START-END.",
        default=(),
        parse=parse_offset_picks,
        metavar="RANGES",
    )
    from_ms: int | None = option(
        "from", "With --against, the target holds records from this time on.", default=None,
        parse=parse_time, metavar="TIME",
    )  # fmt: skip
    until_ms: int | None = option(
        "until", "With --against, the target holds records before this time.", default=None,
        parse=parse_time, metavar="TIME",
    )  # fmt: skip
    exact_offsets: bool = option(
        "exact.offsets", "With --against, records must stand at their old offsets.", default=False
    )
    repartitioned: bool = option(
        "repartitioned",
        "With --against, records were spread over the partitions anew: each key must have the "
        "same records in the same order.",
        default=False,
    )

    def __post_init__(self) -> None:
        if self.commit is not None and self.at_ms is not None:
            raise UsageError("commit and at cannot both be given")
        if self.exact_offsets and self.repartitioned:
            raise UsageError("a repartitioned topic has no exact offsets: give one of both")

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the archive's newest commit is left out."""
        return self == CompareOptions(
            exact_offsets=self.exact_offsets, repartitioned=self.repartitioned
        )


@dataclass(frozen=True, kw_only=True)
class DrillOptions:
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
    name: str | None = option(
        "name", "The log to restore from, where the archive has several.", default=None, parse=str
    )
    commit: int | None = option(
        "commit",
        "Try what this commit held. Default: the newest.",
        default=None,
        parse=commit_number,
        metavar="N",
    )
    at_ms: int | None = option(
        "at",
        "Try what the last commit made at or before this time held.",
        default=None,
        parse=parse_time,
        metavar="TIME",
    )
    replication_factor: int | None = option(
        "replication.factor",
        "Replicas of the scratch topics, instead of the archived number.",
        default=None,
        parse=positive("replication factor"),
        metavar="N",
    )
    rate_bytes: int | None = option(
        "rate",
        "Write at most this many bytes a second.",
        default=None,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )

    def __post_init__(self) -> None:
        if self.commit is not None and self.at_ms is not None:
            raise UsageError("commit and at cannot both be given")


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
