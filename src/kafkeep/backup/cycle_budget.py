"""Choose what a cycle reads when more is waiting than it may read: whole segments. Pure.

A cycle takes one segment of a partition, then one of the next, until its bytes are used up. So
objects get their full size however many partitions wait. A smaller object is written only where a
partition is caught up. The partitions that retention would delete from first take their turn first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from kafkeep.archive.commit import LogSpan
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.options.backup import MIB, SEGMENT_SPARE, BackupOptions

CYCLE_BYTES = 8192 * MIB
SEGMENTS_PER_SLOT = 3
"""Whole segments that a cycle reads for each task slot, at least."""
DEFAULT_RETENTION_MS = 7 * 86_400_000
"""Kafka's default; the settings of a topic list only what differs from the broker's."""


@dataclass(frozen=True, slots=True)
class CycleBudget:
    """The bytes that a cycle may read, and the size of the segments it fills."""

    bytes: int
    segment_bytes: int
    reserved: int = 0
    """The part that ranges of the last cycle use."""

    @classmethod
    def of(cls, options: BackupOptions, slots: int, reserved: int = 0) -> CycleBudget:
        """Take it from the options. Without ``cycle_bytes``, more slots read more."""
        size = options.segment_bytes
        most = options.cycle_bytes or max(CYCLE_BYTES, slots * SEGMENTS_PER_SLOT * size)
        return cls(most, max(1, min(size, most)), reserved)


def count_segments(est_bytes: int, segment_bytes: int) -> int:
    """Return the number of objects that a range of ``est_bytes`` becomes."""
    return max(1, -(-(est_bytes - segment_bytes // SEGMENT_SPARE) // segment_bytes))


class DueReason(StrEnum):
    """Why a partition is read in this cycle."""

    ONCE = "one-shot backup"
    BYTES = "enough bytes are waiting for a whole object"
    AGE = "records have waited long enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStretch:
    """The contiguous offsets of one partition in a cycle. One or more tasks read them."""

    partition_id: PartitionId
    topic_id: str
    range: OffsetRange
    leader: int
    est_bytes: int
    reason: str
    closes: RotateReason | None = None
    """For a sink: why the files that are open at its end are closed."""


class ArchivedTo(NamedTuple):
    """What the newest objects of a partition say about the records after them."""

    bytes_per_offset: float
    record_ms: int
    """The newest timestamp in them."""

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> ArchivedTo:
        """Derive it from entries of one partition."""
        offsets = sum(len(entry.range) for entry in entries)
        size = sum(entry.raw_bytes for entry in entries)
        return cls(size / max(1, offsets), max(entry.max_timestamp for entry in entries))


def archived_to(entries: Iterable[Entry]) -> dict[PartitionId, ArchivedTo]:
    """Return what the entries of a cycle say about each of their partitions."""
    found: dict[PartitionId, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.partition_id, []).append(entry)
    return {pid: ArchivedTo.of(some) for pid, some in found.items()}


def time_left_ms(
    configs: Mapping[str, str],
    kept: LogSpan,
    position: int,
    *,
    size_bytes: int | None,
    at_ms: int,
    record_ms: int = 0,
) -> float:
    """Estimate how long retention keeps the record at ``position``; infinite without retention.

    ``record_ms`` is the time of that record. If it is unknown, the partition is taken to hold
    records of its whole retention time, spread evenly over ``kept``, the offsets in Kafka.
    """
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return float("inf")
    most_ms = _number(configs, "retention.ms", DEFAULT_RETENTION_MS)
    most_bytes = _number(configs, "retention.bytes", -1)
    later = (kept.end - position) / max(1, kept.end - kept.start)
    used = 0.0
    if most_ms >= 0:
        used = (at_ms - record_ms) / max(1, most_ms) if 0 < record_ms <= at_ms else later
    if most_bytes >= 0 and size_bytes is not None:
        used = max(used, size_bytes * later / max(1, most_bytes))
    elif most_ms < 0:
        return float("inf")
    return max(0.0, 1 - used) * (most_ms if most_ms >= 0 else DEFAULT_RETENTION_MS)


def _number(configs: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(configs.get(name, default))
    except ValueError:
        return default


@dataclass(slots=True)
class Waiting:
    """A stretch that is due, and what the cycle takes of it."""

    stretch: PlannedStretch
    to_end: bool
    """True if its last records are due too, however few they are."""
    taken_bytes: int = 0

    @property
    def partition_id(self) -> PartitionId:
        return self.stretch.partition_id

    @property
    def est_bytes(self) -> int:
        return self.stretch.est_bytes

    def taken(self) -> PlannedStretch:
        """Return the part of the stretch that the cycle reads."""
        if self.is_whole:
            return self.stretch
        start, offsets = self.stretch.range.start, len(self.stretch.range)
        length = max(1, offsets * self.taken_bytes // self.est_bytes)
        return replace(
            self.stretch, range=OffsetRange(start, start + length), est_bytes=self.taken_bytes
        )

    @property
    def is_whole(self) -> bool:
        """True if the cycle reads it to its end."""
        return self.taken_bytes >= self.est_bytes

    def next_piece(self, segment_bytes: int) -> int:
        """Return the bytes of its next turn; 0 if the rest waits to fill a segment."""
        rest = self.est_bytes - self.taken_bytes
        if rest <= segment_bytes + segment_bytes // SEGMENT_SPARE:
            return rest if self.to_end or rest >= segment_bytes else 0
        return segment_bytes


def take_segments(
    waiting: Sequence[Waiting],
    budget: CycleBudget,
    time_left: Callable[[PlannedStretch], float],
) -> bool:
    """Set what the cycle takes of each stretch; return True if something due was left out.

    ``waiting`` is sorted by how long the records wait. Small rests whose time has come take up to
    half of the budget before whole segments of partitions that are far behind, so that a backlog
    does not hold up everything else.
    """
    total = budget.reserved + sum(one.est_bytes for one in waiting)
    if total <= budget.bytes and all(one.to_end for one in waiting):
        for one in waiting:
            one.taken_bytes = one.est_bytes
        return False
    unit, room = budget.segment_bytes, budget.bytes - budget.reserved
    small = [one for one in waiting if one.to_end and one.est_bytes < unit]
    large = [one for one in waiting if not (one.to_end and one.est_bytes < unit)]
    if large:
        large.sort(key=lambda one: time_left(one.stretch))
        room = _take_turns(small, room, unit, least_room=budget.bytes // 2)
    # The first turn is granted in any case. Otherwise a large segment might never fit.
    room = _take_turns(
        large, room if budget.reserved else max(room, unit + unit // SEGMENT_SPARE), unit
    )
    _take_turns(small, room, unit)
    return any(one.next_piece(unit) for one in waiting)


def _take_turns(waiting: Sequence[Waiting], room: int, unit: int, *, least_room: int = 0) -> int:
    """Give each partition a turn, in order, again and again; return the room that is left."""
    turn = list(waiting)
    while turn:
        more = []
        for one in turn:
            piece = one.next_piece(unit)
            if piece and room - piece < least_room:
                return room
            one.taken_bytes += piece
            room -= piece
            if piece:
                more.append(one)
        turn = more
    return room
