"""Records of an archive, in order, reading no more than is asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.reader import ArchiveView, load_view
from kafkeep.archive.retention import Expiry
from kafkeep.archive.store import ObjectStore
from kafkeep.care.lines import Line, ToLine
from kafkeep.care.logs import check_partitions, check_topics
from kafkeep.care.start import BEGINNING, Start
from kafkeep.clock import now_ms
from kafkeep.config.selection import check_times
from kafkeep.contents.choice import choose_incarnation
from kafkeep.contents.options import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.contents.segments import iter_segment
from kafkeep.contents.windows import UNKNOWN, Window, entries_by_partition, iter_windows
from kafkeep.errors import DamagedError, KeyMissingError, NoSuchArchiveError
from kafkeep.kafka.records import iter_decode

PIECE_BYTES = 1 << 20
Planned = tuple[Window, OffsetRange]
"""Objects to read, and which of their offsets are wanted."""
logger = logging.getLogger(__name__)


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

    def __post_init__(self) -> None:
        check_times(self.from_ms, self.until_ms)

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

    Of a re-created topic the newest incarnation is taken unless told otherwise. Of records whose
    time the archive does not hold, those are given that lie in an object with wanted times.
    DamagedError names the object when its bytes are not sound.
    """
    view = load_view(store, name)
    planned = plan_windows(view, options)
    of_sink = any(not window.is_segment for window, _ in planned)
    told = load_read_options(store, view).looking() if of_sink else NO_OPTIONS
    expiry = Expiry(store, view, now_ms())
    pieces = iter_pieces(store, planned, told, options, to_line, expiry=expiry)
    yield from limited(pieces, options.count)


def limited(pieces: Iterable[list[bytes]], count: int | None) -> Iterator[bytes]:
    """Yield the lines of pieces, each piece as one, and no more than ``count`` lines."""
    left = count
    for lines in pieces:
        wanted = lines if left is None else lines[:left]
        if wanted:
            yield b"".join(wanted)
        if left is not None:
            left -= len(wanted)
            if left <= 0:
                return


def plan_windows(view: ArchiveView, options: CatOptions) -> list[Planned]:
    """Return what may hold wanted records, and which offsets of it are wanted."""
    check_topics([view], options.topics or None)
    check_partitions([view], options.topics, options.partitions)
    planned = []
    for topic in sorted(set(options.topics) or {topic for topic, _ in view.topics}):
        info = choose_incarnation(view, topic, options.incarnation, refusal=NoSuchArchiveError)
        entries = view.entries(topic, info.incarnation)
        for partition_id, mine in entries_by_partition(entries).items():
            first = options.start.resolve(view.positions.get(partition_id, 0))
            for window in iter_windows(mine):
                wanted = any(options.may_want(entry) for entry in window.entries)
                if wanted and first < window.range.end:
                    start = max(first, window.range.start)
                    planned.append((window, OffsetRange(start, window.range.end)))
    return planned


def iter_pieces(
    store: ObjectStore,
    planned: Iterable[Planned],
    told: ReadOptions,
    options: CatOptions,
    to_line: ToLine,
    *,
    expiry: Expiry | None = None,
) -> Iterator[list[bytes]]:
    """Yield the wanted records of windows as lines."""
    for window, offsets in planned:
        topic, _, partition = window.entries[0].partition_id
        vague = not window.is_segment
        for decoded in _unless_expired(
            expiry, window, _iter_records(store, window, offsets, options, told)
        ):
            columns = [column.to_pylist() for column in decoded.columns]
            yield [
                to_line(Line(topic, partition, *row))
                for row in zip(*columns, strict=True)
                if options.wants_time(row[1]) or (vague and row[1] == UNKNOWN)
            ]


def _unless_expired(
    expiry: Expiry | None, window: Window, records: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the records; a window that may have expired has none, and a warning instead."""
    try:
        yield from records
    except DamagedError as error:
        if expiry is None or not isinstance(error.__cause__, KeyMissingError):
            raise
        reasons = [r for entry in window.entries if (r := expiry.reason(entry)) is not None]
        if not reasons:
            raise
        logger.warning("%s; %s", error.message, reasons[0])


def _iter_records(
    store: ObjectStore,
    window: Window,
    offsets: OffsetRange,
    options: CatOptions,
    told: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield the records that may be wanted; checked, and aborted ones left out."""
    if not window.is_segment:
        # Formats and converters take a while to import; segments need none of them.
        from kafkeep.contents.records import inside, iter_window  # noqa: PLC0415

        files = [file for file in window.files() if options.may_want(file.main)]
        for records in iter_window(store, window, options=told, files=files):
            yield from iter_slices(inside(records, offsets), PIECE_BYTES)
        return
    for batches in iter_segment(
        store,
        window.entries[0],
        offsets,
        aborted=options.aborted,
        from_ms=options.from_ms,
        until_ms=options.until_ms,
    ):
        yield from iter_decode(batches, offsets, max_bytes=PIECE_BYTES)


def iter_slices(records: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut records into pieces of about ``max_bytes``."""
    rows = max(1, records.num_rows * max_bytes // max(1, records.nbytes))
    for start in range(0, records.num_rows, rows):
        yield records.slice(start, rows)
