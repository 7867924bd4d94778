"""The document that a pair share, in their archive: one object per revision, created once.

``_kafkeep/.pairs/<id>/<10^20-1-revision>.json``, so that the newest comes first in a listing; the
id is a digest of the topics. The dot keeps it apart from logs, whose names cannot begin with one.

Connectors that take turns at a fresh snapshot of compacted topics: whose turn is it? Pure.

All of them share one document, changed by conditional creates alone. An instance goes round:

    EMPTY ─begin→ BUILDING ─complete→ COMPLETE ─retire→ RETIRING ─cleaned→ EMPTY

It begins when the newest complete snapshot is old enough, is complete when it holds what the others
hold, and retires only while another one, completed after it, is there and holds as much. So once
a snapshot is complete, there is one at every moment, whoever dies where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkeep.archive.document import (
    FIRST_VERSION,
    as_dict,
    as_int,
    as_str,
    dump_document,
    dump_with_checksum,
    parse_with_checksum,
    reading,
)
from kafkeep.archive.keys import ROOT
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence, Naming
from kafkeep.errors import UnknownOutcomeError

PATIENCE_MS = 300_000
"""An instance that waits to be covered before it retires goes on following after this."""

BUILD_MS = 600_000
"""One that builds is given this time, or a turn if that is longer; then another may begin too."""


class SnapshotPhase(StrEnum):
    """Where an instance's snapshot is."""

    EMPTY = "empty"
    BUILDING = "building"
    COMPLETE = "complete"
    """Whole, and followed: new records are added."""
    RETIRING = "retiring"
    """No longer counted on: its log is being retired, its objects deleted."""


@dataclass(frozen=True, slots=True)
class PairMember:
    """One instance as the document has it."""

    phase: SnapshotPhase
    since_ms: int
    order: int
    """Revision of the document that says so: of two snapshots the later one is the newer."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The document at one revision; -1 before there is any."""

    revision: int = -1
    begun_ms: int = 0
    """When the first of them came."""
    members: Mapping[str, PairMember] = field(default_factory=dict)

    def phase(self, name: str) -> SnapshotPhase:
        """Return where an instance is; one that is not known has nothing."""
        member = self.members.get(name)
        return member.phase if member else SnapshotPhase.EMPTY

    def newest_complete(self) -> str | None:
        """Return the instance whose snapshot was completed last."""
        there = [n for n, m in self.members.items() if m.phase is SnapshotPhase.COMPLETE]
        return max(there, key=lambda name: self.members[name].order, default=None)

    def moved(self, name: str, phase: SnapshotPhase, now_ms: int) -> Pair:
        """Return the next revision; ValueError when the instance may not go there."""
        allowed = _NEXT[self.phase(name)]
        if phase not in allowed or (phase is SnapshotPhase.RETIRING and not self._may_retire(name)):
            raise ValueError(f"{name} cannot be {phase} after {self.phase(name)}")
        number = self.revision + 1
        return Pair(
            revision=number,
            begun_ms=self.begun_ms or now_ms,
            members={**self.members, name: PairMember(phase, now_ms, number)},
        )

    def joined(self, name: str, now_ms: int) -> Pair:
        """Return the next revision, in which an instance is known."""
        entered = PairMember(SnapshotPhase.EMPTY, now_ms, self.revision + 1)
        return replace(
            self,
            revision=self.revision + 1,
            begun_ms=self.begun_ms or now_ms,
            members={**self.members, name: entered},
        )

    def _may_retire(self, name: str) -> bool:
        newest = self.newest_complete()
        return newest is not None and newest != name


_NEXT = {
    SnapshotPhase.EMPTY: {SnapshotPhase.BUILDING},
    SnapshotPhase.BUILDING: {SnapshotPhase.COMPLETE},
    SnapshotPhase.COMPLETE: {SnapshotPhase.RETIRING},
    SnapshotPhase.RETIRING: {SnapshotPhase.EMPTY},
}


