"""What more records, and more partitions, cost."""

from __future__ import annotations

import statistics
from functools import partial

from bench import topics
from bench.beside import Numbers
from bench.floors import put_floor, topic_floor
from bench.in_turn import MEMORY, in_turn, limits, ratios, there_and_back
from bench.runs import backup, delete, new_archive
from kafkeep.dev import DevStatus

PARTITIONS = (3, 2_000)


def ten_times_the_records(status: DevStatus, records: int, repeat: int) -> Numbers:
    """Memory of a third of ``records``, and of ten times as many.

    Their values compress to a quarter: objects of the smaller size fill a writer's buffers, too.
    """
    sizes = (records // 3, records // 3 * 10)
    names = {f"{size:,} records": f"bench-size-{size}" for size in sizes}
    for size, topic in zip(sizes, names.values(), strict=True):
        topics.create(status.bootstrap_servers, topic, 3)
        topics.fill(status.bootstrap_servers, topic, size, 3, is_varied=True)
    ways = {name: partial(there_and_back, status, topic) for name, topic in names.items()}
    small, large = names
    measured = in_turn(ways, (repeat + 1) // 2)
    delete(status, *names.values())
    return ratios(measured, large, small, limits(MEMORY, 1.2))


def partitions_of_the_same_bytes(status: DevStatus, records: int, repeat: int) -> Numbers:
    """The same records, in batches of as many bytes, in 3 and in 2,000 partitions.

    The floors are what the services need for 2,000 objects of the size of the backup's, and for a
    topic of 2,000 partitions, without kafkeep.
    """
    names = {f"{count:,} partitions": f"bench-partitions-{count}" for count in PARTITIONS}
    for count, topic in zip(PARTITIONS, names.values(), strict=True):
        topics.create(status.bootstrap_servers, topic, count)
        topics.fill(status.bootstrap_servers, topic, records, count, is_spread=False)
    ways = {name: partial(there_and_back, status, topic) for name, topic in names.items()}
    few, many = names
    stored = backup(status, names[many], new_archive(status)).summary
    floors = {
        f"{PARTITIONS[-1]:,} bare PUTs": partial(
            put_floor, status, stored["objects"], stored["stored_bytes"] // stored["objects"]
        ),
        f"bare creation of {many}": partial(topic_floor, status, PARTITIONS[-1]),
    }
    ways["floors"] = lambda: {f"{name}, seconds": take() for name, take in floors.items()}
    measured = in_turn(ways, repeat)
    delete(status, *names.values())
    taken = [one["floors"] for one in measured]
    return {
        **ratios(measured, many, few, limits(["wall"], 2) | limits(["seconds"], None)),
        **{name: statistics.median(one[name] for one in taken) for name in taken[0]},
    }
