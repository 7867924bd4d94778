"""The different values of a column, and which of them each row has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

_SMALL_SPAN = 1 << 16


def find_distinct(values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different values in ascending order, and for each row its place among them.

    Values that lie close together, as times of one topic do, are not sorted: a table is filled.
    """
    if len(values) == 0:
        return values, np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= max(4 * len(values), _SMALL_SPAN):
        found, places = np.unique(values, return_inverse=True)
        return found, places.astype(np.int64, copy=False)
    steps = values - low
    present = np.zeros(high - low + 1, np.bool_)
    present[steps] = True
    places = np.cumsum(present, dtype=np.int64) - 1
    return np.flatnonzero(present) + low, places[steps]


def join_codes(
    first: Int64s, first_paths: Sequence[str], second: Int64s, second_paths: Sequence[str]
) -> tuple[Int64s, list[str]]:
    """Put the second path under the first one; only combinations that occur are made."""
    pairs, codes = find_distinct(first * len(second_paths) + second)
    joined = [
        f"{first_paths[pair // len(second_paths)]}/{second_paths[pair % len(second_paths)]}"
        for pair in pairs.tolist()
    ]
    return merge_equal(codes, joined)


def merge_equal(codes: Int64s, paths: list[str]) -> tuple[Int64s, list[str]]:
    """Return the same with each path once: a path that stood twice would be two directories."""
    places: dict[str, int] = {}
    renamed = [places.setdefault(path, len(places)) for path in paths]
    if len(places) == len(paths):
        return codes, paths
    return np.array(renamed, np.int64)[codes], list(places)
