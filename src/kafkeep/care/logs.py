"""Which logs and which topics of an archive a command is about."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkeep.archive.reader import ArchiveView, load_view, load_views
from kafkeep.archive.store import ObjectStore
from kafkeep.contents.choice import choose_logs, choose_view
from kafkeep.errors import NoSuchArchiveError


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
