"""What takes up room in an archive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import Entry
from kafkeep.archive.keys import ROOT
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, list_logs, load_view
from kafkeep.maintenance.inventory import find_left_overs, list_data
from kafkeep.objects.sink.read_windows import formats_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUsage:
    """What one incarnation of a topic takes up, as one log counts it."""

    log: str
    folder: str
    objects: int
    records: int | None
    """None where no log counts them."""
    raw_bytes: int | None
    stored_bytes: int
    formats: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the chosen logs take up; left-overs and the retired are those of the whole archive."""

    archive: str
    topics: tuple[TopicUsage, ...]
    log_objects: int
    log_bytes: int
    orphans: int
    orphan_bytes: int
    retired: int = 0
    """Objects of offsets that were moved back: only earlier commits count them."""
    retired_bytes: int = 0
    gone: int = 0
    """Objects that the chosen logs name and the store no longer has: expired, or lost."""

    @property
    def data_objects(self) -> int:
        """Objects that the logs name, and that are there."""
        return sum(topic.objects for topic in self.topics)

    @property
    def data_bytes(self) -> int:
        """Stored bytes of these."""
        return sum(topic.stored_bytes for topic in self.topics)

    @property
    def total_bytes(self) -> int:
        """Data, logs, what was retired, and left-overs."""
        return self.data_bytes + self.log_bytes + self.retired_bytes + self.orphan_bytes

    def share(self, topic: TopicUsage) -> float:
        """Return a topic's part of the data, 0 to 1."""
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
    """Add up what the logs of those names take up; lists the store, reads no data.

    What any log of the archive names is no orphan, also when that log was not asked for.
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
