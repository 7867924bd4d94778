"""Page through the records of a source, forwards or backwards, with a search. Pure but for reads.

Records of several partitions are merged by time; the order within a partition is kept.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Iterator, Mapping, MutableSequence
from dataclasses import dataclass
from itertools import islice

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.messages.message import (
    Allowance,
    Cursor,
    Message,
    MessageChunk,
    MessagePage,
    MessageSource,
    Search,
)
from kafkeep.maintenance.cat import Line

KEPT_BYTES = 64 * 1024
"""Longer keys, values and headers are cut on pages; their sizes are kept."""
KEPT_HEADERS = 100
_SEARCH_WINDOW = 1000

Hits = dict[int, deque[Message]]


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The most that one page may read."""

    records: int = 100_000
    bytes: int = 32 << 20
    seconds: float = 5.0

    def begin(self) -> Allowance:
        return Allowance(self.records, self.bytes, time.monotonic() + self.seconds)


@dataclass(slots=True)
class _Finder:
    """Finds the records of a topic's chunks that a search wants, and counts the work."""

    topic: str
    search: Search
    allowance: Allowance
    kept_bytes: int | None = None

    def find(self, chunk: MessageChunk) -> Iterator[Message]:
        records, positions = chunk.records, chunk.positions
        if records is None or positions is None:
            return
        self.allowance.take(records.num_rows, records.nbytes)
        columns = [records.column(name) for name in records.schema.names]
        for row in self.search.rows(records):
            whole = Line(self.topic, chunk.partition, *(column[row].as_py() for column in columns))
            yield Message(
                line=whole if self.kept_bytes is None else _cut(whole, self.kept_bytes),
                position=int(positions[row]),
                key_bytes=len(whole.key or b""),
                value_bytes=len(whole.value or b""),
                header_count=len(whole.headers),
            )


_UNLIMITED = WorkLimits(records=1 << 62, bytes=1 << 62, seconds=1e9)


def clipped(source: MessageSource, cursor: Cursor, *, otherwise: str) -> dict[int, int]:
    """Return a position inside each partition's range; ``start`` or ``end`` where none is given."""
    return {
        partition: min(max(cursor.get(partition, getattr(span, otherwise)), span.start), span.end)
        for partition, span in source.ranges.items()
    }


def read_forward(
    source: MessageSource,
    cursor: Cursor,
    *,
    limit: int,
    search: Search,
    work: WorkLimits,
) -> MessagePage:
    """Return up to ``limit`` records from ``cursor`` on, the oldest first."""
    begin = clipped(source, cursor, otherwise="start")
    finder = _Finder(source.topic, search, work.begin(), KEPT_BYTES)
    hits: Hits = {partition: deque() for partition in begin}
    reached = dict(begin)
    while True:
        wanted = {
            partition: OffsetRange(at, source.ranges[partition].end)
            for partition, at in reached.items()
            if at < source.ranges[partition].end and len(hits[partition]) < limit
        }
        if not wanted or sum(map(len, hits.values())) >= limit:
            break
        for chunk in source.read(wanted):
            _take_forward(finder, chunk, hits, reached, limit)
        if finder.allowance.is_spent(time.monotonic()):
            break
    chosen = list(islice(_merged(hits, newest_first=False), limit))
    for partition, left in hits.items():
        if left:
            reached[partition] = left[0].position
    at_end = all(at >= source.ranges[p].end for p, at in reached.items())
    return MessagePage(
        messages=tuple(chosen),
        first=begin,
        after=reached,
        searched=finder.allowance.searched,
        at_start=all(at <= source.ranges[p].start for p, at in begin.items()),
        at_end=at_end,
        is_complete=at_end or len(chosen) >= limit,
    )


def _take_forward(
    finder: _Finder, chunk: MessageChunk, hits: Hits, reached: dict[int, int], limit: int
) -> None:
    """Add the records of a chunk that are found, up to the limit of its partition."""
    mine = hits[chunk.partition]
    if len(mine) >= limit:
        return  # an earlier chunk of the same answer was enough
    reached[chunk.partition] = chunk.end
    for message in finder.find(chunk):
        if len(mine) >= limit:
            reached[chunk.partition] = message.position
            return
        mine.append(message)


