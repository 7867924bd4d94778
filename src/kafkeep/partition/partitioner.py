"""What a partitioner is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kafkeep.data.rows import Rows


@dataclass(frozen=True, slots=True)
class Placed:
    """Where records go: the directory of record ``i`` is ``paths[codes[i]]``.

    A directory is what stands between the topic and the file name, ``partition=0`` or
    ``year=2024/month=12``, written with ``/`` (the writer puts ``directory.delim`` in).
    """

    codes: NDArray[np.int32]
    paths: tuple[str, ...]
    times: NDArray[np.int64] | None
    """The time a record was placed by, in ms; None when time plays no part."""
    tombstones: int | None = None
    """Which of the paths is the folder of records without a value; None without one."""

    def take(self, rows: NDArray[np.int64]) -> Placed:
        """Return the same for some of the records."""
        times = None if self.times is None else self.times[rows]
        return replace(self, codes=self.codes[rows], times=times)


class Partitioner(Protocol):
    """Pure: the same rows and clock reading give the same directories."""

    def place(self, rows: Rows, *, at_ms: int) -> Placed:
        """Place records; ``at_ms`` is the clock reading of this cycle (Wallclock).

        RecordError when a record has no place; the caller then tries smaller pieces.
        """
