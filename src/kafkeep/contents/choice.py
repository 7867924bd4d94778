"""Which log stands for a topic when an archive holds it more than once. Reads logs alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum

from kafkeep.archive.entry import Entry
from kafkeep.archive.view import ArchiveView
from kafkeep.contents.missing import what_is_missing
from kafkeep.contents.windows import SEGMENT
from kafkeep.errors import PreflightError


class Wholeness(IntEnum):
    """How much of its records a log holds; more is better."""

    LOSSY = 0
    WHOLE = 1
    """Records as rows of a table, nothing missing."""
    EXACT = 2
    """Kafka's own batches."""


def wholeness(entries: Iterable[Entry]) -> Wholeness:
    """Judge entries by the worst of them."""
    others = [entry for entry in entries if entry.format != SEGMENT]
    if not others:
        return Wholeness.EXACT
    return Wholeness.LOSSY if what_is_missing(others) else Wholeness.WHOLE


def choose_best(found: Mapping[str, Sequence[Entry]], what: str, hint: str) -> str:
    """Return the log that holds most of each record; PreflightError when two hold as much.

    One that holds nothing stands back: what it held was retired, or it has just begun.
    """
    filled = {name: entries for name, entries in found.items() if entries} or found
    judged = {name: wholeness(entries) for name, entries in filled.items()}
    best = [name for name, rank in judged.items() if rank == max(judged.values())]
    if len(best) > 1:
        raise PreflightError(
            f"{what} in {len(best)} logs of this archive: {', '.join(sorted(best))}", hint=hint
        )
    return best[0]


def choose_view(views: Sequence[ArchiveView], topics: Collection[str] | None) -> ArchiveView:
    """Return the log to read these topics from, or all topics: the one that loses least.

    PreflightError when two are as good, or when no log has all of them.
    """
    if len(views) == 1:
        return views[0]
    wanted = set(topics or {topic for view in views for topic, _ in view.topics})
    holders = {v.name: v for v in views if wanted <= {topic for topic, _ in v.topics}}
    if not holders:
        raise PreflightError(
            f"no log of this archive has all of {', '.join(sorted(wanted))}: there are "
            f"{', '.join(sorted(view.name for view in views))}",
            hint="Choose one with --name, and its topics with --topics.",
        )
    if len(holders) == 1:
        return next(iter(holders.values()))
    entries = {
        name: [entry for topic in sorted(wanted) for entry in _newest(view, topic)]
        for name, view in holders.items()
    }
    named = ", ".join(sorted(wanted))
    return holders[choose_best(entries, f"{named} can be read", "Choose one with --name.")]


def _newest(view: ArchiveView, topic: str) -> list[Entry]:
    return view.entries(topic, max(number for name, number in view.topics if name == topic))
