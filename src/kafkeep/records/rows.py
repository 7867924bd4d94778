"""``Rows``: a batch of records of one partition with one key schema and one value schema; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.records.arrow import number_array, view_offsets
from kafkeep.records.schema import Column

NO_TIMESTAMP = -1
"""The timestamp of a record that has none."""
HEADERS_TYPE = pa.list_(
    pa.struct([pa.field("key", pa.binary(), nullable=False), ("value", pa.binary())])
)
"""Kafka's headers, unchanged: order, repeated keys, null values and bytes are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Records of one topic partition in offset order, with one key schema and one value schema.

    ``topic`` is the target topic, which a router can change. The offsets are those of the source.
    """

    topic: str
    partition: int
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    """Kafka timestamps in milliseconds; any int64 is possible."""
    key: Column
    value: Column
    headers: pa.ListArray

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, start: int, stop: int) -> Rows:
        """Return the rows from ``start`` up to ``stop`` without copying."""
        return replace(
            self,
            offsets=self.offsets[start:stop],
            timestamps=self.timestamps[start:stop],
            key=self.key.slice(start, stop),
            value=self.value.slice(start, stop),
            headers=self.headers.slice(start, stop - start),
        )

    def take(self, indices: NDArray[np.int64]) -> Rows:
        """Return the rows at ``indices``, in that order."""
        wanted = number_array(pa.int64(), indices)
        return replace(
            self,
            offsets=self.offsets[indices],
            timestamps=self.timestamps[indices],
            key=self.key.take(wanted),
            value=self.value.take(wanted),
            headers=self.headers.take(wanted),
        )


def weigh_records(keys: pa.Array, values: pa.Array, headers: pa.ListArray) -> NDArray[np.int64]:
    """Return the size of each record in bytes: its key, value and headers."""
    return np.diff(pile_records(keys, values, headers), prepend=0)


def pile_records(keys: pa.Array, values: pa.Array, headers: pa.ListArray) -> NDArray[np.int64]:
    """Return the cumulative size in bytes at the end of each record."""
    edges = [view_offsets(values), view_offsets(keys)]
    if len(headers.values):
        lists = view_offsets(headers)
        edges += [view_offsets(headers.values.field(name))[lists] for name in ("key", "value")]
    total: NDArray[np.int64] = edges[0][1:].astype(np.int64)
    for part in edges[1:]:
        total += part[1:]
    total -= sum(int(part[0]) for part in edges)
    return total
