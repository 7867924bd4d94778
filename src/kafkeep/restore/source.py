"""What an archive has gained since a restore was done: the same command does not bring it. Pure.

What a restore reads: the log it chooses, and which of its objects are sound. On the driver.

What a restore cannot bring back of what it was asked for, as the log tells it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kafkeep.archive.document import read_intact
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, load_views
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import DamagedError, KeyMissingError, NoSuchArchiveError
from kafkeep.objects.choose_log import choose_logs, choose_view
from kafkeep.objects.prefetch import open_object
from kafkeep.objects.segment.reader import lost_ranges, salvage_segment
from kafkeep.objects.sink.read_windows import SEGMENT
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan


def no_archive(store: ObjectStore) -> NoSuchArchiveError:
    """Return the error for an address where nothing is."""
    return NoSuchArchiveError(
        f"there is no archive at {store.describe()}",
        hint="Check the address; kafkeep backup makes one.",
    )


def choose_log(store: ObjectStore, options: RestoreOptions) -> str:
    """Return the log to read: the one named, the only one, or the one that loses least."""
    logs = choose_logs(store, options.name, commit=options.commit)
    if len(logs) == 1:
        return logs[0]
    views = load_views(store, logs, options.at_ms)
    topics = {source for source, _ in options.topics}
    if options.topics_regex is not None:
        topics = {name for view in views for name, _ in view.topics if options.wants(name)}
    return choose_view(views, topics or None).name


def read_options(store: ObjectStore, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
    """Return how the log's objects were made; segments need not be told."""
    formats = {entry.format for topic in plan.topics for entry in topic.entries}
    return load_read_options(store, view) if formats - {SEGMENT} else NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a plan whose objects are not all there and sound."""

    plan: RestorePlan
    damaged: frozenset[str]
    """Objects of which something is left out."""
    lost: tuple[dict[str, Any], ...]
    """The offsets that are, in order."""


def leave_out_damage(store: ObjectStore, plan: RestorePlan) -> Left:
    """Read every object and leave out what cannot be read: only asked for with ``--allow-missing``.

    Of a segment the sound frames are restored, of any other object nothing.
    """
    parts = _find_damaged(store, plan)
    gone = plan.with_companions(frozenset(key for key, sound in parts.items() if not sound))
    left = {**parts, **dict.fromkeys(gone, ())}
    lost = tuple(
        _told(entry, range)
        for topic in plan.topics
        for entry in topic.entries
        if entry.key in left
        for range in lost_ranges(entry, left[entry.key])
    )
    return Left(plan.with_parts(left), frozenset(left), lost)


def _find_damaged(store: ObjectStore, plan: RestorePlan) -> dict[str, tuple[Entry, ...]]:
    """Return the objects that are not as they were, with what can be read of them."""
    found = {}
    for entry in (entry for topic in plan.topics for entry in topic.entries):
        try:
            with open_object(store, entry):
                pass
        except DamagedError:
            found[entry.key] = _sound_parts(store, entry)
    return found


def _sound_parts(store: ObjectStore, entry: Entry) -> tuple[Entry, ...]:
    try:
        data = read_intact(store, entry.key, lambda body: sha256(body).hexdigest() == entry.sha256)
        return salvage_segment(data, entry)
    except KeyMissingError:
        return ()


def _told(entry: Entry, lost: OffsetRange) -> dict[str, Any]:
    topic, incarnation, partition = entry.partition_id
    return {
        "key": entry.key,
        "topic": topic,
        "incarnation": incarnation,
        "partition": partition,
        "start": lost.start,
        "end": lost.end,
    }


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
    return [Check(CheckStatus.WARN, topic, NEWER, hint) for topic in topics]


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
