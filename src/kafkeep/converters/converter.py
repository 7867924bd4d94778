"""What a converter is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from kafkeep.data.column import Column
from kafkeep.errors import RecordError


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring records ``[start, stop)`` and what became of them: one column, or one error.

    An error stands for one record alone (``stop == start + 1``).
    """

    start: int
    stop: int
    result: Column | RecordError


class Converter(Protocol):
    """Keys or values of one topic. Opened in a task; may ask a registry and remember."""

    def convert(self, values: pa.BinaryArray) -> Iterator[Piece]:
        """Decode ``values``: pieces in order that cover all of them, as few as there can be.

        Nulls stay null and join any neighbour.
        """

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the bytes to produce for a column; RecordError when it has no such form."""
