"""Share target partitions out to tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kafkeep.restore.task import TargetWork

LARGEST_BUNDLE_BYTES = 1 << 30
"""Up to here one task is best: its requests carry a batch for each of its partitions, and the
broker, which has more to do than we have, is asked less often."""
HELD_BYTES = 2 << 20
LARGEST_HELD_BYTES = 64 << 20
"""A task holds the next batch of each of its partitions, and what it was made of, at once: about
three times as much as these are together, each counted with ``HELD_BYTES`` at most."""
TASKS_PER_CORE = 3
"""A partition stays in one task: smaller tasks let the cores end at about the same time."""


def bundles_for(work: Iterable[TargetWork], cores: int) -> int:
    """Return how many tasks a restore is given: as many as memory demands, at least."""
    sizes = [item.est_bytes for item in work]
    held = sum(min(size, HELD_BYTES) for size in sizes)
    by_size = min(cores * TASKS_PER_CORE, -(-sum(sizes) // LARGEST_BUNDLE_BYTES))
    return max(1, by_size, -(-held // LARGEST_HELD_BYTES))


def pack_work(work: Iterable[TargetWork], *, bundles: int) -> list[tuple[TargetWork, ...]]:
    """Spread partitions over at most ``bundles`` tasks of even weight; each in one task only."""
    slots: list[list[TargetWork]] = [[] for _ in range(bundles)]
    weights = [0] * bundles
    for item in sorted(work, key=lambda w: (-w.est_bytes, w.topic, w.partition)):
        lightest = weights.index(min(weights))
        slots[lightest].append(item)
        weights[lightest] += item.est_bytes + 1
    return [tuple(slot) for slot in slots if slot]


def pack_topics(work: Iterable[TargetWork], cores: int) -> list[tuple[TargetWork, ...]]:
    """Share out target partitions that are dealt out to: every task reads all of a topic.

    A topic is in one task, unless it is large: then in as many as there are cores at most.
    """
    topics: dict[str, list[TargetWork]] = {}
    for item in work:
        topics.setdefault(item.topic, []).append(item)
    packed: list[tuple[TargetWork, ...]] = []
    small: list[TargetWork] = []
    for members in topics.values():
        tasks = min(cores, len(members), bundles_for(members, cores))
        if tasks == 1:
            small += members
        else:
            packed += pack_work(members, bundles=tasks)
    return packed + _pack_small(small, cores)


def _pack_small(work: list[TargetWork], cores: int) -> list[tuple[TargetWork, ...]]:
    """Fill tasks with whole topics, one after the other."""
    packed: list[list[TargetWork]] = []
    room = max(1, sum(item.est_bytes for item in work) // max(1, bundles_for(work, cores)))
    filled = room
    for item in work:
        begins = not packed or packed[-1][-1].topic != item.topic
        if begins and filled >= room:
            packed.append([])
            filled = 0
        packed[-1].append(item)
        filled += item.est_bytes
    return [tuple(members) for members in packed]
