"""Keep restoring new records of an archive, cycle by cycle.

Every cycle is a separate restore. Its entries are selected and stored before it starts, and its
document makes it resumable. An interrupted cycle is therefore finished, a finished cycle is not
repeated, and each record is written once. On the driver.

The state holds the positions of a follower. Each revision is a separate object that is created
once; the newest is valid. It names what a cycle restores before the cycle writes anything.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import orjson

from kafkeep.archive.commit import Gap
from kafkeep.archive.document import check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import (
    check_version,
    load_document,
    load_newest,
    revisions_in,
    save_revision,
)
from kafkeep.restore.job import RestoreJob, RunTasks
from kafkeep.restore.source import EntrySource
from kafkeep.restore.summary import RestoreSummary

VERSION = 1
CYCLE_BYTES = 1 << 30
SWEEP_EVERY = 500
SWEPT_AT_ONCE = 2 * SWEEP_EVERY
KEPT_MS = 86_400_000
"""Documents of cycles are kept for a day: a worker that was suspended may still read them."""
logger = logging.getLogger(__name__)


class PartitionKey(Protocol):
    """The key of a position: a partition, or a partition's objects in one folder."""

    @property
    def topic(self) -> str:
        """The archived topic."""

    @property
    def partition(self) -> int:
        """The archived partition."""


K = TypeVar("K", bound=PartitionKey)
P = TypeVar("P")
"""A position: an offset of a log, or the last object of a folder."""


@dataclass(frozen=True, slots=True)
class CycleWork:
    """What the open cycle restores."""

    options: RestoreOptions
    entries: EntrySource
    partition_counts: Mapping[str, int]
    """The number of partitions of each archived topic that was restored before."""


@dataclass(frozen=True, slots=True)
class FollowLag:
    """The lag of a follower behind its source."""

    positions: Mapping[tuple[str, int], int]
    """The offset up to which each partition is restored."""
    records: Mapping[tuple[str, int], int] | None
    """Offsets not yet restored, by partition; None before the source was read."""
    gap_count: int = 0
    """The number of gaps of the source; when it changes, read ``gaps`` again."""


class FollowSource(Protocol[K, P]):
    """The source of a follower: a commit log, or a bucket without a log."""

    options: RestoreOptions

    @property
    def format(self) -> StateFormat[K, P]:
        """How the follower's states are stored."""

    @property
    def is_one_shot(self) -> bool:
        """True if the options select a fixed set of records."""

    def begin(self, state: FollowState[K, P] | None) -> FollowState[K, P]:
        """Return the state to continue from; ``state`` is the stored one, if there is one."""

    def open_cycle(
        self,
        state: FollowState[K, P],
        open_documents: Callable[[int], ObjectStore],
        *,
        max_bytes: int,
    ) -> FollowState[K, P] | None:
        """Select what the next cycle restores; None if there is nothing new.

        Topics that were restored before come first; new topics get a separate cycle.
        ``open_documents`` opens the place for the documents of a cycle.
        """

    def work_of(self, state: FollowState[K, P], documents: ObjectStore, admin: Admin) -> CycleWork:
        """Return what the open cycle restores; deterministic."""

    def finish(self, state: FollowState[K, P]) -> FollowState[K, P]:
        """Return the state after the open cycle."""

    def forget(self, state: FollowState[K, P], topics: set[str]) -> FollowState[K, P]:
        """Return the state in which topics are restored from their beginning."""

    def lag(self, state: FollowState[K, P]) -> FollowLag:
        """Return the lag of the state behind the source, as last read."""

    def gaps(self) -> Iterable[Gap]:
        """Return the offsets of the followed topics that were never archived."""


