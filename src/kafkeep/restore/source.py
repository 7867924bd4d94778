"""The source of a restore's entries: the protocol, and its implementation by a commit log.

It chooses the log, loads a commit, and checks the objects that it names. ``listing_source.py``
lists a bucket that has no log. The rest of a restore is the same for both. On the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from typing import Any, Protocol

from kafkeep.archive.document import read_intact
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.expiry import Expiry, iter_stored
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, load_view, load_views
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.objects.choose_log import choose_logs, choose_view, what_is_missing
from kafkeep.objects.prefetch import open_object
from kafkeep.objects.segment.reader import lost_ranges, salvage_segment
from kafkeep.objects.sink.read_windows import SEGMENT
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.plan import (
    ArchiveContents,
    ArchivedTopic,
    PartitionPlan,
    RestorePlan,
    TopicPlan,
    choose_topics,
)
from kafkeep.restore.preflight import TargetSnapshot


@dataclass(frozen=True, slots=True)
class ObjectCheck:
    """Which objects of a plan can be restored."""

    plan: RestorePlan
    """The plan without the objects that are left out."""
    lost: frozenset[str] = frozenset()
    """Objects that are left out, whole or in part, because they are missing or damaged."""
    lost_offsets: tuple[dict[str, Any], ...] = ()
    """The offsets they held, in order, if known."""
    gaps: tuple[dict[str, Any], ...] = ()
    """Offsets of objects that a retention rule removed."""
    failures: tuple[Check, ...] = ()
    """Reasons why the restore must not start."""


class EntrySource(Protocol):
    """The source of the entries of one restore."""

    def log_name(self) -> str:
        """Return the name of the log; a listing is named after its options."""

    def load(self, id: str, resumed: RestoreDocument | None) -> ArchiveView:
        """Return the entries to choose from.

        ``resumed`` is the document of an earlier run of the restore ``id``: the entries are then
        those of the earlier run.
        """

    def read_options(self, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
        """Return the options for reading the planned objects."""

    def newer_targets(self, view: ArchiveView, plan: RestorePlan) -> list[str]:
        """Return the targets that would get more records if the restore started now."""

    def check_objects(self, view: ArchiveView, plan: RestorePlan) -> ObjectCheck:
        """Check that the planned objects exist; DamagedError if a log names a missing one."""

    def check_contents(
        self, plan: RestorePlan, reading: ReadOptions, target: TargetSnapshot
    ) -> list[Check]:
        """Return a warning for everything that the objects do not hold of their records."""

    def save_selection(self, documents: ObjectStore, id: str) -> None:
        """Store which objects are restored, before the first record is written.

        A run that resumes then restores the same objects. Safe to repeat.
        """


def load_contents(view: ArchiveView, options: RestoreOptions) -> ArchiveContents:
    """Read the entries of the selected topics; NoSuchArchiveError when there is no such topic."""
    chosen = choose_topics(view.topics, options)
    found = view.entries_by_topic((info.topic, info.incarnation) for info, _ in chosen)
    topics = []
    for info, target in chosen:
        entries = found[info.topic, info.incarnation]
        ends = {}
        for number in {*range(info.partitions), *entries}:
            pid = PartitionId(info.topic, info.incarnation, number)
            span = view.spans.get(pid)
            ends[number] = max(view.positions.get(pid, 0), span.end if span else 0)
        topics.append(ArchivedTopic(info, target, entries, ends))
    return ArchiveContents(view.name, view.commit, tuple(topics))


def choose_log(store: ObjectStore, options: RestoreOptions) -> str:
    """Return the log to read: the named one, the only one, or the one with the fewest losses."""
    logs = choose_logs(store, options.name, commit=options.commit)
    if len(logs) == 1:
        return logs[0]
    views = load_views(store, logs, options.at_ms)
    topics = {source for source, _ in options.topics}
    if options.topics_regex is not None:
        topics = {name for view in views for name, _ in view.topics if options.wants(name)}
    return choose_view(views, topics or None).name


@dataclass(kw_only=True)
class LogSource:
    """The entries of one commit of a log; see ``EntrySource``."""

    store: ObjectStore
    options: RestoreOptions
    now_ms: Callable[[], int]
    newest: ArchiveView | None = None
    """The newest commit of the log that the options name, if it is loaded."""
    _log: str | None = None

    def log_name(self) -> str:
        """Return the log that the options name, or the one with the fewest losses."""
        if self.newest is not None:
            return self.newest.name
        if self._log is None:
            self._log = choose_log(self.store, self.options)
        return self._log

    def load(self, id: str, resumed: RestoreDocument | None) -> ArchiveView:
        """Load the commit of the options, that of an earlier run, or the newest."""
        commit = self.options.commit
        if resumed is not None and self._wants_newest:
            commit = resumed.commit
        if self.newest is not None and self._wants_newest and resumed is None:
            return self.newest
        return load_view(self.store, self.log_name(), commit=commit, at_ms=self.options.at_ms)

    def read_options(self, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
        """Return the options that wrote the log's objects; segments need none."""
        has_rows = any(topic.formats - {SEGMENT} for topic in plan.topics)
        return load_read_options(self.store, view) if has_rows else NO_OPTIONS

    def newer_targets(self, view: ArchiveView, plan: RestorePlan) -> list[str]:
        """Compare with the newest commit, unless the options name one."""
        if not self._wants_newest:
            return []
        return newer_topics(view, load_view(self.store, view.name), plan, self.options)

    def check_objects(self, view: ArchiveView, plan: RestorePlan) -> ObjectCheck:
        """Compare the stored objects with the log.

        DamagedError if an object is missing or truncated, unless the options allow that. With
        ``allow_missing`` every object is read, and what is damaged is left out.
        """
        expiry = Expiry(self.store, view, self.now_ms())
        lost, expired = find_missing(self.store, plan, expiry)
        gone = plan.with_companions(frozenset(expired))
        gaps = tuple(expired_gaps(plan, gone, expired))
        plan = plan.without(gone)
        if self.options.allow_missing:
            return replace(leave_out_damage(self.store, plan), gaps=gaps)
        if lost:
            raise DamagedError(
                f"{min(lost)}: the object is missing or truncated ({len(lost)} in total)",
                hint="Add --allow-missing to restore without it.",
            )
        return ObjectCheck(plan, gaps=gaps)

    def check_contents(
        self,
        plan: RestorePlan,
        reading: ReadOptions,
        target: TargetSnapshot,
    ) -> list[Check]:
        """Return what the formats of the objects do not hold."""
        return [
            Check(CheckStatus.WARN, topic.target, sentence)
            for topic in plan.topics
            if topic.formats - {SEGMENT}
            for sentence in what_is_missing(
                topic.entries, replace(reading, asked=topic.routing.changes)
            )
        ]

    def save_selection(self, documents: ObjectStore, id: str) -> None:
        """Do nothing: the restore's document names the commit, and commits never change."""

    @property
    def _wants_newest(self) -> bool:
        return self.options.commit is None and self.options.at_ms is None


