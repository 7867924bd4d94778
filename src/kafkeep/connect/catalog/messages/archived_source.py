"""Records of one topic of a log, read from its objects in offset order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kafkeep.archive.checkpoint import Checkpoint
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.catalog.messages.message import MessageChunk
from kafkeep.connect.catalog.topics.logged_topics import LoggedTopic
from kafkeep.connect.model import RestError
from kafkeep.maintenance.inspect.cat import CatOptions, iter_window_records
from kafkeep.objects.sink.read_windows import Window, entries_by_partition, iter_windows
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.records.arrow import view_numbers

_TOPICS_KEPT = 20
Entries = Mapping[int, Sequence[Entry]]


@dataclass(frozen=True, slots=True)
class _Kept:
    base: Checkpoint
    commits: int
    """Of the log's tail, that are included."""
    entries: Entries
    options: ReadOptions


class TopicEntries:
    """The entries of the topics that were read last. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str, str, int], _Kept] = {}

    def load(self, topic: LoggedTopic) -> tuple[Entries, ReadOptions]:
        """Return entries by partition, and how to read them; of a log that grew, only new ones."""
        log, info = topic.log, topic.info
        key = log.place.id, log.name, info.topic, info.incarnation
        with self._lock:
            known = self._kept.pop(key, None)
        if known is None or known.base is not log.loaded.base:
            known = _load(topic)
        elif known.commits < len(log.loaded.tail):
            known = _read_on(known, log, key[2:])
        with self._lock:
            if len(self._kept) >= _TOPICS_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = known
        return known.entries, known.options


def _load(topic: LoggedTopic) -> _Kept:
    log, info = topic.log, topic.info
    entries = log.view.entries(info.topic, info.incarnation)
    has_files = any(entry.format != "segment" for entry in entries)
    options = load_read_options(log.store, log.view).read_only() if has_files else NO_OPTIONS
    return _Kept(log.loaded.base, len(log.loaded.tail), _by_partition(entries), options)


def _read_on(known: _Kept, log: ArchiveLog, wanted: tuple[str, int]) -> _Kept:
    tail = log.loaded.tail
    added = _by_partition(
        [
            entry
            for commit in tail[known.commits :]
            for entry in commit.changes.entries
            if entry.partition_id[:2] == wanted
        ]
    )
    numbers = {*known.entries, *added}
    entries = {n: [*known.entries.get(n, ()), *added.get(n, ())] for n in numbers}
    return _Kept(known.base, len(tail), entries, known.options)


def _by_partition(entries: Sequence[Entry]) -> Entries:
    return {pid.partition: mine for pid, mine in entries_by_partition(entries).items()}


class ArchivedSource:
    """Reads one object at a time; keeps it open between calls of ``read``."""

    def __init__(
        self, topic: LoggedTopic, entries: Entries, options: ReadOptions, partition: int | None
    ) -> None:
        if partition is not None and partition not in {*entries, *topic.positions}:
            raise RestError(
                404, f"The archive has no partition {partition} of topic {topic.info.topic}"
            )
        self._topic = topic
        self._entries = entries
        self._options = options
        numbers = sorted({*entries, *topic.positions}) if partition is None else [partition]
        self._ranges = {number: self._range(number) for number in numbers}
        self._open: dict[int, tuple[OffsetRange, Iterator[MessageChunk]]] = {}

    def _range(self, number: int) -> OffsetRange:
        mine = self._entries.get(number, ())
        end = max((entry.range.end for entry in mine), default=0)
        return OffsetRange(min((entry.range.start for entry in mine), default=end), end)

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._topic.info.topic

    @property
    def ranges(self) -> Mapping[int, OffsetRange]:
        """From the first to the last archived record."""
        return self._ranges

    def read(self, wanted: Mapping[int, OffsetRange]) -> Iterator[MessageChunk]:
        """Yield the next chunk of each partition."""
        for number, offsets in wanted.items():
            expected, chunks = self._open.pop(number, (None, None))
            if expected != offsets or chunks is None:
                chunks = self._chunks(number, offsets)
            chunk = next(chunks)
            if chunk.end < offsets.end:
                self._open[number] = OffsetRange(chunk.end, offsets.end), chunks
            yield chunk

    def at_time(self, time_ms: int) -> Mapping[int, int]:
        """Return the first position at or after a time; the end where all records are older."""
        return {number: self._at_time(number, time_ms) for number in self._ranges}

    def _at_time(self, number: int, time_ms: int) -> int:
        end = self._ranges[number].end
        for window in iter_windows(self._entries.get(number, ())):
            if all(entry.max_timestamp < time_ms for entry in window.entries):
                continue
            for chunk in self._of_window(number, window, window.range, time_ms):
                if chunk.records is None or chunk.positions is None:
                    continue
                times = view_numbers(chunk.records.column("timestamp"), np.int64)
                late = np.flatnonzero(times >= time_ms)
                if len(late):
                    return int(chunk.positions[late[0]])
        return end

    def _chunks(self, number: int, wanted: OffsetRange) -> Iterator[MessageChunk]:
        """Yield chunks up to the end of ``wanted``."""
        entries = [
            entry
            for entry in self._entries.get(number, ())
            if entry.range.end > wanted.start and entry.range.start < wanted.end
        ]
        for window in iter_windows(entries):
            part = window.range.overlap(wanted)
            if part is not None:
                yield from self._of_window(number, window, part)
                if part.end < wanted.end:
                    yield MessageChunk(number, part.end)
        yield MessageChunk(number, wanted.end)

    def _of_window(
        self, number: int, window: Window, part: OffsetRange, from_ms: int | None = None
    ) -> Iterator[MessageChunk]:
        """Yield the records of a window that are in ``part``.

        If the offset of a record is not archived, each gets a position by its place in the window.
        """
        counts = not window.is_segment and not all(file.knows_offsets for file in window.files())
        offsets = window.range if counts else part
        options = CatOptions(from_ms=None if counts else from_ms)
        row = 0
        for records in iter_window_records(
            self._topic.log.store, window, offsets, options, self._options
        ):
            if not records.num_rows:
                continue
            if counts:
                first = window.range.start + row
                positions = np.arange(first, first + records.num_rows, dtype=np.int64)
                row += records.num_rows
                inside = np.flatnonzero((positions >= part.start) & (positions < part.end))
                if not len(inside):
                    continue
                records = records.slice(int(inside[0]), len(inside))  # noqa: PLW2901
                positions = positions[inside]
            else:
                positions = view_numbers(records.column("offset"), np.int64)
            yield MessageChunk(number, int(positions[-1]) + 1, records, positions)
