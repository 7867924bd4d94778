"""Follow a bucket that has no log: a cycle restores new objects. On the driver.

The state names, for each folder and partition, the last object that was restored. Within
one folder, the objects of a partition are written in the order of their offsets. All objects that
start later are therefore new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkeep.archive.commit import Gap
from kafkeep.archive.object_store import ObjectStore
from kafkeep.kafka.admin.admin import Admin
from kafkeep.objects.unlogged.entries import expects
from kafkeep.objects.unlogged.listing import (
    NO_OFFSET,
    ListedFile,
    UnloggedName,
    list_unlogged,
)
from kafkeep.objects.unlogged.scan import (
    ScanIndex,
    ScannedObject,
    load_index,
    next_number,
    numbered,
    save_index,
    scan,
)
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.follow.follower import (
    CycleWork,
    FollowLag,
    FollowState,
    OpenCycle,
    StateFormat,
    cycle_options,
)
from kafkeep.restore.listing_source import ListingSource, options_for_listing

INDEX = "round"
"""The name of the object list of a cycle, in the store of its documents."""


class FolderPartition(NamedTuple):
    """A partition's objects in one folder."""

    folder: str
    topic: str
    partition: int

    @classmethod
    def of(cls, name: UnloggedName) -> FolderPartition:
        """Return the folder and partition of an object."""
        return cls(name.folder, name.topic, name.partition)


class LastObject(NamedTuple):
    """The last object of a folder and partition that is restored."""

    key: str
    start: int
    records: int


Positions = Mapping[FolderPartition, LastObject]
ListingFollowState = FollowState[FolderPartition, LastObject]


@dataclass(kw_only=True)
class ListingFollowSource:
    """A bucket without a log; see ``FollowSource``."""

    store: ObjectStore
    options: RestoreOptions
    unlogged: UnloggedOptions
    waiting: int = field(init=False, default=0)
    """Objects that the last listing found and that are not restored."""
    _cycle: tuple[ScannedObject, ...] = field(init=False, default=())
    """The objects of the open cycle."""

    @property
    def format(self) -> StateFormat[FolderPartition, LastObject]:
        return LISTING_STATES

    @property
    def is_one_shot(self) -> bool:
        """False: objects can be selected by topic only."""
        return False

    def begin(self, state: ListingFollowState | None) -> ListingFollowState:
        """Continue, or start with nothing restored."""
        return state or FollowState()

    def open_cycle(
        self,
        state: ListingFollowState,
        open_documents: Callable[[int], ObjectStore],
        *,
        max_bytes: int,
    ) -> ListingFollowState | None:
        """List the bucket, count the new objects, and store which ones the cycle restores."""
        objects = self._next_objects(state, max_bytes)
        if not objects:
            return None
        documents = open_documents(state.cycles + 1)
        counted = scan(self.store, objects, self.unlogged)
        found = tuple(numbered(counted, next_offsets(state.positions)))
        index = ScanIndex(next_number(documents, INDEX), found)
        save_index(documents, INDEX, index)
        names = dict(self.options.topics)
        topics = {one.name.topic for one in found}
        return state.begin(index.number, {topic: names.get(topic, topic) for topic in topics})

    def work_of(self, state: ListingFollowState, documents: ObjectStore, admin: Admin) -> CycleWork:
        """Load the list of objects of the open cycle."""
        assert state.cycle is not None
        index = load_index(documents, INDEX, state.cycle.reference)
        self._cycle = index.objects
        options = options_for_listing(self.options, self.unlogged)
        options = cycle_options(options, state, {one.name.topic for one in index.objects})
        counts: dict[str, int] = {}
        for one in index.objects:
            if one.name.topic in state.restored_topics:
                counts[one.name.topic] = max(counts.get(one.name.topic, 0), one.name.partition + 1)
        entries = ListingSource(
            store=self.store,
            options=options,
            unlogged=self.unlogged,
            admin=admin,
            documents=documents,
            index=index,
        )
        return CycleWork(options, entries, counts)

    def finish(self, state: ListingFollowState) -> ListingFollowState:
        self.waiting = max(0, self.waiting - len(self._cycle))
        return state.finish(last_objects(self._cycle, state.positions))

    def forget(self, state: ListingFollowState, topics: set[str]) -> ListingFollowState:
        return state.forget(topics)

    def lag(self, state: ListingFollowState) -> FollowLag:
        """Report whether objects wait; their number of records is unknown."""
        positions: dict[tuple[str, int], int] = {}
        for place, last in state.positions.items():
            key = place.topic, place.partition
            positions[key] = max(positions.get(key, 0), last.start + last.records)
        positions = dict(sorted(positions.items()))
        return FollowLag(positions, dict.fromkeys(positions, int(self.waiting > 0)))

    def gaps(self) -> Iterable[Gap]:
        """Return nothing: only a log records gaps."""
        return ()

    def _next_objects(self, state: ListingFollowState, max_bytes: int) -> list[ListedFile]:
        """Return the next new objects, only of complete files, lowest offsets first."""
        listing = list_unlogged(self.store, self.unlogged, self.options.wants)
        new = [one for one in listing.objects if is_new(one.name, state.positions)]
        self.waiting = len(new)
        wanted = {
            topic: expects(
                [o.name for o in listing.objects if o.name.topic == topic], self.unlogged
            )
            for topic in {one.name.topic for one in new}
        }
        restored = state.restored_topics
        known = [one for one in new if one.name.topic in restored]
        others = [one for one in new if one.name.topic not in restored]
        return whole_files(known, wanted, max_bytes) or whole_files(others, wanted, max_bytes)


