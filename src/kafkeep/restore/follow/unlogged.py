"""A restore that goes on without a log: objects that appear in a bucket are appended, in rounds.

What a round restores are objects that were written down before its first record was. On the driver.

How far a restore that follows objects without a log has come. Its document.

For each folder and partition the last object that came back: inside of one folder objects of a
partition are written in the order of their offsets, so all that begin later are new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from kafkeep.archive.document import check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError
from kafkeep.failpoint import failpoint
from kafkeep.objects.unlogged.group import expects
from kafkeep.objects.unlogged.listing import Listed, list_unlogged, numbered
from kafkeep.objects.unlogged.names import NO_OFFSET, UnloggedName
from kafkeep.objects.unlogged.scan import Index, Scanned, load_index, next_number, save_index, scan
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.document import check_version, load_newest, revisions_in, save_revision
from kafkeep.restore.follow.cycle import Rounds
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.unlogged import ForeignJob

VERSION = 1
_OLDER_FIELDS = ("version", "revision", "rounds", "round", "index", "targets", "positions")
FOLDER = "foreign/"


class Place(NamedTuple):
    """A partition's objects in one folder."""

    folder: str
    topic: str
    partition: int


class LastRead(NamedTuple):
    """The last object of a place that came back whole."""

    key: str
    start: int
    records: int


Positions = Mapping[Place, LastRead]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFollowed:
    """One revision; while ``round`` is open its objects may be restored in part."""

    revision: int = -1
    rounds: int = 0
    positions: Positions = field(default_factory=dict)
    round: int | None = None
    index: int = 0
    """Which of the lists of objects beside an open round is its."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """The names topics came back under."""

    @property
    def open_round(self) -> int | None:
        """The number of the round under way."""
        return self.round

    def begin(self, index: int, targets: Mapping[str, str]) -> ForeignFollowed:
        """Return the revision that opens the next round, of objects written down already.

        ``targets`` are the names its topics come back under.
        """
        return replace(
            self,
            revision=self.revision + 1,
            round=self.rounds + 1,
            index=index,
            targets={**self.targets, **targets},
        )

    def finish(self, objects: Iterable[Scanned]) -> ForeignFollowed:
        """Return the revision after the round under way, which restored these objects."""
        assert self.round is not None
        positions = dict(self.positions)
        for one in sorted(objects, key=lambda o: (o.name.start, o.name.view != "value")):
            if one.name.view == "value" or one.name.tombstones:
                before = positions.get(place_of(one.name))
                if before is None or before.start <= one.name.start:
                    last = LastRead(one.name.key, one.name.start, one.records)
                    positions[place_of(one.name)] = last
        return replace(
            self, revision=self.revision + 1, rounds=self.round, positions=positions, round=None
        )

    def forget(self, topics: Collection[str]) -> ForeignFollowed:
        """Return the revision in which nothing of these topics came back yet."""
        kept = {place: last for place, last in self.positions.items() if place.topic not in topics}
        named = {t: name for t, name in self.targets.items() if t not in topics}
        return replace(self.move(kept), targets=named)

    def move(self, positions: Positions) -> ForeignFollowed:
        """Return the revision that goes on from other objects; an open round is given up."""
        rounds = self.round or self.rounds
        return replace(
            self, revision=self.revision + 1, rounds=rounds, positions=positions, round=None
        )

    def is_new(self, name: UnloggedName) -> bool:
        """Tell whether an object has not come back yet."""
        last = self.positions.get(place_of(name))
        if last is None:
            return True
        return name.key > last.key if name.start == NO_OFFSET else name.start > last.start

    def reached(self) -> dict[str, int]:
        """Return where objects without an offset go on, by topic."""
        found: dict[str, int] = {}
        for place, last in self.positions.items():
            found[place.topic] = max(found.get(place.topic, 0), last.start + last.records)
        return found


def place_of(name: UnloggedName) -> Place:
    """Return the place an object lies in."""
    return Place(name.folder, name.topic, name.partition)


def load_foreign_followed(store: ObjectStore) -> ForeignFollowed | None:
    """Return the newest revision, or None when nothing was ever restored."""
    newest = load_newest(revisions_in(store, FOLDER))
    return None if newest is None else _parse(*newest)


def save_foreign_followed(store: ObjectStore, followed: ForeignFollowed) -> None:
    """Create a revision, and forget those long before it. FencedError when another was faster."""
    document = {
        "version": VERSION,
        "revision": followed.revision,
        "rounds": followed.rounds,
        "round": followed.round,
        "index": followed.index,
        "targets": followed.targets,
        "positions": [[*place, *last] for place, last in sorted(followed.positions.items())],
    }
    revisions = revisions_in(store, FOLDER)
    save_revision(revisions, followed.revision, dump_with_checksum(document))
    if followed.revision >= KEPT:
        revisions.delete(followed.revision - KEPT)


KEPT = 1000
"""So many revisions are kept: a worker that slept still finds that it is late."""


def _parse(body: bytes, key: str) -> ForeignFollowed:
    try:
        check_checksum(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        require_checksum(body, document, key, _OLDER_FIELDS)
        return ForeignFollowed(
            revision=document["revision"],
            rounds=document["rounds"],
            round=document["round"],
            index=document["index"],
            targets=document["targets"],
            positions={Place(*row[:3]): LastRead(*row[3:]) for row in document["positions"]},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{key} does not say how far a restore has come: {error}") from error


ROUND = "round"
"""What the list of a round's objects is called: it lies in a place of its own."""


