"""Distribute work over tasks of even weight; pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pack_evenly(
    items: Sequence[T], bundles: int, weight: Callable[[T], int]
) -> list[tuple[T, ...]]:
    """Put each item into the lightest bundle so far, in the order given: the largest first.

    Returns at most ``bundles`` bundles, none of them empty. Takes n log n steps.
    """
    packed: list[list[T]] = [[] for _ in range(max(1, min(bundles, len(items))))]
    lightest = [(0, 0, index) for index in range(len(packed))]
    for item in items:
        weighs, count, index = lightest[0]
        packed[index].append(item)
        heapq.heapreplace(lightest, (weighs + weight(item), count + 1, index))
    return [tuple(members) for members in packed if members]
