"""Select the parts of objects that may hold the selected offsets and times, by the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.archive.packed_entries import PackedEntries
from kafkeep.errors import PreflightError
from kafkeep.objects.sink.read_windows import ENVELOPE, Window, first_offset, iter_windows


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Record times ``[from, until)``; None means no bound."""

    from_ms: int | None = None
    until_ms: int | None = None

    def excludes(self, low: int, high: int) -> bool:
        """Return whether no time in ``[low, high]`` is selected."""
        late = self.until_ms is not None and low >= self.until_ms
        return late or (self.from_ms is not None and high < self.from_ms)

    def includes(self, low: int, high: int) -> bool:
        """Return whether every time in ``[low, high]`` is selected."""
        early = self.from_ms is not None and low < self.from_ms
        return not early and (self.until_ms is None or high < self.until_ms)


ALL_TIMES = TimeRange()


@dataclass(frozen=True, slots=True)
class WindowSlice:
    """A range of offsets of one window; if ``timed``, the time of each record is checked, too.

    ``records`` and ``stored_bytes`` count what is read, including records that are not selected.
    """

    window: Window
    range: OffsetRange
    timed: bool
    records: int
    stored_bytes: int

    @property
    def whole(self) -> bool:
        """True if every record of the window is selected."""
        return not self.timed and self.range == self.window.range

    @property
    def exact(self) -> bool:
        """True if ``records`` is exact."""
        return self.whole and not any(entry.aborted for entry in self.window.entries)


class PlannedSlices(Sequence[WindowSlice]):
    """The slices to read of one partition, selected when they are first used.

    Equal to a tuple of them. A plan, and the pickled work of a task, hold the entries only.
    """

    __slots__ = ("_entries", "_ranges", "_slices", "_times")

    def __init__(
        self, entries: PackedEntries, ranges: Sequence[OffsetRange] | None, times: TimeRange
    ) -> None:
        self._entries, self._ranges, self._times = entries, ranges, times
        self._slices: tuple[WindowSlice, ...] | None = None

    def __len__(self) -> int:
        return len(self._selected())

    def __getitem__(self, at: Any) -> Any:
        return self._selected()[at]

    def __iter__(self) -> Iterator[WindowSlice]:
        return iter(self._selected())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((self._entries, self._times))

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannedSlices, (self._entries, self._ranges, self._times)

    def _selected(self) -> tuple[WindowSlice, ...]:
        if self._slices is None:
            self._slices = select_slices(self._entries, self._ranges, self._times)
        return self._slices


def whole_slices(entries: Iterable[Entry]) -> tuple[WindowSlice, ...]:
    """Return the whole windows of one partition."""
    return tuple(_whole(window) for window in iter_windows(entries))


def select_slices(
    entries: Sequence[Entry], ranges: Sequence[OffsetRange] | None, times: TimeRange
) -> tuple[WindowSlice, ...]:
    """Return the slices that may hold selected records, in order.

    ``ranges`` do not overlap; None means every offset. PreflightError if objects do not hold the
    offsets or times of their records.
    """
    slices: list[WindowSlice] = []
    for window in iter_windows(entries):
        for wanted in ranges if ranges is not None else (window.range,):
            overlap = window.range.overlap(wanted)
            if overlap is not None:
                slices.extend(_pick(window, overlap, times))
    return tuple(slices)


def _pick(window: Window, overlap: OffsetRange, times: TimeRange) -> Iterator[WindowSlice]:
    low = min(entry.min_timestamp for entry in window.entries)
    high = max(entry.max_timestamp for entry in window.entries)
    if times.excludes(low, high):
        return
    timed = not times.includes(low, high)
    if not timed and overlap == window.range:
        yield _whole(window)
    elif window.is_segment:
        yield from _pick_frames(window, overlap, times)
    else:
        _check_rows(window, overlap, timed)
        yield WindowSlice(window, overlap, timed, window.records, _size(window))


def _whole(window: Window) -> WindowSlice:
    return WindowSlice(window, window.range, False, window.records, _size(window))


def _size(window: Window) -> int:
    return sum(entry.size_bytes for entry in window.entries)


def _check_rows(window: Window, overlap: OffsetRange, timed: bool) -> None:
    """Refuse objects without the times or offsets that the selection needs."""
    for entry in window.entries:
        if not entry.own_records or entry.converter == ENVELOPE:
            continue
        if timed and entry.min_timestamp != entry.max_timestamp:
            raise PreflightError(f"{entry.key} does not hold the times of its records")
        if overlap != window.range and first_offset(entry) is None:
            raise PreflightError(f"{entry.key} does not hold the offsets of its records")


@dataclass(frozen=True, slots=True)
class _Frame:
    """The selected part of neighbouring frames of a segment."""

    range: OffsetRange
    timed: bool
    records: int
    stored_bytes: int


def _pick_frames(window: Window, overlap: OffsetRange, times: TimeRange) -> Iterator[WindowSlice]:
    """Join neighbouring frames that are read in the same way."""
    joined: list[_Frame] = []
    for frame in _frames(window.entries[0], overlap, times):
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
        yield WindowSlice(window, frame.range, frame.timed, frame.records, frame.stored_bytes)


def _frames(entry: Entry, overlap: OffsetRange, times: TimeRange) -> Iterator[_Frame]:
    points = entry.index
    end = IndexPoint(entry.stored.range.end, entry.size_bytes, entry.stored.records, 0, 0)
    for place, (point, following) in enumerate(zip(points, (*points[1:], end), strict=True)):
        start = entry.range.start if place == 0 else point.offset
        if start >= following.offset:
            continue
        wanted = OffsetRange(start, following.offset).overlap(overlap)
        if wanted is None or times.excludes(point.min_timestamp, point.max_timestamp):
            continue
        records = min(following.records - point.records, len(wanted))
        yield _Frame(
            wanted,
            not times.includes(point.min_timestamp, point.max_timestamp),
            max(0, records),
            following.position - point.position,
        )
