"""The objects of an archive, as its logs know them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import Entry
from kafkeep.archive.reader import load_view
from kafkeep.archive.store import ObjectStore
from kafkeep.care.logs import check_partitions, check_topics


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object and the log that names it."""

    log: str
    entry: Entry

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``ls --output json``: the entry without its index."""
        document = {"log": self.log, **self.entry.to_json()}
        document.pop("index", None)
        return document


def list_objects(
    store: ObjectStore,
    names: Sequence[str],
    *,
    topics: Collection[str] | None = None,
    partitions: Collection[int] | None = None,
) -> list[ListedObject]:
    """Return the wanted objects by log, topic, incarnation, partition and offset.

    Reads the logs alone: whether the objects are there is for ``verify`` to say.
    """
    views = [load_view(store, name) for name in names]
    check_topics(views, topics)
    check_partitions(views, topics, partitions)
    return [
        ListedObject(view.name, entry)
        for view in views
        for entry in view.entries()
        if (topics is None or entry.partition_id.topic in topics)
        and (partitions is None or entry.partition_id.partition in partitions)
    ]
