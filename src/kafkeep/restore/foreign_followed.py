"""How far a restore that follows objects without a log has come. Its document.

For each folder and partition the last object that came back: inside of one folder objects of a
partition are written in the order of their offsets, so all that begin later are new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson

from kafkeep.archive.seal import check_seal, check_whole, seal
from kafkeep.archive.store import ObjectStore
from kafkeep.contents.foreign.names import NO_OFFSET, ForeignName
from kafkeep.contents.foreign.scan import Scanned
from kafkeep.errors import DamagedError
from kafkeep.restore.revisions import check_version, load_newest, revision_key, save_revision

VERSION = 1
_UNSEALED = ("version", "revision", "rounds", "round", "index", "targets", "positions")
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

    def is_new(self, name: ForeignName) -> bool:
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


def place_of(name: ForeignName) -> Place:
    """Return the place an object lies in."""
    return Place(name.folder, name.topic, name.partition)


def load_foreign_followed(store: ObjectStore) -> ForeignFollowed | None:
    """Return the newest revision, or None when nothing was ever restored."""
    newest = load_newest(store, FOLDER)
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
    save_revision(store, FOLDER, followed.revision, seal(document))
    if followed.revision >= KEPT:
        store.delete(revision_key(FOLDER, followed.revision - KEPT))


KEPT = 1000
"""So many revisions are kept: a worker that slept still finds that it is late."""


def _parse(body: bytes, key: str) -> ForeignFollowed:
    try:
        check_whole(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        check_seal(body, document, key, _UNSEALED)
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
