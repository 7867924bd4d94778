"""Options that select a part of an archive: topics, partitions, offsets, times, commits.

Every command that reads a part of an archive takes its flags from the groups declared here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.names import log_name, topic_name
from kafkeep.errors import UsageError
from kafkeep.options.option import commit_number, option
from kafkeep.options.units import parse_time

LAST_OFFSET = 2**63 - 1
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_OFFSETS = re.compile(r"(.+):(\d+):(\d*)-(\d*)")
_INCARNATION = re.compile(r"(.+):([1-9]\d*)")
_MOST_PARTITIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class OffsetPick:
    """Selected offsets of one partition. Other partitions of that topic are skipped."""

    topic: str
    partition: int
    range: OffsetRange


def parse_partitions(text: str) -> tuple[int, ...]:
    """Parse ``0,3-5`` into numbers; a range includes both ends."""
    found: set[int] = set()
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) > _MOST_PARTITIONS:
            raise UsageError(f"{part!r} is not a partition", hint="Write partitions as 0,3-5.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"{part!r} is not a range", hint="Write the smaller number first.")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def parse_offset_picks(text: str) -> tuple[OffsetPick, ...]:
    """Parse ``orders:0:100-200,orders:1:50-``; the end is exclusive."""
    picks = []
    for part in text.split(","):
        match = _OFFSETS.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"{part!r} is not a range of offsets",
                hint="Write TOPIC:PARTITION:START-END; END is the first offset left out.",
            )
        start, end = int(match[3] or 0), int(match[4] or LAST_OFFSET)
        if start >= end:
            raise UsageError(f"{part!r} is empty", hint="START must be below END.")
        picks.append(OffsetPick(match[1], int(match[2]), OffsetRange(start, end)))
    ordered = sorted(picks, key=lambda p: (p.topic, p.partition, p.range))
    for one, other in pairwise(ordered):
        same = (one.topic, one.partition) == (other.topic, other.partition)
        if same and one.range.overlap(other.range):
            raise UsageError(f"offsets of {one.topic}-{one.partition} are selected twice")
    return tuple(ordered)


def check_times(from_ms: int | None, until_ms: int | None) -> None:
    """Raise UsageError for an empty range of times."""
    if from_ms is not None and until_ms is not None and from_ms >= until_ms:
        raise UsageError("from must be before until")


def parse_incarnations(text: str) -> tuple[tuple[str, int], ...]:
    """Parse ``orders:2`` into pairs of topic and incarnation."""
    found: dict[str, int] = {}
    for part in text.split(","):
        match = _INCARNATION.fullmatch(part.strip())
        if match is None or match[1] in found:
            raise UsageError(
                f"{part!r} is not an incarnation",
                hint="Write TOPIC:NUMBER, 1 for the first topic of that name; each topic once.",
            )
        found[match[1]] = int(match[2])
    return tuple(sorted(found.items()))


def parse_renames(text: str) -> tuple[tuple[str, str], ...]:
    """Parse ``a,b:new-b`` into pairs of archived name and target name."""
    pairs = []
    for part in text.split(","):
        source, _, target = part.strip().partition(":")
        if not source or (":" in part and not target):
            raise UsageError(f"{part!r} is not a topic", hint="Write --topics a,b:new-b.")
        pairs.append((topic_name(source), topic_name(target or source)))
    sources, targets = zip(*pairs, strict=True)
    if len(set(targets)) < len(pairs):
        raise UsageError(f"two topics would be restored into one: {text}")
    if len(set(sources)) < len(pairs):
        raise UsageError(
            f"a topic would be restored into two: {text}", hint="Restore it once for each."
        )
    return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class TopicOptions:
    """Select topics, and parts of them."""

    topics: tuple[tuple[str, str], ...] = option(
        "topics",
        "Only these topics; a:b is topic a, called b in the target. Default: all topics.",
        default=(),
        parse=parse_renames,
        metavar="NAMES",
        short="-t",
    )
    incarnations: tuple[tuple[str, int], ...] = option(
        "incarnation",
        "For a topic that was re-created, which one: TOPIC:NUMBER. Default: the newest (verify: "
        "the one that was restored).",
        default=(),
        parse=parse_incarnations,
        metavar="PAIRS",
    )
    partitions: tuple[int, ...] = option(
        "partitions",
        "Only these partitions: 0,3-5.",
        default=(),
        parse=parse_partitions,
        metavar="NUMBERS",
    )
    offsets: tuple[OffsetPick, ...] = option(
        "offsets",
        "Only these offsets: TOPIC:PARTITION:START-END,... END is the first offset left out.",
        default=(),
        parse=parse_offset_picks,
        metavar="RANGES",
    )


@dataclass(frozen=True, kw_only=True)
class TimeRangeOptions:
    """Select records by their timestamps."""

    from_ms: int | None = option(
        "from",
        "Only records with this timestamp or a later one.",
        default=None,
        parse=parse_time,
        metavar="TIME",
    )
    until_ms: int | None = option(
        "until",
        "Only records with an earlier timestamp.",
        default=None,
        parse=parse_time,
        metavar="TIME",
    )


@dataclass(frozen=True, kw_only=True)
class CommitOptions:
    """Select the state of the archive: the newest commit, unless an earlier one is named."""

    commit: int | None = option(
        "commit",
        "Read the archive as of this commit. Default: the newest.",
        default=None,
        parse=commit_number,
        metavar="N",
    )
    at_ms: int | None = option(
        "at",
        "Read the archive as of the last commit made at or before this time.",
        default=None,
        parse=parse_time,
        metavar="TIME",
    )

    def __post_init__(self) -> None:
        if self.commit is not None and self.at_ms is not None:
            raise UsageError("commit and at cannot both be given")


@dataclass(frozen=True, kw_only=True)
class LogOptions(CommitOptions):
    """Select one log of the archive, and its commit."""

    name: str | None = option(
        "name",
        "The log to read, if the archive has several.",
        default=None,
        parse=log_name,
        metavar="LOG",
    )


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(CommitOptions, TimeRangeOptions, TopicOptions):
    """Select the records of an archive that a command restores or compares."""
