"""Share target partitions out to tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kafkeep.restore.task import TargetWork


def pack_work(work: Iterable[TargetWork], *, bundles: int) -> list[tuple[TargetWork, ...]]:
    """Spread partitions over at most ``bundles`` tasks of even weight; each in one task only."""
    slots: list[list[TargetWork]] = [[] for _ in range(bundles)]
    weights = [0] * bundles
    for item in sorted(work, key=lambda w: (-w.est_bytes, w.topic, w.partition)):
        lightest = weights.index(min(weights))
        slots[lightest].append(item)
        weights[lightest] += item.est_bytes + 1
    return [tuple(slot) for slot in slots if slot]
