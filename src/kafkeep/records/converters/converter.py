"""The protocol of a converter, and what all converters share.

Keys and values of the same records are converted separately; ``iter_aligned`` puts them side by
side again. ``TopicSubject`` is the subject under which a registry has the schemas of a topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.records.schema import Column
from kafkeep.registry.client import Registry


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


Result = Column | RecordError


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
