"""What a transform is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkeep.data.rows import Rows


class Transform(Protocol):
    """One step of a chain. Pure: rows in, rows out."""

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows that remain, in order, as pieces of one schema and topic each.

        RecordError when some record cannot be transformed: the caller then tries smaller pieces
        until it is known which one, so nothing may be remembered between calls.
        """


class Predicate(Protocol):
    """Chooses the records a transform is for."""

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""