@dataclass(kw_only=True)
class Follower(Generic[K, P]):
    """One restore that follows a source. All clients are passed in."""

    source: FollowSource[K, P]
    locations: Locations
    admin: Admin
    store: ObjectStore
    state_store: ObjectStore
    """Where the follower's states are stored."""
    open_documents: Callable[[int], ObjectStore]
    """Opens the place for the documents of one cycle."""
    run_tasks: RunTasks
    slots: Callable[[], int]
    now_ms: Callable[[], int]
    max_cycle_bytes: int = CYCLE_BYTES
    on_progress: Callable[[int, int], None] = lambda _done, _total: None
    """Called while a cycle writes, with its records written and to write."""
    state: FollowState[K, P] = field(init=False)

    def begin(self) -> None:
        """Load the state; NoSuchArchiveError if there is nothing to follow."""
        self.state = self.source.begin(self.source.format.load(self.state_store))
        self.sweep()

    def step(self) -> RestoreSummary | None:
        """Restore one cycle and store the new state; None if there was nothing new."""
        if not self._is_begun():
            self._apply_new_names()
        if self.state.cycle is None and not self._open_cycle():
            return None
        job = self._job()
        summary = job.run(job.preflight(), self.run_tasks)
        failpoint("follow.written")
        self._save(self.source.finish(self.state))
        failpoint("follow.finished")
        if self.state.cycles % SWEEP_EVERY == 0:
            self.sweep()
        return summary

    def sweep(self) -> None:
        """Delete states and documents of cycles that ended a day ago."""
        before_ms = self.now_ms() - KEPT_MS
        self.source.format.sweep(self.state_store, self.state, before_ms=before_ms)
        done = range(1, self.state.cycles)
        first = bisect_left(done, True, key=self._has_documents)
        for number in done[first : first + SWEPT_AT_ONCE]:
            documents = self.open_documents(number)
            found = list(documents.list(""))
            if any(info.modified_ms >= before_ms for info in found):
                return
            for info in found:
                documents.delete(info.key)

    def cycle_id(self, number: int) -> str:
        """Return the id of a cycle's restore; it does not depend on the options.

        A cycle therefore continues with other options only if they match what is already written.
        """
        text = f"{self.state_store.describe()}\n{number}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _has_documents(self, number: int) -> bool:
        return next(iter(self.open_documents(number).list("")), None) is not None

    def _save(self, state: FollowState[K, P]) -> None:
        self.source.format.save(self.state_store, state)
        self.state = state

    def _is_begun(self) -> bool:
        """Return whether the open cycle may have written records already."""
        if self.state.cycle is None:
            return False
        number = self.state.cycle.number
        return load_document(self.open_documents(number), self.cycle_id(number)) is not None

    def _apply_new_names(self) -> None:
        """Restore a topic that has a new target name from its beginning, under that name.

        A cycle that has started is finished under its names. A cycle that has not started, for
        example because its target was refused, is abandoned.
        """
        options = self.source.options
        names = dict(options.topics)
        moved = {
            topic
            for topic, name in self.state.targets.items()
            if options.wants(topic) and names.get(topic, topic) != name
        }
        if moved:
            logger.info(
                "restored under new names, from the beginning: %s", ", ".join(sorted(moved))
            )
            self._save(self.source.forget(self.state, moved))

    def _open_cycle(self) -> bool:
        """Store what the next cycle restores, if there is anything."""
        opened = self.source.open_cycle(
            self.state, self.open_documents, max_bytes=self.max_cycle_bytes
        )
        if opened is None:
            return False
        failpoint("follow.planned")
        self._save(opened)
        failpoint("follow.opened")
        return True

    def _job(self) -> RestoreJob:
        """Return the restore of the open cycle."""
        assert self.state.cycle is not None
        number = self.state.cycle.number
        documents = self.open_documents(number)
        work = self.source.work_of(self.state, documents, self.admin)
        self._grow_targets(work.partition_counts)
        return RestoreJob(
            options=work.options,
            locations=self.locations,
            admin=self.admin,
            store=self.store,
            source=work.entries,
            documents=documents,
            slots=self.slots,
            now_ms=self.now_ms,
            id=self.cycle_id(number),
            is_cycle=not self.source.is_one_shot,
            on_progress=self.on_progress,
        )

    def _grow_targets(self, counts: Mapping[str, int]) -> None:
        """Add the partitions that a topic has gained since its first restore to its target."""
        options = self.source.options
        if options.partition_count is not None or options.partition_map:
            return  # the options set the number of partitions
        for topic, count in sorted(counts.items()):
            target = self.state.targets.get(topic, topic)
            there = self.admin.topics([target]).get(target)
            if there is not None and there.partition_count < count:
                self.admin.create_partitions(target, count)


