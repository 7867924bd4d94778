"""Entries: the log's description of one data object.

Also the values that an entry is made of: partition, range of offsets, index points, and runs. Runs
say which offsets an object holds when it does not hold its whole range. A sink that spreads a
partition over a thousand directories has a run for almost every record, so they are stored in two
or three bytes each.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkeep.archive.names import check_key, check_topic_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_BITS, _MORE = 7, 0x80
_CONTINUED = bytes(range(_MORE, 256))


class OffsetRuns:
    """Half-open ranges of offsets, in order, with at least one offset between them.

    Stored as unsigned LEB128 numbers, from offset 0 on: offsets skipped, offsets held, and so on.
    Equal runs have equal bytes.
    """

    __slots__ = ("_packed",)

    def __init__(self, packed: bytes = b"") -> None:
        self._packed = packed

    @classmethod
    def of(cls, edges: Any) -> OffsetRuns:
        """Build runs from ``edges``: anything that makes an array with rows of start and end."""
        import numpy as np  # noqa: PLC0415

        flat = np.asarray(edges, dtype=np.int64).reshape(-1)
        numbers = np.diff(flat, prepend=np.int64(0))
        if np.any(numbers[1:] < 1) or np.any(numbers[:1] < 0):
            raise ValueError("runs of offsets do not ascend")
        return cls(_pack(numbers))

    @classmethod
    def from_json(cls, value: Any) -> OffsetRuns:
        """Parse the form in a document, which is a list of pairs in older ones, or ValueError."""
        if not isinstance(value, str):
            return cls.of(list(value))
        packed = base64.b64decode(value, validate=True)
        if len(packed.translate(None, _CONTINUED)) % 2 or packed[-1:] >= bytes([_MORE]):
            raise ValueError("runs of offsets are truncated")
        return cls(packed)

    def to_json(self) -> str:
        return base64.b64encode(self._packed).decode()

    def edges(self) -> NDArray[np.int64]:
        """Return an array with a row of start and end for each run."""
        return _unpack(self._packed).cumsum().reshape(-1, 2)

    def __bool__(self) -> bool:
        return bool(self._packed)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of each run."""
        yield from map(tuple, self.edges().tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRuns) and other._packed == self._packed

    def __hash__(self) -> int:
        return hash(self._packed)

    def __repr__(self) -> str:
        return f"Runs.of({self.edges().tolist()})"


NO_RUNS = OffsetRuns()


def _pack(numbers: NDArray[np.int64]) -> bytes:
    import numpy as np  # noqa: PLC0415

    sizes = np.ones(len(numbers), dtype=np.int64)
    for shift in range(_BITS, 63, _BITS):
        sizes += numbers >= 1 << shift
    starts = np.cumsum(sizes) - sizes
    packed = np.zeros(int(sizes.sum()), dtype=np.uint8)
    for place in range(int(sizes.max(initial=0))):
        has = sizes > place
        part = numbers[has] >> (_BITS * place) & (_MORE - 1)
        packed[starts[has] + place] = part | np.where(sizes[has] > place + 1, _MORE, 0)
    return packed.tobytes()


def _unpack(packed: bytes) -> NDArray[np.int64]:
    import numpy as np  # noqa: PLC0415

    view = np.frombuffer(packed, dtype=np.uint8)
    ends = np.flatnonzero(view < _MORE)
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[: len(ends)]
    numbers = np.zeros(len(ends), dtype=np.int64)
    for place in range(int((ends - starts).max(initial=-1)) + 1):
        has = ends - starts >= place
        part = view[starts[has] + place].astype(np.int64) & (_MORE - 1)
        numbers[has] |= part << (_BITS * place)
    return numbers


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
    """The index of a stored entry, in 40 bytes for each point; equal to a tuple of its points."""

    __slots__ = ("_numbers",)

    def __init__(self, points: Sequence[Sequence[Any]]) -> None:
        numbers = list(chain.from_iterable(points))
        if not set(map(type, numbers)) <= {int} or not set(map(len, points)) <= {_POINT}:
            raise TypeError("an index contains values that are not integers, or a wrong number")
        if numbers and not -LAST_OFFSET - 1 <= min(numbers) <= max(numbers) <= LAST_OFFSET:
            raise ValueError("an index contains invalid numbers")
        self._numbers = array("q", numbers)

    def __len__(self) -> int:
        return len(self._numbers) // _POINT

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(map(self.__getitem__, range(len(self))[at]))
        start = range(len(self))[at] * _POINT
        return IndexPoint._make(self._numbers[start : start + _POINT])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


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
            index=PackedIndex(document["index"]) if "index" in document else (),
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
