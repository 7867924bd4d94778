"""Runs: the offsets that an object holds when it does not hold its whole range.

A sink that spreads a partition over a thousand directories has a run for almost every record, so
they are stored in two or three bytes each.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
