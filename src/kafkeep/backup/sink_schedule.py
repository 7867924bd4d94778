"""Decide when a sink reads a partition: only when a rule may close a window. Pure.

The records, the clock, or the end of a one-shot backup can close a window. Some rules depend on the
contents of records: the time in a field, a change of directory or schema. For these, a partition is
read again when its tail has doubled. So a record is read about twice at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.archive.entry import OffsetRange
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.options.sink.sink import SinkOptions

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ReadDecision:
    """Why a partition is read now; ``closes`` is why files open at the end are closed, if so."""

    why: str
    closes: RotateReason | None = None


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """One partition with records that are not archived."""

    range: OffsetRange
    """From the position to the last stable offset."""
    est_bytes: int
    since_ms: int
    """When a snapshot first contained them."""
    at_ms: int
    tail: SinkTail | None
    """The tail that was read before, if any."""
    late_offset: int | None = None
    """First offset at least ``rotate.interval.ms`` later than the tail's first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTiming:
    """The rules of a sink that decide when to read."""

    options: SinkOptions
    follow: bool
    keeps_tail: bool
    """For a connector: the tail waits for a rule. Otherwise ``age_ms`` closes it."""
    age_ms: int

    def decide(self, waiting: PartitionBacklog) -> ReadDecision | None:
        """Return why a partition is read now; None if it waits."""
        if not self.follow:
            return ReadDecision("one-shot backup", None if self.keeps_tail else RotateReason.END)
        return self._by_clock(waiting) or self._by_records(waiting)

    def _by_clock(self, waiting: PartitionBacklog) -> ReadDecision | None:
        rotate = self.options.rotate
        waited = waiting.at_ms - waiting.since_ms
        if rotate.rotate_schedule_interval_ms is not None:
            tick = next_tick(
                waiting.since_ms,
                rotate.rotate_schedule_interval_ms,
                self.options.partition.timezone,
            )
            if waiting.at_ms >= tick:
                return ReadDecision(RotateReason.SCHEDULE, RotateReason.SCHEDULE)
        if rotate.rotate_interval_ms is not None and waited >= rotate.rotate_interval_ms:
            return ReadDecision(RotateReason.IDLE, RotateReason.IDLE)
        if not self.keeps_tail and waited >= self.age_ms:
            return ReadDecision(RotateReason.AGE, RotateReason.AGE)
        return None

    def _by_records(self, waiting: PartitionBacklog) -> ReadDecision | None:
        rotate, tail = self.options.rotate, waiting.tail
        if tail is None:
            new, records, known_bytes = len(waiting.range), 0, 0
        else:
            new = waiting.range.end - tail.read_to
            records, known_bytes = tail.records, tail.bytes
        if new <= 0:
            return None
        if rotate.flush_size is not None and records + new >= rotate.flush_size:
            return ReadDecision(RotateReason.COUNT)
        share = new / max(1, len(waiting.range))
        if known_bytes + waiting.est_bytes * share >= rotate.flush_bytes:
            return ReadDecision(RotateReason.BYTES)
        if waiting.late_offset is not None and waiting.late_offset < waiting.range.end:
            return ReadDecision(RotateReason.INTERVAL)
        if self._depends_on_contents and (tail is None or 2 * new >= len(waiting.range)):
            return ReadDecision("a rule depends on the contents of records")
        return None

    @property
    def _depends_on_contents(self) -> bool:
        """True if times, directories or schemas of records may close a window.

        This includes the time of the first record, which is read once.
        """
        rotate = self.options.rotate
        limited = rotate.rotate_interval_ms is not None
        limited = limited or rotate.partitioner_max_open_files is not None
        return limited or self.options.has_schemas


def next_tick(after_ms: int, interval_ms: int, timezone: str) -> int:
    """Return the first scheduled rotation after ``after_ms``.

    Intervals are counted from local midnight. The last interval of a day ends at midnight.
    """
    from kafkeep.records.calendar import Zone  # noqa: PLC0415 - it loads Arrow

    zone = Zone(timezone)
    local = after_ms + zone.offset_ms(after_ms)
    midnight = local - local % DAY_MS
    start, tomorrow = zone.to_utc(midnight), zone.to_utc(midnight + DAY_MS)
    steps = (after_ms - start) // interval_ms + 1
    return min(start + steps * interval_ms, tomorrow)


def late_times(
    timing: SinkTiming, tails: Mapping[tuple[str, int], SinkTail]
) -> dict[tuple[str, int], int]:
    """Return, for each partition, the record time from which on a record closes its files."""
    interval = timing.options.rotate.rotate_interval_ms
    if interval is None or timing.options.partition.extractor != "Record":
        return {}
    return {
        partition: tail.base_time + interval
        for partition, tail in tails.items()
        if tail.base_time is not None
    }
