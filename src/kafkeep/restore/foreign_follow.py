"""A restore that goes on without a log: objects that appear in a bucket are appended, in rounds.

Every round is a restore of its own with the document that makes it resumable, of objects that were
written down before its first record was. So each record is written once, whatever stops it when.
On the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kafkeep.archive.store import ObjectStore
from kafkeep.config.foreign import ForeignOptions
from kafkeep.config.places import Places
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.foreign.generic import numbered
from kafkeep.contents.foreign.group import expects
from kafkeep.contents.foreign.index import Index, load_index, next_number, save_index
from kafkeep.contents.foreign.listing import Listed, list_foreign
from kafkeep.contents.foreign.names import ForeignName
from kafkeep.contents.foreign.scan import scan
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin import Admin
from kafkeep.restore.foreign import ForeignJob, wanted_topics
from kafkeep.restore.foreign_followed import (
    ForeignFollowed,
    Place,
    load_foreign_followed,
    place_of,
    save_foreign_followed,
)
from kafkeep.restore.job import RunTasks
from kafkeep.restore.summary import RestoreSummary

ROUND_BYTES = 1 << 30
ROUND = "round"
"""What a round's restore is called: its documents lie in a place of its own."""


@dataclass(kw_only=True)
class ForeignFollower:
    """One restore that follows a bucket. Everything that does I/O is given to it."""

    options: RestoreOptions
    foreign: ForeignOptions
    places: Places
    admin: Admin
    store: ObjectStore
    state: ObjectStore
    open_round: Callable[[int], ObjectStore]
    run_tasks: RunTasks
    cores: int
    now_ms: Callable[[], int]
    on_round: Callable[[RestoreSummary], None] = lambda _summary: None
    most_bytes: int = ROUND_BYTES
    followed: ForeignFollowed = field(init=False)
    waiting: int = field(init=False, default=0)
    """Objects that were there when it last looked and have not come back."""

    def begin(self) -> None:
        """Read how far it has come."""
        self.followed = load_foreign_followed(self.state) or ForeignFollowed()

    def step(self) -> bool:
        """Restore one round; tell whether there was one."""
        if self.followed.round is None and not self._open():
            return False
        job = self._job()
        self.on_round(job.run(job.preflight(), self.run_tasks))
        failpoint("follow.written")
        assert job.found is not None
        restored = job.found.index.objects
        self.followed = self.followed.finish(restored)
        save_foreign_followed(self.state, self.followed)
        failpoint("follow.finished")
        self.waiting = max(0, self.waiting - len(restored))
        return True

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
        self.followed = self.followed.begin(index.number)
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
        self._grow((one.name for one in index.objects), targets)
        options = replace(
            self.options,
            topics=tuple((topic, targets.get(topic, topic)) for topic in topics),
            topics_regex=None,
            into_non_empty=self.options.into_non_empty or number > 1,
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
            id=ROUND,
        )

    def _next_objects(self) -> list[Listed]:
        """Return the next objects that are new, whole files of them, oldest offsets first."""
        listing = list_foreign(self.store, self.foreign, wanted_topics(self.options))
        names = dict(self.options.topics)
        self.followed = self.followed.under({t: names.get(t, t) for t in listing.topics})
        new = [one for one in listing.objects if self.followed.is_new(one.name)]
        self.waiting = len(new)
        files: dict[tuple[str, str, int, int], list[Listed]] = {}
        for one in new:
            files.setdefault(one.name.stem, []).append(one)
        wanted = {
            topic: expects([o.name for o in listing.objects if o.name.topic == topic], self.foreign)
            for topic in {one.name.topic for one in new}
        }
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


def _is_whole(members: list[Listed], wanted: dict[str, bool]) -> bool:
    """Tell whether all objects of a file are there."""
    views = {one.name.view for one in members}
    if members[0].name.tombstones:
        return "keys" in views
    return "value" in views and all(view in views for view, needed in wanted.items() if needed)
