"""Which entries stand for a topic when an archive holds it more than once."""

from __future__ import annotations

from collections.abc import Sequence

from kafkeep.archive.entry import Entry
from kafkeep.archive.reader import ArchiveView
from kafkeep.errors import PreflightError
from kafkeep.spark.selection import Selection

SEGMENT = "segment"


def choose_entries(
    views: Sequence[ArchiveView], wanted: Selection, incarnation: int | None = None
) -> list[Entry]:
    """Return the entries to read: of each topic one log, and one incarnation.

    The lossless log is taken, and the newest incarnation unless one is named. PreflightError when
    two logs hold a topic without loss.
    """
    topics = sorted({topic for view in views for topic, _ in view.topics})
    chosen: list[Entry] = []
    for topic in topics:
        if wanted.topics is None or topic in wanted.topics:
            chosen += _one_log(topic, views, incarnation)
    return chosen


def _one_log(topic: str, views: Sequence[ArchiveView], incarnation: int | None) -> list[Entry]:
    candidates: dict[str, list[Entry]] = {}
    for view in views:
        newest = max((number for name, number in view.topics if name == topic), default=None)
        if newest is None:
            continue
        entries = view.entries(topic, incarnation or newest)
        if entries and all(entry.format == SEGMENT for entry in entries):
            candidates[view.name] = entries
    if len(candidates) > 1:
        names = ", ".join(sorted(candidates))
        raise PreflightError(
            f"{topic} is in {len(candidates)} logs of this archive: {names}",
            hint="Set the option name to one of them.",
        )
    return next(iter(candidates.values()), [])
