"""Which entries a query reads: one log and one incarnation of each topic. Runs on the driver."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence

from kafkeep.archive.entry import Entry
from kafkeep.archive.expiry import Expiry
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.errors import NoSuchArchiveError
from kafkeep.objects.choose_log import choose_best
from kafkeep.spark.datasource.pushed_filters import PushedFilters

logger = logging.getLogger(__name__)


def check_topics(asked: Collection[str], views: Iterable[ArchiveView]) -> None:
    """NoSuchArchiveError for topics that no log has."""
    there = {topic for view in views for topic, _ in view.topics}
    if missing := sorted(set(asked) - there):
        held = ", ".join(sorted(there)) or "none"
        raise NoSuchArchiveError(
            f"the archive holds no topic {', '.join(missing)}; it holds: {held}"
        )


def without_expired(
    store: ObjectStore, view: ArchiveView, entries: Sequence[Entry], now_ms: int
) -> list[Entry]:
    """Return the entries to read: without windows of which a rule has deleted an object.

    What is gone and no rule explains stays, and is damage to whoever reads it. Without rules
    nothing is listed.
    """
    expiry = Expiry(store, view, now_ms)
    old = {entry.key: reason for entry in entries if (reason := expiry.reason(entry))}
    if not old:
        return list(entries)
    folder = os.path.commonpath([os.path.dirname(key) for key in old])
    there = {info.key for info in store.list(f"{folder}/" if folder else "")}
    gone = {
        (entry.partition_id, entry.range): old[entry.key]
        for entry in entries
        if entry.key in old and entry.key not in there
    }
    for (pid, range), reason in sorted(gone.items(), key=lambda one: (one[0][0], one[0][1].start)):
        logger.warning("%s offsets %d..%d: %s", pid, range.start, range.end, reason)
    return [entry for entry in entries if (entry.partition_id, entry.range) not in gone]


def choose_entries(
    views: Sequence[ArchiveView], wanted: PushedFilters, incarnation: int | None = None
) -> dict[str, tuple[ArchiveView, list[Entry]]]:
    """Return what to read: for each topic one log, and the entries of one incarnation.

    The log that holds most of each record is taken, and the newest incarnation unless one is
    named. PreflightError when two logs hold as much of a topic.
    """
    topics = sorted({topic for view in views for topic, _ in view.topics})
    chosen = {}
    for topic in topics:
        if wanted.topics is None or topic in wanted.topics:
            found = _one_log(topic, views, incarnation)
            if found is not None:
                chosen[topic] = found
    return chosen


def _one_log(
    topic: str, views: Sequence[ArchiveView], incarnation: int | None
) -> tuple[ArchiveView, list[Entry]] | None:
    candidates: dict[str, tuple[ArchiveView, list[Entry]]] = {}
    for view in views:
        newest = max((number for name, number in view.topics if name == topic), default=None)
        if newest is None:
            continue
        entries = view.entries(topic, incarnation or newest)
        if entries:
            candidates[view.name] = (view, entries)
    if not candidates:
        return None
    entries_of = {name: entries for name, (_, entries) in candidates.items()}
    return candidates[choose_best(entries_of, f"{topic} is", "Set the option name to one of them.")]
