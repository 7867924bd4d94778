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
from kafkeep.maintenance.inspect.cat import RecordLine

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

    def renew(self, work: WorkLimits) -> None:
        """Allow the same work again."""
        searched = self.allowance.searched
        self.allowance = work.begin()
        self.allowance.searched = searched

    def find(self, chunk: MessageChunk) -> Iterator[Message]:
        records, positions = chunk.records, chunk.positions
        if records is None or positions is None:
            return
        self.allowance.take(records.num_rows, records.nbytes)
        columns = [records.column(name) for name in records.schema.names]
        for row in self.search.rows(records):
            whole = RecordLine(
                self.topic, chunk.partition, *(column[row].as_py() for column in columns)
            )
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
    source: MessageSource, cursor: Cursor, *, limit: int, search: Search, work: WorkLimits
) -> MessagePage:
    """Return up to ``limit`` records from ``cursor`` on, the oldest first."""
    begin = clipped(source, cursor, otherwise="start")
    scan = _Scan(source, _Finder(source.topic, search, work.begin(), KEPT_BYTES), limit, begin)
    scan.read_on()
    chosen = list(islice(_merged(scan.hits, newest_first=False), limit))
    after = scan.reached | {p: mine[0].position for p, mine in scan.hits.items() if mine}
    at_end = scan.is_at_end(after)
    return MessagePage(
        messages=tuple(chosen),
        first=begin,
        after=after,
        searched=scan.finder.allowance.searched,
        at_start=scan.is_at_start(begin),
        at_end=at_end,
        is_complete=at_end or len(chosen) >= limit,
    )


def read_backward(
    source: MessageSource, cursor: Cursor, *, limit: int, search: Search, work: WorkLimits
) -> MessagePage:
    """Return up to ``limit`` records before ``cursor``, the newest first."""
    begin = clipped(source, cursor, otherwise="end")
    scan = _Scan(source, _Finder(source.topic, search, work.begin(), KEPT_BYTES), limit, begin)
    scan.read_back(work)
    # What is older than the last record that was kept may have been left out.
    kept = {p: mine[-1].position for p, mine in scan.hits.items() if len(mine) >= limit}
    chosen = list(islice(_merged(scan.hits, newest_first=True), limit))
    left = {p: mine[0].position + 1 for p, mine in scan.hits.items() if mine}
    first = scan.reached | kept | left
    at_start = scan.is_at_start(first)
    return MessagePage(
        messages=tuple(chosen),
        first=first,
        after=begin,
        searched=scan.finder.allowance.searched,
        at_start=at_start,
        at_end=scan.is_at_end(begin),
        is_complete=at_start or len(chosen) >= limit,
    )


class _Scan:
    """One page being read: what was found in each partition, and how far each was read."""

    def __init__(self, source: MessageSource, finder: _Finder, limit: int, begin: Cursor) -> None:
        self._source = source
        self.finder = finder
        self._limit = limit
        self._begin = dict(begin)
        self.hits: Hits = {partition: deque() for partition in begin}
        self.reached = dict(begin)

    def is_at_start(self, cursor: Cursor) -> bool:
        """Return whether there is nothing before a cursor."""
        return all(at <= self._source.ranges[p].start for p, at in cursor.items())

    def is_at_end(self, cursor: Cursor) -> bool:
        """Return whether there is nothing after a cursor."""
        return all(at >= self._source.ranges[p].end for p, at in cursor.items())

    def _is_full(self) -> bool:
        return sum(map(len, self.hits.values())) >= self._limit

    def read_on(self) -> None:
        """Read forwards until the page is full, all is read, or the allowance is spent."""
        while not self._is_full():
            wanted = {
                partition: OffsetRange(at, self._source.ranges[partition].end)
                for partition, at in self.reached.items()
                if at < self._source.ranges[partition].end
            }
            if not wanted:
                return
            for chunk in self._source.read(wanted):
                self._take(chunk)
            if self.finder.allowance.is_spent(time.monotonic()):
                return

    def _take(self, chunk: MessageChunk) -> None:
        """Add the records of a chunk that are found, up to the limit of its partition."""
        mine = self.hits[chunk.partition]
        if len(mine) >= self._limit:
            return  # an earlier chunk of the same answer was enough
        self.reached[chunk.partition] = chunk.end
        for message in self.finder.find(chunk):
            if len(mine) >= self._limit:
                self.reached[chunk.partition] = message.position
                return
            mine.append(message)

    def read_back(self, work: WorkLimits) -> None:
        """Read windows backwards until the page is full, all is read, or the allowance is spent.

        At least one window is read completely.
        """
        size = _SEARCH_WINDOW if self.finder.search.text else self._limit
        sizes = dict.fromkeys(self._begin, size)
        while not self._is_full():
            windows = {
                partition: OffsetRange(max(span.start, at - sizes[partition]), at)
                for partition, at in self.reached.items()
                if at > (span := self._source.ranges[partition]).start
            }
            if self.finder.allowance.is_spent(time.monotonic()) and windows:
                if self.reached != self._begin:
                    return
                windows = dict([min(windows.items(), key=lambda one: len(one[1]))])
                self.finder.renew(work)
            if not windows:
                return
            found, ends = _read_windows(self._source, windows, self._limit, self.finder)
            for partition, window in windows.items():
                if ends[partition] >= window.end:
                    room = self._limit - len(self.hits[partition])
                    self.hits[partition].extend(islice(reversed(found[partition]), room))
                    self.reached[partition] = window.start
                    sizes[partition] *= 4
                else:  # too much for the allowance: the records nearest to the end come first
                    sizes[partition] = max(1, (ends[partition] - window.start) // 2)


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
) -> Iterator[RecordLine]:
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


def _cut(line: RecordLine, most: int) -> RecordLine:
    """Return a record without what is too long for a page."""

    def short(data: bytes | None) -> bytes | None:
        return data if data is None or len(data) <= most else data[:most]

    headers = [
        {"key": short(one["key"]), "value": short(one["value"])}
        for one in line.headers[:KEPT_HEADERS]
    ]
    return line._replace(key=short(line.key), value=short(line.value), headers=headers)
