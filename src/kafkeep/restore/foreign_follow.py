"""A restore that goes on without a log: objects that appear in a bucket are appended, in rounds.

What a round restores are objects that were written down before its first record was. On the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkeep.config.foreign import ForeignOptions
from kafkeep.contents.foreign.generic import numbered
from kafkeep.contents.foreign.group import expects
from kafkeep.contents.foreign.index import Index, load_index, next_number, save_index
from kafkeep.contents.foreign.listing import Listed, list_foreign
from kafkeep.contents.foreign.names import ForeignName
from kafkeep.contents.foreign.scan import scan
from kafkeep.failpoint import failpoint
from kafkeep.restore.foreign import ForeignJob
from kafkeep.restore.foreign_followed import (
    ForeignFollowed,
    Place,
    load_foreign_followed,
    place_of,
    save_foreign_followed,
)
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.rounds import Rounds

ROUND = "round"
"""What the list of a round's objects is called: it lies in a place of its own."""


@dataclass(kw_only=True)
class ForeignFollower(Rounds[ForeignFollowed]):
    """One restore that follows a bucket."""

    foreign: ForeignOptions
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
        counted = scan(self.store, objects, self.foreign)
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
            places=self.places,
            admin=self.admin,
            store=self.store,
            documents=documents,
            cores=self.cores,
            now_ms=self.now_ms,
            foreign=self.foreign,
            index=index,
            id=self.round_id(number),
        )

    def _next_objects(self) -> list[Listed]:
        """Return the next objects that are new, whole files of them, oldest offsets first.

        Topics that were met before go first, those that were not have a round of their own.
        """
        listing = list_foreign(self.store, self.foreign, self.options.wants)
        new = [one for one in listing.objects if self.followed.is_new(one.name)]
        self.waiting = len(new)
        met = {place.topic for place in self.followed.positions}
        wanted = {
            topic: expects([o.name for o in listing.objects if o.name.topic == topic], self.foreign)
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

    def _grow(self, names: Iterable[ForeignName], targets: dict[str, str]) -> None:
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
