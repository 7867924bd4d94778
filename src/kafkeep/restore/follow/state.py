"""How far a following restore has come: the document that a follower writes and resumes from.

Each revision is an object of its own and is created once; the newest counts. The document says
what a cycle restores before anything of that cycle is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import orjson

from kafkeep.archive.document import check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError
from kafkeep.restore.document import check_version, load_newest, revisions_in, save_revision

VERSION = 1


class PartitionKey(Protocol):
    """What positions are kept for: a partition, or a partition's objects in one folder."""

    @property
    def topic(self) -> str:
        """The archived topic."""

    @property
    def partition(self) -> int:
        """The archived partition."""


K = TypeVar("K", bound=PartitionKey)
P = TypeVar("P")
"""A position: an offset of a log, or the last object of a folder."""


@dataclass(frozen=True, kw_only=True)
class OpenCycle(Generic[K, P]):
    """The cycle that is being restored."""

    number: int
    reference: int
    """The commit of the log, or the number of the stored list of objects."""
    ends: Mapping[K, P] = field(default_factory=dict)
    """The positions after the cycle, if they are known before."""


@dataclass(frozen=True, kw_only=True)
class FollowState(Generic[K, P]):
    """One revision: everything before ``positions`` is restored."""

    log: str = ""
    """The log that is followed; empty without one."""
    revision: int = -1
    cycles: int = 0
    """Cycles that are finished or were given up."""
    positions: Mapping[K, P] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    """The names that topics are restored under."""
    cycle: OpenCycle[K, P] | None = None

    @property
    def restored_topics(self) -> set[str]:
        """Archived topics of which something is restored."""
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
        """Return the revision after the open cycle, which came to ``ends``."""
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
        """Return the revision that continues from other positions; an open cycle is given up."""
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
        """Create a revision. FencedError when another worker was faster."""
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
            raise DamagedError(f"{key} does not say how far a restore has come: {error}") from error