def read_backward(
    source: MessageSource,
    cursor: Cursor,
    *,
    limit: int,
    search: Search,
    work: WorkLimits,
) -> MessagePage:
    """Return up to ``limit`` records before ``cursor``, the newest first."""
    begin = clipped(source, cursor, otherwise="end")
    finder = _Finder(source.topic, search, work.begin(), KEPT_BYTES)
    hits: Hits = {partition: deque() for partition in begin}
    reached = dict(begin)
    sizes = dict.fromkeys(begin, _SEARCH_WINDOW if search.text else limit)
    while True:
        windows = {
            partition: OffsetRange(max(source.ranges[partition].start, at - sizes[partition]), at)
            for partition, at in reached.items()
            if at > source.ranges[partition].start and len(hits[partition]) < limit
        }
        if not windows or sum(map(len, hits.values())) >= limit:
            break
        if finder.allowance.is_spent(time.monotonic()):
            if reached != begin:
                break
            # Nothing was read completely: try again with the smallest window alone.
            windows = dict([min(windows.items(), key=lambda one: len(one[1]))])
            finder.allowance = _renewed(finder.allowance, work)
        found, ends = _read_windows(source, windows, limit, finder)
        for partition, window in windows.items():
            if ends[partition] >= window.end:
                hits[partition].extend(reversed(found[partition]))
                reached[partition] = window.start
                sizes[partition] *= 4
            else:  # too much for the allowance: the records nearest to the end come first
                sizes[partition] = max(1, (ends[partition] - window.start) // 2)
    for mine in hits.values():
        while len(mine) > limit:
            mine.pop()
    held = {p: (mine[-1].position if len(mine) >= limit else None) for p, mine in hits.items()}
    chosen = list(islice(_merged(hits, newest_first=True), limit))
    for partition, left in hits.items():
        if left:
            reached[partition] = left[0].position + 1
        elif (position := held[partition]) is not None:
            reached[partition] = position
    at_start = all(at <= source.ranges[p].start for p, at in reached.items())
    return MessagePage(
        messages=tuple(chosen),
        first=reached,
        after=begin,
        searched=finder.allowance.searched,
        at_start=at_start,
        at_end=all(at >= source.ranges[p].end for p, at in begin.items()),
        is_complete=at_start or len(chosen) >= limit,
    )


def _renewed(allowance: Allowance, work: WorkLimits) -> Allowance:
    fresh = work.begin()
    fresh.searched = allowance.searched
    return fresh


def _read_windows(
    source: MessageSource,
    windows: Mapping[int, OffsetRange],
    limit: int,
    finder: _Finder,
) -> tuple[Mapping[int, MutableSequence[Message]], dict[int, int]]:
    """Return the last found records of each window, and how far each was read.

    A window of one offset is read whatever the allowance says.
    """
    found: dict[int, deque[Message]] = {p: deque(maxlen=limit) for p in windows}
    ends = {partition: window.start for partition, window in windows.items()}
    while True:
        spent = finder.allowance.is_spent(time.monotonic())
        wanted = {
            partition: OffsetRange(ends[partition], window.end)
            for partition, window in windows.items()
            if ends[partition] < window.end and (not spent or len(window) == 1)
        }
        if not wanted:
            return found, ends
        for chunk in source.read(wanted):
            ends[chunk.partition] = chunk.end
            found[chunk.partition].extend(finder.find(chunk))


def read_one(source: MessageSource, partition: int, position: int) -> Message | None:
    """Return one record whole; None when there is none at the position."""
    span = source.ranges.get(partition)
    if span is None or not span.start <= position < span.end:
        return None
    finder = _Finder(source.topic, Search(), _UNLIMITED.begin())
    at, window = position, OffsetRange(position, position + 1)
    while at < window.end:
        for chunk in source.read({partition: OffsetRange(at, window.end)}):
            at = chunk.end
            for message in finder.find(chunk):
                if message.position == position:
                    return message
    return None


def iter_forward(
    source: MessageSource, cursor: Cursor, *, most: int, search: Search, most_bytes: int
) -> Iterator[Line]:
    """Yield whole records from ``cursor`` on, by partition, up to a number and a size."""
    finder = _Finder(source.topic, search, _UNLIMITED.begin())
    left, size = most, most_bytes
    for partition, begin in clipped(source, cursor, otherwise="start").items():
        at, end = begin, source.ranges[partition].end
        while at < end:
            for chunk in source.read({partition: OffsetRange(at, end)}):
                at = chunk.end
                for message in finder.find(chunk):
                    if left <= 0 or size <= 0:
                        return
                    left, size = left - 1, size - message.key_bytes - message.value_bytes
                    yield message.line


def _merged(hits: Hits, *, newest_first: bool) -> Iterator[Message]:
    """Yield and remove records by time; of equal times, by partition."""
    sign = -1 if newest_first else 1
    heads = [(sign * mine[0].line.timestamp, sign * p, p) for p, mine in hits.items() if mine]
    heapq.heapify(heads)
    while heads:
        _, _, partition = heapq.heappop(heads)
        mine = hits[partition]
        yield mine.popleft()
        if mine:
            heapq.heappush(heads, (sign * mine[0].line.timestamp, sign * partition, partition))


def _cut(line: Line, most: int) -> Line:
    """Return a record without what is too long for a page."""

    def short(data: bytes | None) -> bytes | None:
        return data if data is None or len(data) <= most else data[:most]

    headers = [
        {"key": short(one["key"]), "value": short(one["value"])}
        for one in line.headers[:KEPT_HEADERS]
    ]
    return line._replace(key=short(line.key), value=short(line.value), headers=headers)
