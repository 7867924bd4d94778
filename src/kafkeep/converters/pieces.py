"""Keys and values of the same records, each converted in pieces of its own, side by side again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kafkeep.converters.converter import Piece
from kafkeep.data.column import Column
from kafkeep.errors import RecordError

Result = Column | RecordError


def iter_aligned(
    keys: Sequence[Piece], values: Sequence[Piece], rows: int
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


def _cut(piece: Piece, start: int, stop: int) -> Result:
    if isinstance(piece.result, RecordError):
        return piece.result
    return piece.result.slice(start - piece.start, stop - piece.start)