def is_new(name: UnloggedName, positions: Positions) -> bool:
    """Return whether an object is not restored yet. Pure."""
    last = positions.get(FolderPartition.of(name))
    if last is None:
        return True
    return name.key > last.key if name.start == NO_OFFSET else name.start > last.start


def next_offsets(positions: Positions) -> dict[str, int]:
    """Return the next offset of objects without an offset, by topic. Pure."""
    found: dict[str, int] = {}
    for place, last in positions.items():
        found[place.topic] = max(found.get(place.topic, 0), last.start + last.records)
    return found


def last_objects(objects: Iterable[ScannedObject], positions: Positions) -> Positions:
    """Return the positions after these objects are restored. Pure."""
    found = dict(positions)
    for one in sorted(objects, key=lambda o: (o.name.start, o.name.view != "value")):
        if one.name.view == "value" or one.name.tombstones:
            place = FolderPartition.of(one.name)
            before = found.get(place)
            if before is None or before.start <= one.name.start:
                found[place] = LastObject(one.name.key, one.name.start, one.records)
    return found


def whole_files(
    objects: Iterable[ListedFile], wanted: Mapping[str, Mapping[str, bool]], max_bytes: int
) -> list[ListedFile]:
    """Return the objects of files that are complete, about ``max_bytes`` of them. Pure.

    ``wanted`` names the objects (keys, headers) that accompany values, by topic.
    """
    files: dict[tuple[str, str, int, int], list[ListedFile]] = {}
    for one in objects:
        files.setdefault(one.name.stem, []).append(one)
    found: list[ListedFile] = []
    incomplete: set[FolderPartition] = set()
    size = 0
    for members in sorted(files.values(), key=lambda f: (f[0].name.start, f[0].name)):
        place = FolderPartition.of(members[0].name)
        if place in incomplete or not _is_whole(members, wanted[place.topic]):
            incomplete.add(place)  # the sink writes one object after the other
            continue
        if found and size > max_bytes:
            break
        found += members
        size += sum(one.size_bytes for one in members)
    return found


def _is_whole(members: list[ListedFile], wanted: Mapping[str, bool]) -> bool:
    views = {one.name.view for one in members}
    if members[0].name.tombstones:
        return "keys" in views
    return "value" in views and all(view in views for view, needed in wanted.items() if needed)


def _to_json(state: ListingFollowState) -> dict[str, Any]:
    return {
        "revision": state.revision,
        "rounds": state.cycles,
        "round": state.cycle.number if state.cycle else None,
        "index": state.cycle.reference if state.cycle else 0,
        "targets": dict(state.targets),
        "positions": [[*place, *last] for place, last in sorted(state.positions.items())],
    }


def _from_json(document: Mapping[str, Any]) -> ListingFollowState:
    number = document["round"]
    return FollowState(
        revision=document["revision"],
        cycles=document["rounds"],
        positions={
            FolderPartition(*row[:3]): LastObject(*row[3:]) for row in document["positions"]
        },
        targets=document["targets"],
        cycle=None if number is None else OpenCycle(number=number, reference=document["index"]),
    )


LISTING_STATES: StateFormat[FolderPartition, LastObject] = StateFormat(
    folder="foreign/",
    older_fields=("version", "revision", "rounds", "round", "index", "targets", "positions"),
    to_json=_to_json,
    from_json=_from_json,
)
