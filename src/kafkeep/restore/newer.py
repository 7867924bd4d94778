"""What an archive has gained since a restore was done: the same command does not bring it. Pure."""

from __future__ import annotations

from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.view import ArchiveView
from kafkeep.check import Check, Verdict
from kafkeep.config.restore import RestoreOptions
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan

NEWER = "the archive has come further since this restore was done, and that is not restored"


def newer_topics(
    view: ArchiveView, newest: ArchiveView, plan: RestorePlan, options: RestoreOptions
) -> list[str]:
    """Return the targets that would get more of ``newest`` than of the view that was restored."""
    chosen, names = dict(options.incarnations), dict(options.topics)
    known = {topic.source.topic for topic in plan.topics}
    met_since = sorted({name for name, _ in newest.topics if options.wants(name)} - known)
    return [
        *(
            topic.target
            for topic in plan.topics
            if (topic.source.topic not in chosen and _is_made_again(topic, newest))
            or _has_more(topic, view, newest)
        ),
        *(names.get(name, name) for name in met_since),
    ]


def check_newer(topics: list[str]) -> list[Check]:
    """Warn of it before anything is done."""
    hint = "Delete the topic to restore it anew, or restore into another with --topics a:new-a."
    return [Check(Verdict.WARN, topic, NEWER, hint) for topic in topics]


def _is_made_again(topic: TopicPlan, newest: ArchiveView) -> bool:
    source = topic.source
    return any(n > source.incarnation for name, n in newest.topics if name == source.topic)


def _has_more(topic: TopicPlan, view: ArchiveView, newest: ArchiveView) -> bool:
    picked = {partition.partition: partition for partition in topic.partitions}
    all_wanted = not any(partition.cut for partition in topic.partitions)
    for pid, end in newest.positions.items():
        start = view.positions.get(pid, 0)
        if pid[:2] != (topic.source.topic, topic.source.incarnation) or end <= start:
            continue
        partition = picked.get(pid.partition)
        if all_wanted if partition is None else _wants(partition, OffsetRange(start, end)):
            return True
    return False


def _wants(partition: PartitionPlan, gained: OffsetRange) -> bool:
    if partition.times.until_ms is not None:
        return False  # what comes later is mostly not wanted
    return partition.ranges is None or any(map(gained.overlap, partition.ranges))
