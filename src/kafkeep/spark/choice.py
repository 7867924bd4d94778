"""Which entries stand for a topic when an archive holds it more than once."""

from __future__ import annotations

from collections.abc import Sequence

from kafkeep.archive.entry import Entry
from kafkeep.archive.reader import ArchiveView
from kafkeep.contents.choice import choose_best
from kafkeep.spark.selection import Selection


def choose_entries(
    views: Sequence[ArchiveView], wanted: Selection, incarnation: int | None = None
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
