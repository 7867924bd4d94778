"""The entries of a partition in 78 bytes each: the plan of a restore may keep millions. Pure."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import zstandard

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.offset_runs import NO_RUNS, OffsetRuns

_ROW = struct.Struct("<HqIIIIIqq32s")
"""Number of the shared values, start, offsets, records, bytes stored and raw, the number in the key
after the start, smallest and largest time, SHA-256."""
_LOW_TIME = 7
_NUMBERED = re.compile(r"(.*[^A-Za-z0-9])([0-9]+)([^0-9/][^/]*)", re.DOTALL)
_DIGEST_BYTES = 32


class _Shared(NamedTuple):
    """What an entry has in common with others of its partition."""

    before: str
    """The key up to its number, or the whole key."""
    digits: int
    """The digits of the number in the key; 0 if ``before`` is the whole key."""
    after: str
    topic_id: str
    format: str
    codec: str
    view: str
    parts: int
    closed_by: str
    converter: str
    generation: int
    is_one_frame: bool
    """True if the index has one point, which follows from the entry."""

    def key(self, number: int) -> str:
        """Return the key of the object with this number."""
        if not self.digits:
            return self.before
        return f"{self.before}{number:0{self.digits}d}{self.after}"


class _Rest(NamedTuple):
    """What few entries have."""

    points: Sequence[IndexPoint] = ()
    aborted: tuple[OffsetRange, ...] = ()
    runs: OffsetRuns = NO_RUNS
    whole_end: int = 0
    whole_records: int = 0


_NO_REST = _Rest()
_COMMON = attrgetter(*_Shared._fields[3:-1])


class EntrySums(NamedTuple):
    """Sums over the entries of a partition."""

    records: int
    """Each counted once: keys and headers are not."""
    raw_bytes: int
    size_bytes: int


class PackedEntries(Sequence[Entry]):
    """The entries of one partition, ordered by range; equal to a tuple of them.

    Immutable. An entry is built each time it is asked for.
    """

    __slots__ = ("_partition_id", "_rest", "_rows", "_shared", "_unpacked", "sums")

    def __init__(self, packer: EntryPacker) -> None:
        self._partition_id = packer.partition_id
        self._rows = bytes(packer.rows)
        self._shared = tuple(packer.shared)
        self._rest = packer.rest
        self._unpacked = packer.unpacked
        self.sums = EntrySums(*packer.sums)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> PackedEntries:
        """Pack the entries of a partition, in any order."""
        if isinstance(entries, PackedEntries):
            return entries
        packer = EntryPacker()
        for entry in entries:
            packer.add(entry)
        return packer.packed()

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(map(self.__getitem__, range(len(self))[at]))
        place = range(len(self))[at]
        return self._entry(place, _ROW.unpack_from(self._rows, place * _ROW.size))

    def __iter__(self) -> Iterator[Entry]:
        for place, row in enumerate(_ROW.iter_unpack(self._rows)):
            yield self._entry(place, row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __getstate__(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__slots__}
        return {**state, "_rows": zstandard.compress(self._rows, 1)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, zstandard.decompress(value) if name == "_rows" else value)

    @property
    def formats(self) -> frozenset[str]:
        """The formats of the objects."""
        found = {entry.format for entry in self._unpacked.values()}
        return frozenset(found.union(shared.format for shared in self._shared))

    @property
    def oldest_ms(self) -> int | None:
        """The smallest timestamp; None without entries."""
        packed = (row[_LOW_TIME] for place, row in self._iter_rows())
        unpacked = (entry.min_timestamp for entry in self._unpacked.values())
        return min(chain(packed, unpacked), default=None)

    def iter_sizes(self) -> Iterator[tuple[str, int]]:
        """Yield key and stored size of each object, without building its entry."""
        for _, (number, start, _, _, size, _, further, *_) in self._iter_rows():
            yield self._shared[number].key(start + further), size
        yield from ((entry.key, entry.size_bytes) for entry in self._unpacked.values())

    def _iter_rows(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        for place, row in enumerate(_ROW.iter_unpack(self._rows)):
            if place not in self._unpacked:
                yield place, row

    def _entry(self, place: int, row: tuple[Any, ...]) -> Entry:
        if place in self._unpacked:
            return self._unpacked[place]
        number, start, offsets, records, size_bytes, raw_bytes, further, low, high, digest = row
        shared, rest = self._shared[number], self._rest.get(place, _NO_REST)
        assert self._partition_id is not None, "there is an entry"
        return Entry(
            key=shared.key(start + further),
            partition_id=self._partition_id,
            topic_id=shared.topic_id,
            range=OffsetRange(start, start + offsets),
            records=records,
            min_timestamp=low,
            max_timestamp=high,
            size_bytes=size_bytes,
            raw_bytes=raw_bytes,
            format=shared.format,
            codec=shared.codec,
            sha256=digest.hex(),
            index=(IndexPoint(start, 0, 0, low, high),) if shared.is_one_frame else rest.points,
            aborted=rest.aborted,
            view=shared.view,
            parts=shared.parts,
            runs=rest.runs,
            closed_by=shared.closed_by,
            converter=shared.converter,
            generation=shared.generation,
            whole_end=rest.whole_end,
            whole_records=rest.whole_records,
        )


class EntryPacker:
    """Packs the entries of one partition as they are found."""

    __slots__ = ("_in_order", "_last", "partition_id", "rest", "rows", "shared", "sums", "unpacked")

    def __init__(self) -> None:
        self.partition_id: PartitionId | None = None
        self.rows = bytearray()
        self.shared: dict[_Shared, int] = {}
        self.rest: dict[int, _Rest] = {}
        self.unpacked: dict[int, Entry] = {}
        """Entries that do not fit into a row."""
        self.sums = (0, 0, 0)
        self._last = OffsetRange(0, 0)
        self._in_order = True

    def add(self, entry: Entry) -> None:
        """Add an entry; ValueError if it is of another partition."""
        if self.partition_id not in (None, entry.partition_id):
            raise ValueError(f"{entry.key} is not of {self.partition_id}")
        self.partition_id = entry.partition_id
        self._in_order = self._in_order and self._last <= entry.range
        self._last = entry.range
        place = len(self.rows) // _ROW.size
        try:
            self.rows += self._row(entry, place)
        except (struct.error, ValueError):
            self.rows += bytes(_ROW.size)
            self.unpacked[place] = entry
        records, raw_bytes, size_bytes = self.sums
        self.sums = (
            records + entry.own_records,
            raw_bytes + entry.raw_bytes,
            size_bytes + entry.size_bytes,
        )

    def packed(self) -> PackedEntries:
        """Return the entries, ordered by range."""
        found = PackedEntries(self)
        if self._in_order:
            return found
        return PackedEntries.of(sorted(found, key=lambda entry: entry.range))

    def _row(self, entry: Entry, place: int) -> bytes:
        """Return the row of an entry, and keep what it does not hold; error if it does not fit."""
        start, low, high = entry.range.start, entry.min_timestamp, entry.max_timestamp
        one_frame = len(entry.index) == 1 and entry.index[0] == (start, 0, 0, low, high)
        before, digits, after, further = _split(entry.key, start)
        shared = _Shared._make((before, digits, after, *_COMMON(entry), one_frame))
        digest = bytes.fromhex(entry.sha256)
        if len(digest) != _DIGEST_BYTES or digest.hex() != entry.sha256:
            raise ValueError(f"not a SHA-256: {entry.sha256!r:.100}")
        row = _ROW.pack(
            self.shared.get(shared, len(self.shared)),
            *(start, len(entry.range), entry.records),
            *(entry.size_bytes, entry.raw_bytes, further),
            *(low, high, digest),
        )
        self.shared.setdefault(shared, len(self.shared))
        points = () if one_frame else entry.index
        rest = _Rest(points, entry.aborted, entry.runs, entry.whole_end, entry.whole_records)
        if any(rest):
            self.rest[place] = rest
        return row


def _split(key: str, start: int) -> tuple[str, int, str, int]:
    """Split a key at the first offset in its name; return also how far that is after ``start``."""
    match = _NUMBERED.fullmatch(key)
    further = int(match[2]) - start if match else -1
    if match is None or not 0 <= further < 1 << 32:
        return key, 0, "", 0
    return match[1], len(match[2]), match[3], further


NO_ENTRIES = EntryPacker().packed()
