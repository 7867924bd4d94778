"""The converter protocol, and the functions that all converters share.

Keys and values of the same records are converted separately. ``iter_aligned`` combines them again.
``TopicSubject`` is the registry subject that holds the schemas of a topic.

Messages with a registered schema start with a header: a zero byte and a schema id of four bytes.
Adjacent messages with one id are decoded together. A message that cannot be decoded does not affect
the others.
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
    """Adjacent records ``[start, stop)`` and their result: one column or one error.

    An error always covers a single record (``stop == start + 1``).
    """

    start: int
    stop: int
    result: Column | RecordError


class Converter(Protocol):
    """Converts keys or values of one topic.

    Each task opens its own converter. A converter can call a registry and cache its answers.
    """

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Decode ``values``; yield ranges in order that cover all values, as few as possible.

        Nulls stay null and join an adjacent range.
        """

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the bytes to produce for a column; raise RecordError if it cannot be encoded."""


@dataclass(frozen=True, slots=True)
class TopicSubject:
    """The subject of a topic's keys or values by TopicNameStrategy, such as ``orders-value``."""

    role: str
    topic: str | None

    @property
    def name(self) -> str:
        """The subject name; raises RecordError if the topic is unknown."""
        if self.topic is None:
            raise RecordError("the topic must be known to register schemas for it")
        return f"{self.topic}-{self.role}"

    def version(self, registry: Registry, schema_id: int) -> int | None:
        """Return the version of a schema id under this subject.

        If the id is registered only under other subjects, or the topic is unknown, return the
        version that all subjects of this id agree on. Return None if they differ.
        """
        versions = registry.versions(schema_id)
        if self.topic is not None and self.name in versions:
            return versions[self.name]
        return next(iter(versions.values())) if len(set(versions.values())) == 1 else None


def iter_aligned(
    keys: Sequence[ConvertedRange], values: Sequence[ConvertedRange], rows: int
) -> Iterator[tuple[int, int, Result, Result]]:
    """Yield ranges ``[start, stop)`` of one key schema and one value schema, with both results."""
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
        """The schema of the values, or None if they are JSON texts."""

    def decode(self, data: bytes) -> Any:
        """Return the value in the bytes after the id, as ``pa.array`` takes it.

        Or raise RecordError.
        """


@dataclass(frozen=True, slots=True)
class SchemaRun(Generic[K]):
    """Adjacent messages with the same header; ``key`` is None if the header is unreadable."""

    start: int
    stop: int
    key: K | None


def frame(schema_id: int, data: bytes) -> bytes:
    """Return the value with the schema id in front of it."""
    return b"\x00" + schema_id.to_bytes(4, "big") + data


def convert_framed(
    values: pa.BinaryArray,
    open_decoder: Callable[[K], Decoder],
    read_key: Callable[[bytes], K | None],
) -> Iterator[ConvertedRange]:
    """Decode messages; call ``open_decoder`` once for each run of one key."""
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
    """Yield runs in order that cover all rows; nulls belong to an adjacent run."""
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
    """Yield runs of one schema id like ``iter_runs``, but with array operations."""
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
    """Yield columns of decoded values, and a separate range for each RecordError."""
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
    """Return the schema id of a message, or None if it has none."""
    if len(row) < HEAD_BYTES or row[0] != 0:
        return None
    return int.from_bytes(row[1:HEAD_BYTES], "big")


def _decode(decoder: Decoder, data: bytes) -> Any:
    try:
        return decoder.decode(data[HEAD_BYTES:])
    except RecordError as error:
        return error


def unframed(data: bytes) -> RecordError:
    """Return the error for a message without a schema id."""
    return RecordError(
        f"a message of {len(data)} bytes beginning with {data[:HEAD_BYTES].hex() or 'nothing'} has "
        "no schema id in front",
        hint="Was it written by a serializer that uses a schema registry?",
    )


def failed_pieces(
    start: int, messages: pa.BinaryArray, why: Callable[[bytes], RecordError]
) -> Iterator[ConvertedRange]:
    """Yield an error for each message; nulls need no schema and do not fail."""
    return _failed(start, messages.to_pylist(), why)


def _same(error: RecordError, _: bytes) -> RecordError:
    return error


def _failed(
    start: int, messages: list[bytes | None], why: Callable[[bytes], RecordError]
) -> Iterator[ConvertedRange]:
    errors = [None if data is None else why(data) for data in messages]
    yield from build_pieces(start, errors, None)