def find_missing(
    store: ObjectStore, plan: RestorePlan, expiry: Expiry
) -> tuple[frozenset[str], dict[str, str]]:
    """Compare the planned objects in the store with the log.

    Returns the objects that are missing or truncated, and separately those that a retention rule
    may have deleted, with the reason.
    """
    lost: set[str] = set()
    expired: dict[str, str] = {}
    for topic in plan.topics:
        missing = dict(chain.from_iterable(p.entries.iter_sizes() for p in topic.partitions))
        for info in iter_stored(store, missing.keys(), among=topic.archived_objects):
            if missing.pop(info.key) != info.size_bytes:
                lost.add(info.key)
        lost |= missing.keys()
        for entry in topic.entries if missing else ():
            reason = expiry.reason(entry) if entry.key in missing else None
            if reason is not None:
                expired[entry.key] = reason
    return frozenset(lost - expired.keys()), expired


def leave_out_damage(store: ObjectStore, plan: RestorePlan) -> ObjectCheck:
    """Read every object and leave out what is damaged.

    The intact frames of a damaged segment are restored; any other damaged object is left out.
    """
    parts = _find_damaged(store, plan)
    gone = plan.with_companions(frozenset(key for key, intact in parts.items() if not intact))
    kept = {**parts, **dict.fromkeys(gone, ())}
    lost = tuple(
        _describe_loss(entry, range)
        for topic in plan.topics
        for entry in topic.entries
        if entry.key in kept
        for range in lost_ranges(entry, kept[entry.key])
    )
    return ObjectCheck(plan.with_parts(kept), frozenset(kept), lost)


def _find_damaged(store: ObjectStore, plan: RestorePlan) -> dict[str, tuple[Entry, ...]]:
    """Return the objects that differ from the log, with their readable parts."""
    found = {}
    for entry in (entry for topic in plan.topics for entry in topic.entries):
        try:
            with open_object(store, entry):
                pass
        except DamagedError:
            found[entry.key] = _intact_parts(store, entry)
    return found


def _intact_parts(store: ObjectStore, entry: Entry) -> tuple[Entry, ...]:
    try:
        data = read_intact(store, entry.key, lambda body: sha256(body).hexdigest() == entry.sha256)
        return salvage_segment(data, entry)
    except KeyMissingError:
        return ()


def _describe_loss(entry: Entry, lost: OffsetRange) -> dict[str, Any]:
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
    """Return the offsets that were never archived, of the selected partitions and offsets. Pure.

    The times of lost records are unknown, so a selection by time leaves out no gap. With
    ``everywhere`` all partitions of the topics count.
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
    """Return the offsets of expired objects as gaps; ``gone`` are these and companions. Pure."""
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


def newer_topics(
    view: ArchiveView, newest: ArchiveView, plan: RestorePlan, options: RestoreOptions
) -> list[str]:
    """Return the targets that would get more of ``newest`` than of the restored view. Pure."""
    chosen, names = dict(options.incarnations), dict(options.topics)
    known = {topic.source.topic for topic in plan.topics}
    appeared = sorted({name for name, _ in newest.topics if options.wants(name)} - known)
    return [
        *(
            topic.target
            for topic in plan.topics
            if (topic.source.topic not in chosen and _is_recreated(topic, newest))
            or _has_more(topic, view, newest)
        ),
        *(names.get(name, name) for name in appeared),
    ]


def _is_recreated(topic: TopicPlan, newest: ArchiveView) -> bool:
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
        return False  # the selection has an end: later offsets are mostly outside
    return partition.ranges is None or any(map(gained.overlap, partition.ranges))
