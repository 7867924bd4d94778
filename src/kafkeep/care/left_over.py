"""May a left-over go? What its metadata claims, held against the log that wrote it. Pure.

It may when no commit can ever name it, and when all it holds is in other objects of its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkeep.archive.adopt import END, PARTITION, START, TOPIC_ID, WRITER
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an object says of itself."""

    log: str
    topic_id: str
    partition: int
    start: int
    end: int | None
    """None of a large one, whose metadata was sent before its end was known."""


def is_ours(metadata: Mapping[str, str]) -> bool:
    """Tell whether an object was written by kafkeep."""
    return WRITER in {name.lower() for name in metadata}


def parse_claim(metadata: Mapping[str, str]) -> Claim | None:
    """Return what a data object of ours claims; None when it does not say it all.

    Brokers before 2.8 give topics no id: then nobody can say whose it is.
    """
    found = {name.lower(): value for name, value in metadata.items()}
    partition, start, end = (found.get(name, "") for name in (PARTITION, START, END))
    if not found.get(WRITER) or not found.get(TOPIC_ID):
        return None
    if not partition.isdecimal() or not start.isdecimal():
        return None
    return Claim(
        log=found[WRITER],
        topic_id=found[TOPIC_ID],
        partition=int(partition),
        start=int(start),
        end=int(end) if end.isdecimal() else None,
    )


def why_kept(claim: Claim, state: State, kept: Sequence[OffsetRange]) -> str | None:
    """Say why an object that the log does not name must stay; None when it may go.

    ``kept`` are the offsets of its partition that lie in objects which the log names. A position
    past the start never comes back to that name: a log that is moved back goes on in another
    folder.
    """
    place = claim.topic_id, claim.partition
    for planned in state.intent.ranges if state.intent else ():
        mine = (planned.topic_id, planned.partition_id.partition) == place
        if mine and planned.range.start <= claim.start < planned.range.end:
            return "an open intent plans these offsets: the next run may take it"
    positions = [
        position
        for pid, position in state.positions.items()
        if pid.partition == claim.partition
        and (info := state.topics.get(pid[:2])) is not None
        and info.topic_id == claim.topic_id
    ]
    if not positions or min(positions) <= claim.start:
        return f"the log has not come past offset {claim.start}"
    end = min(positions) if claim.end is None else claim.end
    missing = _first_missing(OffsetRange(claim.start, max(claim.start, end)), kept)
    return None if missing is None else f"no object of the log has offset {missing}"


def kept_ranges(
    entries: Iterable[Entry], there: Mapping[str, int], claims: Iterable[Claim]
) -> dict[Claim, list[OffsetRange]]:
    """Return which offsets of each claim's partition the store has, by the entries of its log.

    Of a range that several objects share, all must be there.
    """
    wanted: dict[tuple[str, int], list[Claim]] = {}
    for claim in claims:
        wanted.setdefault((claim.topic_id, claim.partition), []).append(claim)
    held: dict[tuple[str, int], set[OffsetRange]] = {place: set() for place in wanted}
    lost: dict[tuple[str, int], set[OffsetRange]] = {place: set() for place in wanted}
    for entry in entries:
        place = entry.topic_id, entry.partition_id.partition
        if place in wanted:
            (held if entry.key in there else lost)[place].add(entry.range)
    return {
        claim: sorted(held[place] - lost[place]) for place, mine in wanted.items() for claim in mine
    }


def _first_missing(wanted: OffsetRange, kept: Sequence[OffsetRange]) -> int | None:
    """Return the first offset that is in none of the sorted ranges, or None."""
    reached = wanted.start
    for offsets in kept:
        if offsets.start > reached:
            break
        reached = max(reached, offsets.end)
    return reached if reached < wanted.end else None
