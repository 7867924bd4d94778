"""The protocol of a converter, and what all converters share.

Keys and values of the same records are converted separately; ``iter_aligned`` puts them side by
side again. ``TopicSubject`` is the subject under which a registry has the schemas of a topic.

Messages of a registry have a schema id in front: a zero byte, four bytes of id, then the value.
Neighbours of one id are decoded together. One message that cannot be decoded costs no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.records.arrow import view_data, view_offsets, view_valid
from kafkeep.records.schema import Column, Schema, arrow_type
from kafkeep.registry.client import Registry

K = TypeVar("K")
HEAD_BYTES = 5
Result = Column | RecordError


@dataclass(frozen=True, slots=True)
class ConvertedRange:
    """Neighbouring records ``[start, stop)`` and what became of them: one column, or one error.

    An error stands for one record alone (``stop == start + 1``).
    """

    start: int
    stop: int
    result: Column | RecordError


class Converter(Protocol):
    """Keys or values of one topic. Opened in a task; may ask a registry and remember."""

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Decode ``values``: pieces in order that cover all of them, as few as there can be.

        Nulls stay null and join any neighbour.
        """

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the bytes to produce for a column; RecordError when it has no such form."""


@dataclass(frozen=True, slots=True)
class TopicSubject:
    """Keys or values of one topic, by the usual rule: ``orders-value``."""

    role: str
    topic: str | None

    @property
    def name(self) -> str:
        """The subject's name; RecordError when the topic is not known."""
        if self.topic is None:
            raise RecordError("the topic must be known to register schemas for it")
        return f"{self.topic}-{self.role}"

    def version(self, registry: Registry, schema_id: int) -> int | None:
        """Return the version an id has under this subject.

        Under another subject (records named by their type, a topic that is not known) it counts
        when all that have this id agree.
        """
        versions = registry.versions(schema_id)
        if self.topic is not None and self.name in versions:
            return versions[self.name]
        return next(iter(versions.values())) if len(set(versions.values())) == 1 else None


def iter_aligned(
    keys: Sequence[ConvertedRange], values: Sequence[ConvertedRange], rows: int
) -> Iterator[tuple[int, int, Result, Result]]:
    """Yield stretches ``[start, stop)`` of one schema on either side, with keys and values."""
    edges = sorted({piece.start for piece in (*keys, *values)} | {rows})
    left, right = iter(keys), iter(values)
    key, value = next(left, None), next(right, None)
    for start, stop in pairwise(edges):
        while key is not None and key.stop <= start:
            key = next(left)
        while value is not None and value.stop <= start:
            value = next(right)
        assert key is not None and value is not None
        yield start, stop, _cut(key, start, stop), _cut(value, start, stop)


def _cut(piece: ConvertedRange, start: int, stop: int) -> Result:
    if isinstance(piece.result, RecordError):
        return piece.result
    return piece.result.slice(start - piece.start, stop - piece.start)


class Decoder(Protocol):
    """Decodes messages of one schema id."""

    @property
    def schema(self) -> Schema | None:
        """What its values have; None when they are JSON texts."""

    def decode(self, data: bytes) -> Any:
        """Return a value as ``pa.array`` takes it, of the bytes behind the id; or RecordError."""


@dataclass(frozen=True, slots=True)
class SchemaRun(Generic[K]):
    """Neighbours with the same thing in front; ``key`` is None when it cannot be read."""

    start: int
    stop: int
    key: K | None


def frame(schema_id: int, data: bytes) -> bytes:
    """Put an id in front of a value."""
    return b"\x00" + schema_id.to_bytes(4, "big") + data


def convert_framed(
    values: pa.BinaryArray,
    open_decoder: Callable[[K], Decoder],
    read_key: Callable[[bytes], K | None],
) -> Iterator[ConvertedRange]:
    """Decode messages; ``open_decoder`` is asked once for each run of one key."""
    rows = values.to_pylist()
    for run in iter_runs(rows, read_key):
        messages = rows[run.start : run.stop]
        if run.key is None:
            yield from _failed(run.start, messages, unframed)
            continue
        try:
            decoder = open_decoder(run.key)
        except RecordError as error:
            yield from _failed(run.start, messages, partial(_same, error))
            continue
        decoded = [None if data is None else _decode(decoder, data) for data in messages]
        yield from build_pieces(run.start, decoded, decoder.schema)


