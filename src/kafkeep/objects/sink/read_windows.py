"""Group the objects of a partition into windows and files. Pure.

Each segment is one window. A sink closes several files at once. They share one range of offsets,
and each is in its own directory. A file has up to three objects: values, keys and headers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.errors import DamagedError

if TYPE_CHECKING:  # numba takes half a second to load
    from kafkeep.numba_setup import Int64s

SEGMENT = "segment"
ENVELOPE = "envelope"
UNKNOWN = -1
"""The value of an offset or a timestamp that the archive does not hold."""

LAST = 2**63 - 1
_DIGITS = re.compile(r"\d+$")
_NAMED = re.compile(r".*[^A-Za-z0-9](\d+)[^0-9/][^/]*", re.DOTALL)
"""Matches the offset: the last number in a name that is not part of a word such as ``.lz4``."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a window. ``main`` holds its values, or the keys of tombstones."""

    main: Entry
    keys: Entry | None = None
    headers: Entry | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of all objects of the file."""
        return tuple(e for e in (self.main, self.keys, self.headers) if e is not None)

    @property
    def stored(self) -> StoredFile:
        """The file as stored, including records outside the entry's current range."""
        objects = (e and e.stored for e in (self.main, self.keys, self.headers))
        return StoredFile(*objects)  # type: ignore[arg-type]

    @property
    def whole(self) -> bool:
        """Whether each row is a whole Kafka record (envelope)."""
        return self.main.converter == ENVELOPE

    @property
    def knows_offsets(self) -> bool:
        """Whether the offset of each row is known."""
        return self.whole or first_offset(self.main) is not None


@dataclass(frozen=True, slots=True)
class Window:
    """Objects that share one range of offsets of one partition."""

    range: OffsetRange
    entries: tuple[Entry, ...]

    @property
    def is_segment(self) -> bool:
        """Whether the window is one segment object."""
        return self.entries[0].format == SEGMENT

    @property
    def records(self) -> int:
        """The number of records. Keys and headers are not counted again."""
        return sum(entry.own_records for entry in self.entries)

    def files(self) -> list[StoredFile]:
        """Group the objects into files, ordered by first offset, with unknown offsets last.

        Raise DamagedError when the log lists keys or headers without their values.
        """
        return sorted(_join_files(self.entries), key=lambda file: _place(file.main))


def iter_windows(entries: Iterable[Entry]) -> Iterator[Window]:
    """Yield the windows of one partition in offset order."""
    ordered = sorted(entries, key=lambda entry: (entry.range, entry.key))
    for offsets, members in groupby(ordered, key=lambda entry: entry.range):
        several = tuple(members)
        segments = [entry for entry in several if entry.format == SEGMENT]
        for entry in segments:
            yield Window(offsets, (entry,))
        if len(segments) < len(several):
            yield Window(offsets, tuple(e for e in several if e.format != SEGMENT))


def with_companions(entries: Sequence[Entry], keys: Collection[str]) -> frozenset[str]:
    """Return ``keys`` and the keys of all objects that belong to the same files.

    A file is read whole or not at all, because values without their keys would be different
    records. ``entries`` belong to one partition.
    """
    found = set(keys)
    for window in iter_windows(entries):
        if any(entry.key in found for entry in window.entries) and not window.is_segment:
            for file in window.files():
                if any(entry.key in found for entry in file.entries):
                    found.update(entry.key for entry in file.entries)
    return frozenset(found)


def first_offset(entry: Entry) -> int | None:
    """Return the offset of an object's first row, or None when the log does not hold offsets."""
    if entry.records == len(entry.range):
        return entry.range.start
    return int(entry.runs.edges()[0, 0]) if entry.runs else None


class RowOffsets:
    """The offsets of an object's rows, computed from its entry."""

    def __init__(self, entry: Entry) -> None:
        whole = entry.records == len(entry.range)
        edges = np.array([[entry.range.start, entry.range.end]]) if whole else entry.runs.edges()
        self.known = whole or bool(entry.runs)
        self._starts: Int64s = edges[:, 0].astype(np.int64)
        self._before: Int64s = np.zeros(len(edges) + 1, dtype=np.int64)
        np.cumsum(edges[:, 1] - self._starts, out=self._before[1:])
        if self.known and self._before[-1] != entry.records:
            raise DamagedError(
                f"{entry.key}: the log has {self._before[-1]} offsets for its "
                f"{entry.records} records"
            )

    def rows(self, start: int, stop: int) -> Int64s:
        """Return the offsets of rows ``[start, stop)``, each ``UNKNOWN`` if the log has none."""
        if not self.known:
            return np.full(stop - start, UNKNOWN, dtype=np.int64)
        numbers = np.arange(start, stop, dtype=np.int64)
        run = np.searchsorted(self._before, numbers, side="right") - 1
        found: Int64s = self._starts[run] + numbers - self._before[run]
        return found


def _place(entry: Entry) -> tuple[int, int, str]:
    first = first_offset(entry)
    if first is not None:
        return first, 0, entry.key
    named = _NAMED.fullmatch(entry.key)
    return LAST, int(named[1]) if named else 0, entry.key


def _join_files(entries: Sequence[Entry]) -> Iterator[StoredFile]:
    mains = [e for e in entries if e.view in ("value", "tombstones")]
    beside = {view: _Beside(e for e in entries if e.view == view) for view in ("keys", "headers")}
    for main in mains:
        yield StoredFile(main, beside["keys"].take(main), beside["headers"].take(main))
    for view, rest in beside.items():
        for entry in rest.left:
            raise DamagedError(f"{entry.key}: the log has no values for these {view}")


class _Beside:
    """Finds the object of keys or headers that belongs to an object of values.

    Each offset is in one file only, so the first offset identifies the file. If offsets are
    unknown, the names of the objects decide.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_first: dict[int, Entry] = {}
        self._by_name: list[Entry] = []
        for entry in entries:
            first = first_offset(entry)
            if first is None:
                self._by_name.append(entry)
            else:
                self._by_first[first] = entry

    @property
    def left(self) -> list[Entry]:
        """The objects that ``take`` has not returned."""
        return [*self._by_first.values(), *self._by_name]

    def take(self, main: Entry) -> Entry | None:
        """Remove and return the object that belongs to ``main``, or None."""
        first = first_offset(main)
        if first is not None:
            found = self._by_first.pop(first, None)
        else:
            found = next((e for e in self._by_name if _same_stem(main, e)), None)
            if found is not None:
                self._by_name.remove(found)
        if found is not None and found.records != main.records:
            raise DamagedError(
                f"{found.key} has {found.records} rows, {main.key} beside it {main.records}"
            )
        return found


def _same_stem(main: Entry, other: Entry) -> bool:
    """Return whether two names are equal up to the offset, ignoring its leading zeros."""
    stem = other.key[: other.key.rfind(f".{other.view}")]
    digits = _DIGITS.search(stem)
    if digits is None or not main.key.startswith(stem[: digits.start()]):
        return False
    rest = re.match(r"\d+", main.key[digits.start() :])
    return rest is not None and int(rest[0]) == int(digits[0])


def formats_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the formats of the values, for display: ``segment``, ``json``."""
    return tuple(sorted({entry.format for entry in entries if entry.own_records}))


def entries_by_partition(entries: Iterable[Entry]) -> Mapping[PartitionId, list[Entry]]:
    """Group entries by partition."""
    found: dict[PartitionId, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.partition_id, []).append(entry)
    return found
