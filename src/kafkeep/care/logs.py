"""Which logs and which topics of an archive a command is about."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkeep.archive.names import log_name
from kafkeep.archive.reader import ArchiveView, list_logs, load_views
from kafkeep.archive.store import ObjectStore
from kafkeep.contents.choice import choose_view
from kafkeep.errors import NoSuchArchiveError


def choose_logs(store: ObjectStore, name: str | None = None) -> list[str]:
    """Return the log of that name, or all there are; NoSuchArchiveError when there is none."""
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
    return there if name is None else [name]


def choose_log(
    store: ObjectStore,
    name: str | None = None,
    topics: Collection[str] | None = None,
    *,
    at_ms: int | None = None,
) -> str:
    """Return the log of that name, the only one, or the one that holds most of each record.

    With ``at_ms``, the one that held it then. PreflightError when two are as good for these
    topics, or all topics.
    """
    there = choose_logs(store, name)
    if len(there) == 1:
        return there[0]
    views = load_views(store, there, at_ms)
    check_topics(views, topics)
    return choose_view(views, topics).name


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
