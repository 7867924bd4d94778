"""The objects in the store where data belongs: those that logs name, and orphans."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import Entry
from kafkeep.archive.keys import DATA_FOLDER, ROOT
from kafkeep.archive.object_store import ObjectStore, Stray
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.objects.choose_log import check_partitions, check_topics


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


_NUMBER = re.compile(r"~[1-9][0-9]*(?=/|$)")


def list_data(store: ObjectStore, entries: Iterable[Entry]) -> dict[str, int]:
    """Return the sizes of all objects in ``topics/``, and where else these entries have theirs.

    Other folders may be anybody's: they are not listed.
    """
    entries = list(entries)
    bare = dict[str, list[str]]()
    for entry in entries:
        if "/" not in entry.key:
            bare.setdefault(entry.partition_id.topic, []).append(entry.key)
    found = [
        info
        for folder in _data_folders(entries)
        for info in store.list(folder)
        if not info.key.startswith(ROOT)
    ]
    for beginning in _outermost(_beginning(topic, keys) for topic, keys in bare.items()):
        found += [info for info in store.list(beginning) if "/" not in info.key]
    return {info.key: info.size_bytes for info in found}


def find_strays(store: ObjectStore, entries: Iterable[Entry]) -> list[Stray]:
    """Return what lies among the logs and the data of an archive and is no object."""
    return [stray for folder in (ROOT, *_data_folders(entries)) for stray in store.strays(folder)]


def find_left_overs(
    store: ObjectStore,
    listed: Mapping[str, int],
    named: Collection[str],
    reload: Callable[[], Iterable[ArchiveView]],
) -> dict[str, int]:
    """Return the objects that no log names, with their sizes; those of another archive are not.

    ``reload`` loads all logs anew: a running backup may have committed what was listed since.
    """
    unknown = {key: size for key, size in listed.items() if key not in named}
    if not unknown:
        return {}
    folders = set()
    for view in reload():
        for entry in (*view.entries(), *view.retired()):
            unknown.pop(entry.key, None)
            folders.add(_folder(entry))
    others = _other_archives(store, listed, folders)
    return {key: size for key, size in unknown.items() if not key.startswith(others)}


def topic_folders(entries: Iterable[Entry]) -> set[str]:
    """Return the folders of topics, without their number: ``topics/orders/`` for ``orders~2`` too.

    Of a layout without such folders, those that hold an object.
    """
    found = set()
    for entry in entries:
        parts = entry.key.split("/")[:-1]
        at = _topic_at(entry)
        found.add(f"{unnumbered('/'.join(parts if at is None else parts[: at + 1]))}/")
    return found - {"/"}


def unnumbered(folder: str) -> str:
    """Return a path without the numbers of incarnations and generations."""
    return _NUMBER.sub("", folder)


def _other_archives(
    store: ObjectStore, listed: Iterable[str], folders: Iterable[str]
) -> tuple[str, ...]:
    """Return archives that lie in ``folders``, or between the top and one of these."""
    inside = {key.partition(f"/{ROOT}")[0] + "/" for key in listed if f"/{ROOT}" in key}
    above = {
        folder[:at] for folder in folders for at in range(1, len(folder)) if folder[at - 1] == "/"
    }
    return tuple(inside | {top for top in above if next(store.list(f"{top}{ROOT}"), None)})


def _data_folders(entries: Iterable[Entry]) -> list[str]:
    folders = {_folder(entry) for entry in entries if "/" in entry.key}
    return _outermost({f"{DATA_FOLDER}/", *folders})


def _folder(entry: Entry) -> str:
    """Return the folder above the topic's, or the topic's where there is none above."""
    parts = entry.key.split("/")
    return "/".join(parts[: _topic_at(entry) or 1]) + "/"


def _topic_at(entry: Entry) -> int | None:
    """Return which part of a key is the topic's folder, or None where none is."""
    parts = entry.key.split("/")[:-1]
    named = (
        n for n, part in enumerate(parts) if part.partition("~")[0] == entry.partition_id.topic
    )
    return next(named, None)


def _beginning(topic: str, keys: Sequence[str]) -> str:
    """Return how a topic's objects begin that lie in no folder, as another directory.delim has it.

    That is what stands before the topic, or the topic itself.
    """
    shared = os.path.commonprefix(keys)  # noqa: RUF071 - of letters: there are no folders
    at = shared.find(topic)
    return shared if at < 0 else shared[: at or len(topic)]


def _outermost(prefixes: Iterable[str]) -> list[str]:
    """Leave out what lies below another one."""
    found: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not found or not prefix.startswith(found[-1]):
            found.append(prefix)
    return found