@dataclass(kw_only=True)
class ForeignFollower(Rounds[ForeignFollowed]):
    """One restore that follows a bucket."""

    unlogged: UnloggedOptions
    waiting: int = field(init=False, default=0)
    """Objects that were there when it last looked and have not come back."""

    def begin(self) -> None:
        """Read how far it has come."""
        self.followed = load_foreign_followed(self.state) or ForeignFollowed()

    def _forget(self, topics: Collection[str]) -> None:
        self.followed = self.followed.forget(topics)
        save_foreign_followed(self.state, self.followed)

    def _finish(self, job: RestoreJob) -> None:
        assert isinstance(job, ForeignJob) and job.found is not None
        restored = job.found.index.objects
        self.followed = self.followed.finish(restored)
        save_foreign_followed(self.state, self.followed)
        self.waiting = max(0, self.waiting - len(restored))

    def _open(self) -> bool:
        """Write down what the next round restores, if there is anything."""
        objects = self._next_objects()
        if not objects:
            return False
        documents = self.open_round(self.followed.rounds + 1)
        counted = scan(self.store, objects, self.unlogged)
        found = tuple(numbered(counted, self.followed.reached()))
        index = Index(next_number(documents, ROUND), found)
        save_index(documents, ROUND, index)
        failpoint("follow.planned")
        names = dict(self.options.topics)
        topics = {one.name.topic for one in found}
        self.followed = self.followed.begin(index.number, {t: names.get(t, t) for t in topics})
        save_foreign_followed(self.state, self.followed)
        failpoint("follow.opened")
        return True

    def _job(self) -> ForeignJob:
        """Return the restore of the round under way: always the same."""
        number = self.followed.round
        assert number is not None
        documents = self.open_round(number)
        index = load_index(documents, ROUND, self.followed.index)
        topics = sorted({one.name.topic for one in index.objects})
        targets = dict(self.followed.targets)  # as they were when the round was opened
        met = {place.topic for place in self.followed.positions}
        self._grow((one.name for one in index.objects), targets)
        options = replace(
            self.options,
            topics=tuple((topic, targets.get(topic, topic)) for topic in topics),
            topics_regex=None,
            into_non_empty=self.options.into_non_empty or all(topic in met for topic in topics),
        )
        return ForeignJob(
            options=options,
            locations=self.locations,
            admin=self.admin,
            store=self.store,
            documents=documents,
            cores=self.cores,
            now_ms=self.now_ms,
            unlogged=self.unlogged,
            index=index,
            id=self.round_id(number),
        )

    def _next_objects(self) -> list[Listed]:
        """Return the next objects that are new, whole files of them, oldest offsets first.

        Topics that were met before go first, those that were not have a round of their own.
        """
        listing = list_unlogged(self.store, self.unlogged, self.options.wants)
        new = [one for one in listing.objects if self.followed.is_new(one.name)]
        self.waiting = len(new)
        met = {place.topic for place in self.followed.positions}
        wanted = {
            topic: expects(
                [o.name for o in listing.objects if o.name.topic == topic], self.unlogged
            )
            for topic in {one.name.topic for one in new}
        }
        known = [one for one in new if one.name.topic in met]
        others = [one for one in new if one.name.topic not in met]
        return self._whole_files(known, wanted) or self._whole_files(others, wanted)

    def _whole_files(
        self, objects: Iterable[Listed], wanted: Mapping[str, Mapping[str, bool]]
    ) -> list[Listed]:
        """Return the objects of files that are there whole, about as many as a round takes."""
        files: dict[tuple[str, str, int, int], list[Listed]] = {}
        for one in objects:
            files.setdefault(one.name.stem, []).append(one)
        found: list[Listed] = []
        held: set[Place] = set()
        size = 0
        for members in sorted(files.values(), key=lambda f: (f[0].name.start, f[0].name)):
            place = place_of(members[0].name)
            if place in held or not _is_whole(members, wanted[place.topic]):
                held.add(place)  # a file is put beside the other: it will be there next time
                continue
            if found and size > self.most_bytes:
                break
            found += members
            size += sum(one.size_bytes for one in members)
        return found

    def _grow(self, names: Iterable[UnloggedName], targets: dict[str, str]) -> None:
        """Give a target that was made here the partitions that have appeared since."""
        met = {place.topic for place in self.followed.positions}
        needed: dict[str, int] = {}
        for name in names:
            if name.topic in met:
                needed[name.topic] = max(needed.get(name.topic, 0), name.partition + 1)
        for topic, count in needed.items():
            target = targets.get(topic, topic)
            there = self.admin.topics([target]).get(target)
            if there is not None and there.partition_count < count:
                self.admin.create_partitions(target, count)


def _is_whole(members: list[Listed], wanted: Mapping[str, bool]) -> bool:
    """Tell whether all objects of a file are there."""
    views = {one.name.view for one in members}
    if members[0].name.tombstones:
        return "keys" in views
    return "value" in views and all(view in views for view, needed in wanted.items() if needed)
