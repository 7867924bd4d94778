"""Entries: the log's description of one data object.

Also the values that an entry is made of: partition, range of offsets, and index points.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle
from operator import add, sub
from sys import intern
from typing import Any, NamedTuple

from kafkeep.archive.names import check_key, check_topic_name
from kafkeep.archive.offset_runs import NO_RUNS, OffsetRuns

LAST_OFFSET = 2**63 - 1
"""Kafka's offsets, times and sizes are signed 64-bit numbers: no stored number is larger."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition, half-open: ``start <= offset < end``."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"offset range is not ordered: {self.start}..{self.end}")

    def __len__(self) -> int:
        return self.end - self.start

    def overlap(self, other: OffsetRange) -> OffsetRange | None:
        """Return the offsets in both, or None when there are none."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return OffsetRange(start, end) if start < end else None


class PartitionId(NamedTuple):
    """One partition of one incarnation of a topic: the unit that positions are kept for.

    ``incarnation`` counts the topics of this name: 1, then 2 after a re-creation.
    """

    topic: str
    incarnation: int
    partition: int

    @classmethod
    def checked(cls, topic: str, incarnation: int, partition: int) -> PartitionId:
        """Build one from a stored document; ValueError when it cannot be a partition."""
        if incarnation < 1 or partition < 0:
            raise ValueError(f"not a partition: {topic!r}, {incarnation}, {partition}")
        return cls(check_topic_name(topic), incarnation, partition)

    @property
    def folder(self) -> str:
        """The topic's folder name: ``orders``, then ``orders~2``."""
        return self.topic if self.incarnation == 1 else f"{self.topic}~{self.incarnation}"

    def __str__(self) -> str:
        return f"{self.folder}-{self.partition}"


class IndexPoint(NamedTuple):
    """One point of the index: bytes ``[position, next point's position)`` begin at ``offset``.

    ``records`` counts the records of the object before this point. Both timestamps cover the
    records between this point and the next one.
    """

    offset: int
    position: int
    records: int
    min_timestamp: int
    max_timestamp: int


class PackedIndex(Sequence[IndexPoint]):
    """The index of a large entry, in 20 bytes for each point; equal to a tuple of its points.

    Offsets and times are relative to the first ones. With numbers that do not fit: in 40 bytes.
    """

    __slots__ = ("_base", "_numbers")

    def __init__(self, points: Sequence[IndexPoint]) -> None:
        time = min((point.min_timestamp for point in points), default=0)
        offset = points[0].offset if points else 0
        self._base: tuple[int, ...] = (offset, 0, 0, time, time)
        numbers = list(chain.from_iterable(points))
        try:
            self._numbers = array("I", map(sub, numbers, cycle(self._base)))
        except OverflowError:
            self._base, self._numbers = (0,) * _POINT, array("q", numbers)

    def __len__(self) -> int:
        return len(self._numbers) // _POINT

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(map(self.__getitem__, range(len(self))[at]))
        start = range(len(self))[at] * _POINT
        return IndexPoint._make(map(add, self._numbers[start : start + _POINT], self._base))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def parse_index(points: Sequence[Sequence[Any]]) -> Sequence[IndexPoint]:
    """Return the index of a stored entry; TypeError or ValueError when it is not one."""
    numbers = list(chain.from_iterable(points))
    if not set(map(type, numbers)) <= {int} or not set(map(len, points)) <= {_POINT}:
        raise TypeError("an index contains values that are not integers, or a wrong number")
    if numbers and not -LAST_OFFSET - 1 <= min(numbers) <= max(numbers) <= LAST_OFFSET:
        raise ValueError("an index contains invalid numbers")
    found = tuple(map(IndexPoint._make, points))
    return found if len(found) <= 1 else PackedIndex(found)


