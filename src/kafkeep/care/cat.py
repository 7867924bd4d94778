"""Records of an archive, in order, reading no more than is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.reader import ArchiveView, load_view
from kafkeep.archive.store import ObjectStore
from kafkeep.care.lines import Line, ToLine
from kafkeep.care.logs import check_topics
from kafkeep.care.start import BEGINNING, Start
from kafkeep.errors import DamagedError, KeyMissingError, NoSuchArchiveError, PreflightError
from kafkeep.kafka.batch import Batches, check_crcs
from kafkeep.kafka.records import iter_decode
from kafkeep.kafka.segment import read_segment

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CatOptions:
    """Which records; empty means all. Times are record times, ``from_ms <= time < until_ms``."""

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    start: Start = BEGINNING
    from_ms: int | None = None
    until_ms: int | None = None
    count: int | None = None
    aborted: bool = False
    incarnation: int | None = None

    def wants_time(self, time_ms: int) -> bool:
        """Whether a record of that time is wanted."""
        return (self.from_ms is None or time_ms >= self.from_ms) and (
            self.until_ms is None or time_ms < self.until_ms
        )

    def may_want(self, entry: Entry) -> bool:
        """Whether an object may hold wanted records, as far as its entry tells."""
        return (
            (not self.partitions or entry.partition_id.partition in self.partitions)
            and (self.from_ms is None or entry.max_timestamp >= self.from_ms)
            and (self.until_ms is None or entry.min_timestamp < self.until_ms)
        )


def iter_lines(
    store: ObjectStore, name: str, options: CatOptions, to_line: ToLine
) -> Iterator[bytes]:
    """Yield the wanted records as text, several at a time, by topic, partition and offset.

    Of a re-created topic the newest incarnation is taken unless told otherwise. DamagedError
    names the object when its bytes are not sound.
    """
    left = options.count
    for lines in _iter_pieces(store, load_view(store, name), options, to_line):
        wanted = lines if left is None else lines[:left]
        if wanted:
            yield b"".join(wanted)
        if left is not None:
            left -= len(wanted)
            if left <= 0:
                return


def plan_entries(view: ArchiveView, options: CatOptions) -> list[tuple[Entry, OffsetRange]]:
    """Return the objects that may hold wanted records, and which offsets of them are wanted."""
    check_topics([view], options.topics or None)
    planned = []
    for topic in sorted(set(options.topics) or {topic for topic, _ in view.topics}):
        for entry in view.entries(topic, _incarnation(view, topic, options)):
            first = options.start.resolve(view.positions.get(entry.partition_id, 0))
            if options.may_want(entry) and first < entry.range.end:
                start = max(first, entry.range.start)
                planned.append((entry, OffsetRange(start, entry.range.end)))
    return planned


def _incarnation(view: ArchiveView, topic: str, options: CatOptions) -> int:
    there = [incarnation for name, incarnation in view.topics if name == topic]
    if options.incarnation is None:
        return max(there)
    if options.incarnation not in there:
        raise NoSuchArchiveError(
            f"topic {topic} has no incarnation {options.incarnation}: there are {there}"
        )
    return options.incarnation


def _iter_pieces(
    store: ObjectStore, view: ArchiveView, options: CatOptions, to_line: ToLine
) -> Iterator[list[bytes]]:
    for entry, offsets in plan_entries(view, options):
        topic, _, partition = entry.partition_id
        for batches in _iter_batches(store, entry, offsets, options):
            for decoded in iter_decode(batches, offsets, max_bytes=PIECE_BYTES):
                columns = [column.to_pylist() for column in decoded.columns]
                yield [
                    to_line(Line(topic, partition, *row))
                    for row in zip(*columns, strict=True)
                    if options.wants_time(row[1])
                ]


def _iter_batches(
    store: ObjectStore, entry: Entry, offsets: OffsetRange, options: CatOptions
) -> Iterator[Batches]:
    """Yield the batches that may hold wanted records; checked, and aborted ones left out."""
    if entry.format != "segment":
        raise PreflightError(f"{entry.key}: cat reads segment objects, this one is {entry.format}")
    try:
        for batches in read_segment(
            lambda start, end: store.get_range(entry.key, start, end),
            entry.size_bytes,
            entry.index,
            offsets,
            from_ms=options.from_ms,
            until_ms=options.until_ms,
        ):
            check_crcs(batches)
            yield batches if options.aborted else _committed(batches, entry.aborted)
    except KeyMissingError as error:
        raise DamagedError(f"{entry.key} is missing", hint=_VERIFY) from error
    except DamagedError as error:
        raise DamagedError(f"{entry.key}: {error.message}", hint=_VERIFY) from error


_VERIFY = "See what is lost with: kafkeep verify --archive …"


def _committed(batches: Batches, aborted: Sequence[OffsetRange]) -> Batches:
    keep = np.ones(len(batches), dtype=np.bool_)
    for stretch in aborted:
        keep &= (batches.base_offsets < stretch.start) | (batches.base_offsets >= stretch.end)
    return batches.select(keep)
