"""Which stretches of which objects hold what was asked for, by the log alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.errors import PreflightError
from kafkeep.objects.sink.read_windows import ENVELOPE, Window, first_offset, iter_windows


@dataclass(frozen=True, slots=True)
class Times:
    """Record times ``[from, until)``; None is no bound."""

    from_ms: int | None = None
    until_ms: int | None = None

    def excludes(self, low: int, high: int) -> bool:
        """Whether no record between these times (both included) is wanted."""
        late = self.until_ms is not None and low >= self.until_ms
        return late or (self.from_ms is not None and high < self.from_ms)

    def includes(self, low: int, high: int) -> bool:
        """Whether every record between these times is wanted."""
        early = self.from_ms is not None and low < self.from_ms
        return not early and (self.until_ms is None or high < self.until_ms)


ALL_TIMES = Times()


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one window of objects; if ``timed``, the time of each record decides.

    ``records`` and ``stored_bytes`` are those that are read: a few may turn out not to be wanted.
    """

    window: Window
    range: OffsetRange
    timed: bool
    records: int
    stored_bytes: int

    @property
    def whole(self) -> bool:
        """Whether every record of the window is wanted."""
        return not self.timed and self.range == self.window.range

    @property
    def exact(self) -> bool:
        """Whether ``records`` is what it holds, known without reading."""
        return self.whole and not any(entry.aborted for entry in self.window.entries)


def whole_pieces(entries: Iterable[Entry]) -> tuple[Piece, ...]:
    """Return all of the windows of one partition."""
    return tuple(_whole(window) for window in iter_windows(entries))


def pick_pieces(
    entries: Sequence[Entry], ranges: Sequence[OffsetRange] | None, times: Times
) -> tuple[Piece, ...]:
    """Return the stretches that may hold wanted records, in order.

    ``ranges`` do not overlap; None is every offset. PreflightError when objects do not tell what
    was asked for.
    """
    pieces: list[Piece] = []
    for window in iter_windows(entries):
        for wanted in ranges if ranges is not None else (window.range,):
            part = window.range.overlap(wanted)
            if part is not None:
                pieces.extend(_pick(window, part, times))
    return tuple(pieces)


def _pick(window: Window, part: OffsetRange, times: Times) -> Iterator[Piece]:
    low = min(entry.min_timestamp for entry in window.entries)
    high = max(entry.max_timestamp for entry in window.entries)
    if times.excludes(low, high):
        return
    timed = not times.includes(low, high)
    if not timed and part == window.range:
        yield _whole(window)
    elif window.is_segment:
        yield from _pick_frames(window, part, times)
    else:
        _check_rows(window, part, timed)
        yield Piece(window, part, timed, window.records, _size(window))


def _whole(window: Window) -> Piece:
    return Piece(window, window.range, False, window.records, _size(window))


def _size(window: Window) -> int:
    return sum(entry.size_bytes for entry in window.entries)


def _check_rows(window: Window, part: OffsetRange, timed: bool) -> None:
    """Refuse to guess: rows of some sinks' objects have no time, or no offset of their own."""
    for entry in window.entries:
        if not entry.own_records or entry.converter == ENVELOPE:
            continue
        if timed and entry.min_timestamp != entry.max_timestamp:
            raise PreflightError(f"{entry.key} does not hold the times of its records")
        if part != window.range and first_offset(entry) is None:
            raise PreflightError(f"{entry.key} does not tell the offsets of its records")


@dataclass(frozen=True, slots=True)
class _Frame:
    """Neighbouring frames of a segment, as far as they are wanted."""

    range: OffsetRange
    timed: bool
    records: int
    stored_bytes: int


def _pick_frames(window: Window, part: OffsetRange, times: Times) -> Iterator[Piece]:
    """Join neighbouring frames that are read alike."""
    joined: list[_Frame] = []
    for frame in _frames(window.entries[0], part, times):
        last = joined[-1] if joined else None
        if last and last.timed == frame.timed and last.range.end == frame.range.start:
            joined[-1] = _Frame(
                OffsetRange(last.range.start, frame.range.end),
                frame.timed,
                last.records + frame.records,
                last.stored_bytes + frame.stored_bytes,
            )
        else:
            joined.append(frame)
    for frame in joined:
        yield Piece(window, frame.range, frame.timed, frame.records, frame.stored_bytes)


def _frames(entry: Entry, part: OffsetRange, times: Times) -> Iterator[_Frame]:
    points = entry.index
    end = IndexPoint(entry.stored.range.end, entry.size_bytes, entry.stored.records, 0, 0)
    for place, (point, following) in enumerate(zip(points, (*points[1:], end), strict=True)):
        start = entry.range.start if place == 0 else point.offset
        if start >= following.offset:
            continue
        wanted = OffsetRange(start, following.offset).overlap(part)
        if wanted is None or times.excludes(point.min_timestamp, point.max_timestamp):
            continue
        records = min(following.records - point.records, len(wanted))
        yield _Frame(
            wanted,
            not times.includes(point.min_timestamp, point.max_timestamp),
            max(0, records),
            following.position - point.position,
        )
