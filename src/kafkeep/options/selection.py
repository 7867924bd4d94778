"""Texts that pick a part of an archive: partitions, offsets, incarnations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import UsageError

LAST_OFFSET = 2**63 - 1
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_OFFSETS = re.compile(r"(.+):(\d+):(\d*)-(\d*)")
_INCARNATION = re.compile(r"(.+):([1-9]\d*)")
_MOST_PARTITIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class OffsetPick:
    """Offsets of one partition of a topic; without them, all of that partition is left out."""

    topic: str
    partition: int
    range: OffsetRange


def parse_partitions(text: str) -> tuple[int, ...]:
    """Turn ``0,3-5`` into numbers; both ends of a range are meant."""
    found: set[int] = set()
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) > _MOST_PARTITIONS:
            raise UsageError(f"{part!r} is not a partition", hint="Write partitions as 0,3-5.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"{part!r} goes down", hint="Write the smaller number first.")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def parse_offset_picks(text: str) -> tuple[OffsetPick, ...]:
    """Turn ``orders:0:100-200,orders:1:50-`` into picks; the end is not among them."""
    picks = []
    for part in text.split(","):
        match = _OFFSETS.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"{part!r} does not pick offsets",
                hint="Write TOPIC:PARTITION:START-END; END is the first offset left out.",
            )
        start, end = int(match[3] or 0), int(match[4] or LAST_OFFSET)
        if start >= end:
            raise UsageError(f"{part!r} holds no offset", hint="START must be below END.")
        picks.append(OffsetPick(match[1], int(match[2]), OffsetRange(start, end)))
    ordered = sorted(picks, key=lambda p: (p.topic, p.partition, p.range))
    for one, other in pairwise(ordered):
        same = (one.topic, one.partition) == (other.topic, other.partition)
        if same and one.range.overlap(other.range):
            raise UsageError(f"offsets of {one.topic}-{one.partition} are picked twice")
    return tuple(ordered)


def check_times(from_ms: int | None, until_ms: int | None) -> None:
    """Refuse times between which no record can be."""
    if from_ms is not None and until_ms is not None and from_ms >= until_ms:
        raise UsageError("from and until leave no time between them")


def parse_incarnations(text: str) -> tuple[tuple[str, int], ...]:
    """Turn ``orders:2`` into pairs of topic and incarnation."""
    found: dict[str, int] = {}
    for part in text.split(","):
        match = _INCARNATION.fullmatch(part.strip())
        if match is None or match[1] in found:
            raise UsageError(
                f"{part!r} does not name an incarnation",
                hint="Write TOPIC:NUMBER, 1 for the first topic of that name; each topic once.",
            )
        found[match[1]] = int(match[2])
    return tuple(sorted(found.items()))