_POINT = len(IndexPoint._fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One data object in the log.

    Readers drop records outside of ``range``. Offsets in ``range`` that the object lacks are holes
    (aborted, compacted or control records), not gaps.
    """

    key: str
    partition_id: PartitionId
    topic_id: str
    range: OffsetRange
    records: int
    min_timestamp: int
    max_timestamp: int
    size_bytes: int
    raw_bytes: int
    """Bytes of the record batches before this object's own compression."""
    format: str
    codec: str
    sha256: str
    index: Sequence[IndexPoint] = ()
    aborted: tuple[OffsetRange, ...] = ()
    """Ranges of aborted batches that were kept on request."""
    view: str = "value"
    """The part of the records it holds: ``value``, ``keys``, ``headers`` or ``tombstones``."""
    parts: int = 1
    """How many objects share its range: files of several directories, keys and headers."""
    runs: OffsetRuns = NO_RUNS
    """Offsets of its rows, when they are not the whole range; left out when there are too many."""
    closed_by: str = ""
    """Why the object ends where it ends, for operators."""
    converter: str = ""
    """Short name of the Connect converter that produced its rows."""
    generation: int = 0
    """The generation of its topic; see archive/commit.py."""
    whole_end: int = 0
    """Where the object ends, when only a part of it counts; 0 when all of it counts."""
    whole_records: int = 0

    @property
    def is_cut(self) -> bool:
        """True if the object holds more than the range, because the topic was moved back."""
        return self.whole_end > 0

    @property
    def stored(self) -> Entry:
        """The entry of the whole object. Decoders read with it and drop the rest afterwards."""
        if not self.is_cut:
            return self
        return replace(
            self,
            range=OffsetRange(self.range.start, self.whole_end),
            records=self.whole_records,
            whole_end=0,
            whole_records=0,
        )

    @property
    def holes(self) -> int:
        """Offsets inside the range that this object does not hold."""
        return len(self.range) - self.records

    @property
    def own_records(self) -> int:
        """Its number of records; 0 for keys and headers, because their values are counted."""
        return self.records if self.view in ("value", "tombstones") else 0

    def to_json(self) -> dict[str, Any]:
        """Return the document form: docs/format.md describes each field."""
        topic, incarnation, partition = self.partition_id
        document: dict[str, Any] = {
            "key": self.key,
            "topic": topic,
            "topic_id": self.topic_id,
            "incarnation": incarnation,
            "partition": partition,
            "start": self.range.start,
            "end": self.range.end,
            "records": self.records,
            "holes": self.holes,
            "min_timestamp": self.min_timestamp,
            "max_timestamp": self.max_timestamp,
            "size_bytes": self.size_bytes,
            "raw_bytes": self.raw_bytes,
            "format": self.format,
            "codec": self.codec,
            "sha256": self.sha256,
        }
        if self.index:
            document["index"] = [list(point) for point in self.index]
        if self.aborted:
            document["aborted"] = [[r.start, r.end] for r in self.aborted]
        if self.runs:
            document["runs"] = self.runs.to_json()
        for name, default in _EXTRAS.items():
            if getattr(self, name) != default:
                document[name] = getattr(self, name)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Entry:
        """Rebuild an entry; KeyError, TypeError or ValueError when the document is not one."""
        numbers = [document[name] for name in _NUMBERS]
        texts = [document[name] for name in _TEXTS]
        if set(map(type, numbers)) != {int}:
            raise TypeError(f"expected integers, not {numbers!r:.200}")
        if set(map(type, texts)) != {str}:
            raise TypeError(f"expected strings, not {texts!r:.200}")
        incarnation, partition, start, end, records, low, high, size_bytes, raw_bytes = numbers
        key, *shared, sha256 = texts
        topic, topic_id, format_, codec = map(intern, shared)  # a restore keeps millions of entries
        extras = _extras(document)
        _check_numbers(numbers)
        _check_whole(extras, start, end, records)
        return cls(
            key=check_key(key),
            partition_id=PartitionId.checked(topic, incarnation, partition),
            topic_id=topic_id,
            range=OffsetRange(start, end),
            records=records,
            min_timestamp=low,
            max_timestamp=high,
            size_bytes=size_bytes,
            raw_bytes=raw_bytes,
            format=format_,
            codec=codec,
            sha256=sha256,
            index=parse_index(document["index"]) if "index" in document else (),
            aborted=tuple(OffsetRange(*pair) for pair in document.get("aborted", ())),
            runs=OffsetRuns.from_json(document["runs"]) if "runs" in document else NO_RUNS,
            **extras,
        )


_EXTRAS: Mapping[str, Any] = {
    "view": "value",
    "parts": 1,
    "closed_by": "",
    "converter": "",
    "generation": 0,
    "whole_end": 0,
    "whole_records": 0,
}


def _extras(document: Mapping[str, Any]) -> dict[str, Any]:
    extras = {name: document[name] for name in _EXTRAS if name in document}
    for name, value in extras.items():
        if type(value) is not type(_EXTRAS[name]):
            raise TypeError(f"{name} is {value!r:.200}")
    return extras


def _check_numbers(numbers: list[int]) -> None:
    """Raise ValueError for numbers that are impossible for an object."""
    _, _, start, end, records, *times, size_bytes, raw_bytes = numbers
    if max(numbers) > LAST_OFFSET or min(times) < -LAST_OFFSET - 1:
        raise ValueError(f"a number does not fit into 64 bits: {numbers!r:.200}")
    if min(size_bytes, raw_bytes) < 0 or not 0 <= records <= end - start:
        raise ValueError(f"{records} records in {end - start} offsets and {size_bytes} bytes")


def _check_whole(extras: Mapping[str, Any], start: int, end: int, records: int) -> None:
    """Raise ValueError for a cut object that holds less than the part that counts."""
    whole_end, whole = extras.get("whole_end", 0), extras.get("whole_records", 0)
    if whole_end and not (
        end <= whole_end <= LAST_OFFSET and records <= whole <= whole_end - start
    ):
        raise ValueError(f"{whole} records up to {whole_end}, of which {records} count up to {end}")
    if extras.get("parts", 1) < 1 or extras.get("generation", 0) < 0:
        raise ValueError(f"invalid parts or generation: {extras!r:.200}")


_NUMBERS = (
    "incarnation",
    "partition",
    "start",
    "end",
    "records",
    "min_timestamp",
    "max_timestamp",
    "size_bytes",
    "raw_bytes",
)
_TEXTS = ("key", "topic", "topic_id", "format", "codec", "sha256")
