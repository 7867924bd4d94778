"""Where a log begins with partitions it has not met: at a group's offsets, or at an end. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.backup.look import Look
from kafkeep.backup.plan import Known, identify_topics

EARLIEST, LATEST = "earliest", "latest"


def first_positions(
    look: Look, known: Known, *, start_at: str, group: Mapping[tuple[str, int], int]
) -> dict[PartitionId, int]:
    """Return where partitions of topics begin that the log has not met, if not at their start.

    An offset of the group counts unless it lies behind the partition's end: then it is of a topic
    that was there before, under the same name.
    """
    infos = identify_topics(look, known.latest, known.folders)
    return {
        PartitionId(name, infos[name].incarnation, number): at
        for name, topic in look.topics.items()
        if _is_new(name, known.latest)
        for number, partition in enumerate(topic.partitions)
        if (at := _start(group.get((name, number)), partition.span.end, partition.stable, start_at))
        is not None
    }


def _is_new(topic: str, latest: Mapping[str, TopicInfo]) -> bool:
    return topic not in latest


def _start(committed: int | None, end: int, stable: int, start_at: str) -> int | None:
    if committed is not None and committed <= end:
        return committed
    return stable if start_at == LATEST else None


def taken_over(
    group: str, offsets: Mapping[tuple[str, int], int], starts: Mapping[PartitionId, int]
) -> str:
    """Return the note of the commit that takes over from a group; empty when none does."""
    taken = [p for p, at in starts.items() if offsets.get((p.topic, p.partition)) == at]
    if not taken:
        return ""
    return f"positions of {len(taken)} partitions taken over from group {group}"
