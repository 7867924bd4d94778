"""Choose the log, the topics and the incarnations that a command reads. Reads logs, no objects."""

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
from kafkeep.options.unlogged import UnloggedOptions


def choose_logs(
    store: ObjectStore, name: str | None = None, *, commit: int | None = None
) -> list[str]:
    """Return the log called ``name``, or all logs when ``name`` is None.

    Raise NoSuchArchiveError when there is no such log. Raise PreflightError when ``commit`` is
    given and there are several logs: a commit number belongs to one log.
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
            f"{store.describe()} has several logs, and a commit belongs to one of them: "
            f"{', '.join(there)}",
            hint="Choose one with --name.",
        )
    return there if name is None else [name]


def without_log(
    store: ObjectStore, name: str | None, told: UnloggedOptions | None
) -> UnloggedOptions | None:
    """Return the options for unlogged objects, or None to read a log.

    ``name`` is the log that the user asked for. ``told`` are the options for unlogged objects that
    the user gave. They are an error if there is a log to read.
    """
    if name is None and not list_logs(store):
        return told or UnloggedOptions()
    if told is not None and told.texts:
        raise UsageError(
            f"{store.describe()} has a log, which says how its objects were made",
            hint="--set and --connector-config are for objects of Confluent's sink without a log.",
        )
    return None


class Wholeness(IntEnum):
    """How completely a log holds its records. A higher value is better."""

    LOSSY = 0
    WHOLE = 1
    """Complete records, stored as rows."""
    EXACT = 2
    """The record batches as Kafka stored them."""


def wholeness(entries: Iterable[Entry]) -> Wholeness:
    """Return the lowest wholeness among the entries."""
    others = [entry for entry in entries if entry.format != SEGMENT]
    if not others:
        return Wholeness.EXACT
    return Wholeness.LOSSY if what_is_missing(others) else Wholeness.WHOLE


def choose_best(found: Mapping[str, Sequence[Entry]], what: str, hint: str) -> str:
    """Return the log that holds its records most completely.

    Raise PreflightError when two logs rank equal. An empty log counts only if all logs are empty:
    its entries were retired, or its first backup has not committed yet.
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
    """Return the log that holds these topics (None: all topics) most completely.

    Raise PreflightError when two logs rank equal, or when no log holds all of the topics.
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
    """Return incarnation ``number`` of a topic, or the newest one when ``number`` is None. Pure.

    ``topics`` come from a view. Raise ``refusal`` when there is no such incarnation. With
    ``number`` None the topic must be in ``topics``.
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
    """Return the log called ``name``, the only log, or the log with the most complete records.

    With ``at_ms``, logs are compared as they were at that time. Raise PreflightError when two logs
    rank equal for these topics (None: all topics), or when ``commit`` is given without a name and
    there are several logs.
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
    """Load the log that ``choose_log`` chooses, as it was at ``commit`` or at ``at_ms``."""
    log = choose_log(store, name, topics, at_ms=at_ms, commit=commit)
    return load_view(store, log, commit=commit, at_ms=at_ms)


def check_topics(views: Iterable[ArchiveView], topics: Collection[str] | None) -> None:
    """Raise NoSuchArchiveError unless each of ``topics`` is in at least one view."""
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
    """Raise NoSuchArchiveError unless each partition exists in one of ``topics`` (None: any)."""
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
