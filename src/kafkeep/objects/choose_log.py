"""Choose the log, the topics and the incarnations that a command reads. Reads logs alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry
from kafkeep.archive.names import log_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, list_logs, load_view, load_views
from kafkeep.errors import KafkeepError, NoSuchArchiveError, PreflightError, UsageError
from kafkeep.objects.completeness import what_is_missing
from kafkeep.objects.sink.read_windows import SEGMENT


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
    return view.entries(topic, choose_incarnation(view.topics, topic, None).incarnation)


def choose_incarnation(
    topics: Mapping[tuple[str, int], TopicInfo],
    topic: str,
    number: int | None,
    *,
    refusal: type[KafkeepError] = UsageError,
) -> TopicInfo:
    """Return a topic's incarnation of that number, or the newest of a topic that is there. Pure.

    ``topics`` are those of a view. ``refusal`` is raised when there is no such incarnation.
    """
    found = {count: info for (name, count), info in topics.items() if name == topic}
    wanted = max(found) if number is None else number
    if wanted not in found:
        there = ", ".join(str(count) for count in sorted(found))
        raise refusal(
            f"topic {topic} has no incarnation {wanted} in the archive",
            hint=f"It has: {there}." if there else None,
        )
    return found[wanted]


def choose_log(
    store: ObjectStore,
    name: str | None = None,
    topics: Collection[str] | None = None,
    *,
    at_ms: int | None = None,
    commit: int | None = None,
) -> str:
    """Return the log of that name, the only one, or the one that holds most of each record.

    With ``at_ms``, the one that held it then. PreflightError when two are as good for these
    topics, or all topics, or when a ``commit`` of several is asked for.
    """
    there = choose_logs(store, name, commit=commit)
    if len(there) == 1:
        return there[0]
    views = load_views(store, there, at_ms)
    check_topics(views, topics)
    return choose_view(views, topics).name


def load_chosen(
    store: ObjectStore,
    name: str | None,
    topics: Collection[str] | None,
    *,
    at_ms: int | None,
    commit: int | None,
) -> ArchiveView:
    """Return the log that ``choose_log`` chooses, as it was at that commit or time."""
    log = choose_log(store, name, topics, at_ms=at_ms, commit=commit)
    return load_view(store, log, commit=commit, at_ms=at_ms)


def check_topics(views: Iterable[ArchiveView], topics: Collection[str] | None) -> None:
    """Raise NoSuchArchiveError unless each of ``topics`` is known to one of the views."""
    known = {topic for view in views for topic, _ in view.topics}
    missing = sorted(set(topics or ()) - known)
    if missing:
        raise NoSuchArchiveError(
            f"the archive holds no topic {', '.join(missing)}",
            hint=f"It holds: {', '.join(sorted(known)) or 'none'}.",
        )


def check_partitions(
    views: Iterable[ArchiveView], topics: Collection[str] | None, partitions: Collection[int] | None
) -> None:
    """Raise NoSuchArchiveError unless each of ``partitions`` is one of these topics, or of any."""
    counts: dict[str, int] = {}
    for view in views:
        for (topic, _), info in view.topics.items():
            if not topics or topic in topics:
                counts[topic] = max(counts.get(topic, 0), info.partitions)
    missing = sorted(n for n in set(partitions or ()) if n >= max(counts.values(), default=0))
    if missing:
        there = ", ".join(f"{count} of {topic}" for topic, count in sorted(counts.items()))
        raise NoSuchArchiveError(
            f"no topic asked for has a partition {', '.join(map(str, missing))}",
            hint=f"Partitions count from 0, and there are {there or 'none'}.",
        )
