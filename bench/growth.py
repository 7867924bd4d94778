"""What more records, and more partitions, cost."""

from __future__ import annotations

from functools import partial

from bench import topics
from bench.beside import Numbers
from bench.in_turn import MEMORY, TIMES, in_turn, limits, ratios, there_and_back
from bench.runs import delete
from kafkeep.dev import DevStatus

PARTITIONS = (3, 2_000)


def ten_times_the_records(status: DevStatus, records: int, repeat: int) -> Numbers:
    """Memory of a third of ``records``, and of ten times as many."""
    sizes = (records // 3, records // 3 * 10)
    names = {f"{size:,} records": f"bench-size-{size}" for size in sizes}
    for size, topic in zip(sizes, names.values(), strict=True):
        topics.create(status.bootstrap_servers, topic, 3)
        topics.fill(status.bootstrap_servers, topic, size, 3)
    ways = {name: partial(there_and_back, status, topic) for name, topic in names.items()}
    small, large = names
    measured = in_turn(ways, (repeat + 1) // 2)
    delete(status, *names.values())
    return ratios(measured, large, small, limits(MEMORY, 1.2))


def partitions_of_the_same_bytes(status: DevStatus, records: int, repeat: int) -> Numbers:
    """The same records, in batches of as many bytes, in 3 and in 2,000 partitions."""
    names = {f"{count:,} partitions": f"bench-partitions-{count}" for count in PARTITIONS}
    for count, topic in zip(PARTITIONS, names.values(), strict=True):
        topics.create(status.bootstrap_servers, topic, count)
        topics.fill(status.bootstrap_servers, topic, records, count, is_spread=False)
    ways = {name: partial(there_and_back, status, topic) for name, topic in names.items()}
    few, many = names
    measured = in_turn(ways, repeat)
    delete(status, *names.values())
    return ratios(measured, many, few, limits(TIMES, 2))