class Step(StrEnum):
    """What an instance does next."""

    WAIT = "wait"
    """Nothing: it is passive."""
    BEGIN = "begin"
    """Say that it builds."""
    WORK = "work"
    """Archive; it is active."""
    COMPLETE = "complete"
    """Say that its snapshot is complete, and work on."""
    REST = "rest"
    """Stop archiving until the newer snapshot holds what this one holds."""
    RETIRE = "retire"
    """Say that its snapshot no longer counts."""
    CLEAN = "clean"
    """Retire its log, delete its objects, and say that it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an instance knows beside the document."""

    now_ms: int
    length_ms: int
    begins: bool
    """Whether it is the one that begins: ACTIVATE."""
    caught_up: bool = False
    """Of one that builds: its log holds what Kafka had at its beginning, and what the newest
    complete snapshot holds."""
    covered: bool = False
    """Of one that is complete: the newest complete snapshot holds what its log holds."""


def next_step(pair: Pair, me: str, facts: Facts) -> Step:
    """Return what ``me`` is to do at this revision of the document."""
    phase = pair.phase(me)
    if phase is SnapshotPhase.EMPTY:
        return Step.BEGIN if _may_begin(pair, facts) else Step.WAIT
    if phase is SnapshotPhase.BUILDING:
        return Step.COMPLETE if facts.caught_up else Step.WORK
    if phase is SnapshotPhase.RETIRING:
        return Step.CLEAN
    newest = pair.newest_complete()
    if newest is None or newest == me:
        return Step.WORK
    if facts.covered:
        return Step.RETIRE
    waited = facts.now_ms - pair.members[newest].since_ms
    return Step.REST if 0 <= waited < PATIENCE_MS else Step.WORK


def _may_begin(pair: Pair, facts: Facts) -> bool:
    builders = [m for m in pair.members.values() if m.phase is SnapshotPhase.BUILDING]
    patience = max(facts.length_ms, BUILD_MS)
    if any(facts.now_ms - m.since_ms < patience for m in builders):
        return False
    newest = pair.newest_complete()
    if newest is not None:
        return facts.now_ms - pair.members[newest].since_ms >= facts.length_ms
    waited = facts.now_ms - pair.begun_ms >= facts.length_ms
    return (facts.begins and not builders) or waited


FOLDER = f"{ROOT}.pairs/"
MAX_BYTES = 1 << 20


def pair_id(topics: Sequence[str], topics_regex: str | None) -> str:
    """Return what names the pair: connectors of the same topics, in one archive, are one."""
    told = dump_document({"topics": sorted(set(topics)), "topics.regex": topics_regex or ""})
    return hashlib.sha256(told).hexdigest()[:32]


class PairDocument:
    """The document of one pair."""

    def __init__(self, store: ObjectStore, id: str) -> None:
        self._revisions = DocumentSequence(
            store=store,
            folder=f"{FOLDER}{id}/",
            naming=Naming.NEWEST_FIRST,
            max_bytes=MAX_BYTES,
        )

    def load(self) -> Pair:
        """Return its newest revision."""
        newest = self._revisions.newest()
        if newest < 0:
            return Pair()
        return _decode(self._revisions.read(newest), self._revisions.key(newest))

    def put(self, pair: Pair) -> bool:
        """Create a revision; False when another came first, or nobody can tell.

        Whoever is told False loads it again: what was written is in it then.
        """
        try:
            return self._revisions.try_create(pair.revision, _encode(pair))
        except UnknownOutcomeError:
            return False


def _encode(pair: Pair) -> bytes:
    members = {
        name: {"phase": str(m.phase), "since_ms": m.since_ms, "order": m.order}
        for name, m in pair.members.items()
    }
    return dump_with_checksum(
        {
            "version": FIRST_VERSION,
            "revision": pair.revision,
            "begun_ms": pair.begun_ms,
            "members": members,
        }
    )


def _decode(body: bytes, key: str) -> Pair:
    document = parse_with_checksum(body, key, ("version", "revision", "begun_ms", "members"))
    with reading(key):
        members = {
            name: PairMember(
                SnapshotPhase(as_str(member["phase"])),
                as_int(member["since_ms"]),
                as_int(member["order"]),
            )
            for name, member in as_dict(document["members"]).items()
        }
        return Pair(as_int(document["revision"]), as_int(document["begun_ms"]), members)
