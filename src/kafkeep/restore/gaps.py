"""What a restore cannot bring back of what it was asked for, as the log tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.reader import ArchiveView
from kafkeep.restore.plan import RestorePlan


def gaps_of(
    view: ArchiveView, plan: RestorePlan, *, everywhere: bool = False
) -> list[dict[str, Any]]:
    """Return what was never archived of the partitions and offsets that were picked.

    Nobody knows the times of lost records, so those count whatever times were. With ``everywhere``
    all of the topics' partitions count.
    """
    planned = {
        PartitionId(topic.source.topic, topic.source.incarnation, partition.partition): partition
        for topic in plan.topics
        for partition in topic.partitions
    }
    return [
        {
            "topic": gap.partition_id.topic,
            "partition": gap.partition_id.partition,
            "start": gap.range.start,
            "end": gap.range.end,
            "reason": gap.reason,
        }
        for gap in view.gaps
        if (partition := planned.get(gap.partition_id)) is not None
        and (
            everywhere or partition.ranges is None or any(map(gap.range.overlap, partition.ranges))
        )
    ]


def expired_gaps(
    plan: RestorePlan, gone: frozenset[str], reasons: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the offsets of objects that expired, as gaps; ``gone`` are these and companions."""
    found: dict[tuple[str, int, int, int], str] = {}
    for topic in plan.topics:
        for entry in topic.entries:
            if entry.key in gone:
                pid, offsets = entry.partition_id, entry.range
                place = (pid.topic, pid.partition, offsets.start, offsets.end)
                found[place] = reasons.get(entry.key) or found.get(place, "")
    return [
        {"topic": topic, "partition": number, "start": start, "end": end, "reason": why}
        for (topic, number, start, end), why in sorted(found.items())
    ]
