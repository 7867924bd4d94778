"""Share target partitions out to tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kafkeep.restore.task import TargetWork

LARGEST_BUNDLE_BYTES = 1 << 30
"""Up to here one task is best: its requests carry a batch for each of its partitions, and the
broker, which has more to do than we have, is asked less often."""
TASKS_PER_CORE = 3
"""A partition stays in one task: smaller tasks let the cores end at about the same time."""


def bundles_for(work: Iterable[TargetWork], cores: int) -> int:
    """Return how many tasks a restore is given."""
    total = sum(item.est_bytes for item in work)
    return max(1, min(cores * TASKS_PER_CORE, -(-total // LARGEST_BUNDLE_BYTES)))


def pack_work(work: Iterable[TargetWork], *, bundles: int) -> list[tuple[TargetWork, ...]]:
    """Spread partitions over at most ``bundles`` tasks of even weight; each in one task only."""
    slots: list[list[TargetWork]] = [[] for _ in range(bundles)]
    weights = [0] * bundles
    for item in sorted(work, key=lambda w: (-w.est_bytes, w.topic, w.partition)):
        lightest = weights.index(min(weights))
        slots[lightest].append(item)
        weights[lightest] += item.est_bytes + 1
    return [tuple(slot) for slot in slots if slot]
