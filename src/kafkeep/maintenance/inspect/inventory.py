"""The data objects in the store: those that logs name, orphans, and their sizes."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import Entry
from kafkeep.archive.keys import DATA_FOLDER
from kafkeep.archive.names import ROOT
from kafkeep.archive.object_store import ObjectStore, StrayFile
from kafkeep.archive.view import ArchiveView, list_logs, load_view
from kafkeep.objects.choose_log import check_partitions, check_topics
from kafkeep.objects.sink.read_windows import formats_of


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
    """Return the selected objects by log, topic, incarnation, partition and offset.

    Reads only the logs; ``verify`` checks whether the objects exist.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUsage:
    """The space that one incarnation of a topic uses, by one log."""

    log: str
    folder: str
    objects: int
    records: int | None
    """None without a log."""
    raw_bytes: int | None
    stored_bytes: int
    formats: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The space that the chosen logs use; orphans and retired objects are of the whole archive."""

    archive: str
    topics: tuple[TopicUsage, ...]
    log_objects: int
    log_bytes: int
    orphans: int
    orphan_bytes: int
    retired: int = 0
    """Objects that only earlier commits name, because positions were moved back."""
    retired_bytes: int = 0
    gone: int = 0
    """Objects that the chosen logs name and the store no longer has: expired, or lost."""

    @property
    def data_objects(self) -> int:
        """The number of objects that the logs name and the store has."""
        return sum(topic.objects for topic in self.topics)

    @property
    def data_bytes(self) -> int:
        """The stored bytes of these objects."""
        return sum(topic.stored_bytes for topic in self.topics)

    @property
    def total_bytes(self) -> int:
        """The bytes of data, logs, retired objects and orphans."""
        return self.data_bytes + self.log_bytes + self.retired_bytes + self.orphan_bytes

    def share(self, topic: TopicUsage) -> float:
        """Return a topic's fraction of the data, 0 to 1."""
        return topic.stored_bytes / self.data_bytes if self.data_bytes else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``du --output json``; scripts may rely on it."""
        return {
            "archive": self.archive,
            "topics": [
                {
                    "log": topic.log,
                    "topic": topic.folder,
                    "objects": topic.objects,
                    "records": topic.records,
                    "raw_bytes": topic.raw_bytes,
                    "stored_bytes": topic.stored_bytes,
                    "formats": list(topic.formats),
                    "share": round(self.share(topic), 6),
                }
                for topic in self.topics
            ],
            "data_objects": self.data_objects,
            "data_bytes": self.data_bytes,
            "log_objects": self.log_objects,
            "log_bytes": self.log_bytes,
            "orphans": self.orphans,
            "orphan_bytes": self.orphan_bytes,
            "retired": self.retired,
            "retired_bytes": self.retired_bytes,
            "gone": self.gone,
            "total_bytes": self.total_bytes,
        }


def load_usage(store: ObjectStore, names: Sequence[str]) -> Usage:
    """Add up the space that the named logs use; lists the store, reads no data.

    An object that any log of the archive names is not an orphan, even if that log is not chosen.
    """
    views = _load_all(store)
    entries = {name: view.entries() for name, view in views.items()}
    known = {entry.key for found in entries.values() for entry in found}
    retired = {e.key: e for view in views.values() for e in view.retired() if e.key not in known}
    everything = (entry for found in entries.values() for entry in found)
    listed = list_data(store, [*everything, *retired.values()])
    named = known | retired.keys()
    orphans = find_left_overs(store, listed, named, lambda: _load_all(store).values())
    old = [listed[key] for key in retired if key in listed]
    logs = [info.size_bytes for name in names for info in store.list(f"{ROOT}{name}/")]
    chosen = {name: entries.get(name, []) for name in names}
    there = {name: [e for e in found if e.key in listed] for name, found in chosen.items()}
    return Usage(
        archive=store.describe(),
        topics=tuple(t for name in names for t in _by_topic(name, there[name])),
        log_objects=len(logs),
        log_bytes=sum(logs),
        orphans=len(orphans),
        orphan_bytes=sum(orphans.values()),
        retired=len(old),
        retired_bytes=sum(old),
        gone=sum(len(chosen[name]) - len(there[name]) for name in names),
    )


def _load_all(store: ObjectStore) -> dict[str, ArchiveView]:
    return {name: load_view(store, name) for name in list_logs(store)}


def _by_topic(log: str, entries: Iterable[Entry]) -> list[TopicUsage]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.partition_id.folder].append(entry)
    return [
        TopicUsage(
            log=log,
            folder=folder,
            objects=len(mine),
            records=sum(entry.own_records for entry in mine),
            raw_bytes=sum(entry.raw_bytes for entry in mine),
            stored_bytes=sum(entry.size_bytes for entry in mine),
            formats=formats_of(mine),
        )
        for folder, mine in sorted(found.items())
    ]


_NUMBER = re.compile(r"~[1-9][0-9]*(?=/|$)")


def list_data(store: ObjectStore, entries: Iterable[Entry]) -> dict[str, int]:
    """Return the sizes of all objects in ``topics/`` and in the other folders of these entries.

    No other folder is listed: it may belong to another program.
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


def find_strays(store: ObjectStore, entries: Iterable[Entry]) -> list[StrayFile]:
    """Return the files in the folders of an archive that are not objects, such as links."""
    return [stray for folder in (ROOT, *_data_folders(entries)) for stray in store.strays(folder)]


def find_left_overs(
    store: ObjectStore,
    listed: Mapping[str, int],
    named: Collection[str],
    reload: Callable[[], Iterable[ArchiveView]],
) -> dict[str, int]:
    """Return the objects that no log names, with their sizes, without those of other archives.

    ``reload`` loads all logs again: a running backup may have committed a listed object since.
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

    For a layout without topic folders: every folder that holds an object.
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
    """Return the archives inside ``folders``, or in a folder above one of these."""
    inside = {key.partition(f"/{ROOT}")[0] + "/" for key in listed if f"/{ROOT}" in key}
    above = {
        folder[:at] for folder in folders for at in range(1, len(folder)) if folder[at - 1] == "/"
    }
    return tuple(inside | {top for top in above if next(store.list(f"{top}{ROOT}"), None)})


def _data_folders(entries: Iterable[Entry]) -> list[str]:
    folders = {_folder(entry) for entry in entries if "/" in entry.key}
    return _outermost({f"{DATA_FOLDER}/", *folders})


def _folder(entry: Entry) -> str:
    """Return the parent of the topic's folder, or the topic's folder if it has no parent."""
    parts = entry.key.split("/")
    return "/".join(parts[: _topic_at(entry) or 1]) + "/"


def _topic_at(entry: Entry) -> int | None:
    """Return the index of the topic's folder in the parts of a key, or None."""
    parts = entry.key.split("/")[:-1]
    named = (
        n for n, part in enumerate(parts) if part.partition("~")[0] == entry.partition_id.topic
    )
    return next(named, None)


def _beginning(topic: str, keys: Sequence[str]) -> str:
    """Return the key prefix of a topic without folders, as another directory.delim makes them.

    The prefix ends before the topic, or with the topic.
    """
    shared = os.path.commonprefix(keys)  # noqa: RUF071 - by characters: there are no folders
    at = shared.find(topic)
    return shared if at < 0 else shared[: at or len(topic)]


def _outermost(prefixes: Iterable[str]) -> list[str]:
    """Leave out prefixes below another one."""
    found: list[str] = []
    for prefix in sorted(set(prefixes)):
        if not found or not prefix.startswith(found[-1]):
            found.append(prefix)
    return found