def cycle_options(
    options: RestoreOptions, state: FollowState[K, P], topics: Iterable[str]
) -> RestoreOptions:
    """Return the options of a cycle of these topics, under the names it was opened with."""
    chosen, restored = sorted(topics), state.restored_topics
    return replace(
        options,
        topics=tuple((topic, state.targets.get(topic, topic)) for topic in chosen),
        topics_regex=None,
        into_non_empty=options.into_non_empty or all(topic in restored for topic in chosen),
    )


@dataclass(frozen=True, kw_only=True)
class OpenCycle(Generic[K, P]):
    """The cycle that is being restored."""

    number: int
    reference: int
    """The commit of the log, or the number of the stored list of objects."""
    ends: Mapping[K, P] = field(default_factory=dict)
    """The positions after the cycle, if they are known in advance."""


@dataclass(frozen=True, kw_only=True)
class FollowState(Generic[K, P]):
    """One revision: everything before ``positions`` is restored."""

    log: str = ""
    """The log that is followed; empty without one."""
    revision: int = -1
    cycles: int = 0
    """The number of cycles that were finished or abandoned."""
    positions: Mapping[K, P] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    """The names that topics are restored under."""
    cycle: OpenCycle[K, P] | None = None

    @property
    def restored_topics(self) -> set[str]:
        """The archived topics that are restored, at least in part."""
        return {key.topic for key in self.positions}

    def begin(
        self, reference: int, targets: Mapping[str, str], ends: Mapping[K, P] | None = None
    ) -> FollowState[K, P]:
        """Return the revision that opens the next cycle, whose topics get these names."""
        opened = OpenCycle(number=self.cycles + 1, reference=reference, ends=ends or {})
        return replace(
            self,
            revision=self.revision + 1,
            targets={**self.targets, **targets},
            cycle=opened,
        )

    def finish(self, ends: Mapping[K, P]) -> FollowState[K, P]:
        """Return the revision after the open cycle, which ended at ``ends``."""
        assert self.cycle is not None
        return replace(
            self,
            revision=self.revision + 1,
            cycles=self.cycle.number,
            positions={**self.positions, **ends},
            cycle=None,
        )

    def forget(self, topics: Collection[str]) -> FollowState[K, P]:
        """Return the revision in which nothing of these topics is restored yet."""
        kept = {key: at for key, at in self.positions.items() if key.topic not in topics}
        named = {topic: name for topic, name in self.targets.items() if topic not in topics}
        return replace(self.move(kept), targets=named)

    def move(self, positions: Mapping[K, P]) -> FollowState[K, P]:
        """Return the revision that continues from other positions; an open cycle is abandoned."""
        cycles = self.cycle.number if self.cycle else self.cycles
        return replace(
            self, revision=self.revision + 1, cycles=cycles, positions=positions, cycle=None
        )


@dataclass(frozen=True)
class StateFormat(Generic[K, P]):
    """How the states of one kind of source are stored."""

    folder: str
    older_fields: tuple[str, ...]
    """The fields of documents that were written before documents had a checksum."""
    to_json: Callable[[FollowState[K, P]], dict[str, Any]]
    from_json: Callable[[Mapping[str, Any]], FollowState[K, P]]

    def load(self, store: ObjectStore) -> FollowState[K, P] | None:
        """Return the newest revision, or None when nothing was ever restored."""
        newest = load_newest(revisions_in(store, self.folder))
        return None if newest is None else self._parse(*newest)

    def save(self, store: ObjectStore, state: FollowState[K, P]) -> None:
        """Create a revision; FencedError if another worker created it first."""
        document = {"version": VERSION, **self.to_json(state)}
        revisions = revisions_in(store, self.folder)
        save_revision(revisions, state.revision, dump_with_checksum(document))

    def sweep(self, store: ObjectStore, state: FollowState[K, P], *, before_ms: int) -> None:
        """Delete earlier revisions that are older than ``before_ms``."""
        revisions = revisions_in(store, self.folder)
        revisions.prune(state.revision, modified_before_ms=before_ms)

    def _parse(self, body: bytes, key: str) -> FollowState[K, P]:
        try:
            check_checksum(body, key)
            document: dict[str, Any] = orjson.loads(body)
            check_version(key, document["version"], VERSION)
            require_checksum(body, document, key, self.older_fields)
            return self.from_json(document)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"{key} is not the state of a restore: {error}") from error
