"""What a restore reads: the log it chooses, and which of its objects are sound. On the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from kafkeep.archive.reader import ArchiveView, list_logs, load_views
from kafkeep.archive.store import ObjectStore
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.choice import choose_view
from kafkeep.contents.options import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.contents.windows import SEGMENT
from kafkeep.errors import KeyMissingError, NoSuchArchiveError, PreflightError
from kafkeep.restore.plan import RestorePlan


def no_archive(store: ObjectStore) -> NoSuchArchiveError:
    """Return the error for an address where nothing is."""
    return NoSuchArchiveError(
        f"there is no archive at {store.describe()}",
        hint="Check the address; kafkeep backup makes one.",
    )


def choose_log(store: ObjectStore, options: RestoreOptions) -> str:
    """Return the log to read: the one named, the only one, or the one that loses least."""
    logs, name = list_logs(store), options.name
    if not logs:
        raise no_archive(store)
    if name is not None:
        if name not in logs:
            raise NoSuchArchiveError(
                f"{store.describe()} has no log named {name}", hint=f"It has: {', '.join(logs)}."
            )
        return name
    if len(logs) > 1 and options.commit is not None:
        raise PreflightError(
            f"{store.describe()} has several logs, and a commit is of one: {', '.join(logs)}",
            hint="Choose one with --name.",
        )
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


def damaged_objects(
    store: ObjectStore, plan: RestorePlan, missing: frozenset[str]
) -> frozenset[str]:
    """Read every object and compare digests: only asked for with ``--allow-missing``."""
    bad = set()
    for topic in plan.topics:
        for entry in topic.entries:
            if entry.key in missing:
                continue
            try:
                digest = hashlib.sha256(store.get(entry.key)).hexdigest()
            except KeyMissingError:
                digest = ""
            if digest != entry.sha256:
                bad.add(entry.key)
    return frozenset(bad)


def gaps_of(view: ArchiveView, plan: RestorePlan) -> list[dict[str, Any]]:
    """Return what was never archived of the topics to restore."""
    chosen = {(topic.source.topic, topic.source.incarnation) for topic in plan.topics}
    return [
        {
            "topic": gap.partition_id.topic,
            "partition": gap.partition_id.partition,
            "start": gap.range.start,
            "end": gap.range.end,
            "reason": gap.reason,
        }
        for gap in view.gaps
        if gap.partition_id[:2] in chosen
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
