"""Which log is meant, and which stands for a topic that several hold. Reads logs alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry
from kafkeep.archive.names import log_name
from kafkeep.archive.reader import list_logs
from kafkeep.archive.store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.contents.missing import what_is_missing
from kafkeep.contents.windows import SEGMENT
from kafkeep.errors import KafkeepError, NoSuchArchiveError, PreflightError, UsageError


def choose_logs(
    store: ObjectStore, name: str | None = None, *, commit: int | None = None
) -> list[str]:
    """Return the log of that name, or all there are; NoSuchArchiveError when there is none.

    PreflightError when there are several, and ``commit`` is asked for: it is of one.
    """
    if name is not None:
        log_name(name)
    there = list_logs(store)
    if not there:
        raise NoSuchArchiveError(
            f"nothing is archived at {store.describe()}",
            hint="Check the address: an archive has a folder _kafkeep below its prefix. Objects of "
            "Confluent's sink without it are for restore, cat, info, ls, du and verify.",
        )
    if name is not None and name not in there:
        raise NoSuchArchiveError(
            f"{store.describe()} has no log named {name!r}",
            hint=f"There is: {', '.join(there)}.",
        )
    if name is None and commit is not None and len(there) > 1:
        raise PreflightError(
            f"{store.describe()} has several logs, and a commit is of one: {', '.join(there)}",
            hint="Choose one with --name.",
        )
    return there if name is None else [name]


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
    return view.entries(topic, choose_incarnation(view, topic, None).incarnation)


def choose_incarnation(
    view: ArchiveView,
    topic: str,
    number: int | None,
    *,
    refusal: type[KafkeepError] = UsageError,
) -> TopicInfo:
    """Return a topic's incarnation of that number, or the newest of a topic that is there.

    ``refusal`` is raised when it has no such one.
    """
    found = {count: info for (name, count), info in view.topics.items() if name == topic}
    wanted = max(found) if number is None else number
    if wanted not in found:
        there = ", ".join(str(count) for count in sorted(found))
        raise refusal(
            f"topic {topic} has no incarnation {wanted} in the archive",
            hint=f"It has: {there}." if there else None,
        )
    return found[wanted]