def iter_runs(
    rows: list[bytes | None], read_key: Callable[[bytes], K | None]
) -> Iterator[SchemaRun[K]]:
    """Yield runs in order that cover all rows; nulls go with what is in front of or after them."""
    start, seen = 0, False
    current: K | None = None
    for i, row in enumerate(rows):
        if row is None:
            continue
        found = read_key(row)
        if seen and found != current:
            yield SchemaRun(start, i, current)
            start = i
        seen, current = True, found
    if rows:
        yield SchemaRun(start, len(rows), current)


def iter_runs_of(values: pa.BinaryArray) -> Iterator[SchemaRun[int]]:
    """Yield runs of one schema id, as ``iter_runs`` does, without a look at single rows."""
    rows = len(values)
    if rows == 0:
        return
    offsets, data = view_offsets(values).astype(np.int64), view_data(values)
    valid = view_valid(values)
    present = np.arange(rows) if valid is None else np.flatnonzero(valid)
    starts, lengths = offsets[present], np.diff(offsets)[present]
    ids = np.full(len(present), -1, dtype=np.int64)
    whole = np.flatnonzero(lengths >= HEAD_BYTES)
    whole = whole[data[starts[whole]] == 0]
    ids[whole] = 0
    for i in range(1, HEAD_BYTES):
        ids[whole] = ids[whole] << 8 | data[starts[whole] + i]
    changes = np.flatnonzero(np.diff(ids)) + 1
    begins = [0, *present[changes].tolist(), rows]
    firsts = [0, *changes.tolist()]
    for i, first in enumerate(firsts):
        found = int(ids[first]) if len(ids) else -1
        yield SchemaRun(begins[i], begins[i + 1], None if found < 0 else found)


def build_pieces(start: int, decoded: list[Any], schema: Schema | None) -> Iterator[ConvertedRange]:
    """Make columns of decoded values; those that are a RecordError stand alone."""
    first = 0
    for i, value in enumerate(decoded):
        if isinstance(value, RecordError):
            yield from _columns(start + first, decoded[first:i], schema)
            yield ConvertedRange(start + i, start + i + 1, value)
            first = i + 1
    yield from _columns(start + first, decoded[first:], schema)


def _columns(start: int, values: list[Any], schema: Schema | None) -> Iterator[ConvertedRange]:
    if not values:
        return
    kind = pa.binary() if schema is None else arrow_type(schema)
    try:
        column = Column(schema, pa.array(values, kind))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        if len(values) == 1:
            wrong = RecordError(f"a value does not fit its schema: {error}")
            yield ConvertedRange(start, start + 1, wrong)
            return
        middle = len(values) // 2
        yield from _columns(start, values[:middle], schema)
        yield from _columns(start + middle, values[middle:], schema)
        return
    yield ConvertedRange(start, start + len(values), column)


def read_schema_id(row: bytes) -> int | None:
    """Return the id in front of a message, or None."""
    if len(row) < HEAD_BYTES or row[0] != 0:
        return None
    return int.from_bytes(row[1:HEAD_BYTES], "big")


def _decode(decoder: Decoder, data: bytes) -> Any:
    try:
        return decoder.decode(data[HEAD_BYTES:])
    except RecordError as error:
        return error


def unframed(data: bytes) -> RecordError:
    """Return the error for a message without an id."""
    return RecordError(
        f"a message of {len(data)} bytes beginning with {data[:HEAD_BYTES].hex() or 'nothing'} has "
        "no schema id in front",
        hint="Was it written by a serializer that uses a schema registry?",
    )


def failed_pieces(
    start: int, messages: pa.BinaryArray, why: Callable[[bytes], RecordError]
) -> Iterator[ConvertedRange]:
    """Give an error for each message; nulls have no schema and are fine."""
    return _failed(start, messages.to_pylist(), why)


def _same(error: RecordError, _: bytes) -> RecordError:
    return error


def _failed(
    start: int, messages: list[bytes | None], why: Callable[[bytes], RecordError]
) -> Iterator[ConvertedRange]:
    errors = [None if data is None else why(data) for data in messages]
    yield from build_pieces(start, errors, None)
