"""Slips in what was asked for, found while a restore is planned. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkeep.archive.names import check_topic_name
from kafkeep.config.restore import RestoreOptions
from kafkeep.errors import UsageError

if TYPE_CHECKING:  # plan.py calls this while it plans
    from kafkeep.restore.plan import TopicPlan


def check_picks(topics: Sequence[TopicPlan], options: RestoreOptions) -> None:
    """Refuse what picks nothing at all: it is a slip, and would restore less than was meant."""
    counts = {topic.source.topic: len(topic.partitions) for topic in topics}
    for name in {name for name, _ in options.incarnations} | {p.topic for p in options.offsets}:
        if name not in counts:
            raise UsageError(f"topic {name} is not among those to restore")
    for pick in options.offsets:
        if pick.partition >= counts[pick.topic]:
            raise UsageError(f"topic {pick.topic} has no partition {pick.partition}")
    for number in options.partitions:
        if number >= max(counts.values(), default=0):
            raise UsageError(f"no topic to restore has a partition {number}")
    if options.partition_map:
        _check_map(topics, dict(options.partition_map))


def _check_map(topics: Sequence[TopicPlan], chosen: Mapping[int, int]) -> None:
    """Refuse a map that leaves out what is to be restored, or names what is not there."""
    for topic in topics:
        wanted = [p.partition for p in topic.partitions if p.ranges != ()]
        for number in wanted:
            if number not in chosen:
                raise UsageError(
                    f"partition-map does not say where {topic.source.topic}-{number} goes",
                    hint="Name every partition, or leave some out with --partitions.",
                )
    there = {p.partition for topic in topics for p in topic.partitions}
    for number in chosen:
        if number not in there:
            raise UsageError(f"partition-map names {number}, which no topic to restore has")


def check_target(name: str) -> None:
    """Refuse a name that Kafka would refuse."""
    try:
        check_topic_name(name)
    except ValueError as error:
        raise UsageError(
            f"{name!r} cannot be a topic's name",
            hint="Kafka takes letters, digits, dots, underscores and dashes, 249 at most.",
        ) from error
