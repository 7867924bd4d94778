"""The document that the members of a compacted pair share, and the rule for who archives next.

The document has one object per revision, created once:
``_kafkeep/.pairs/<id>/<10^20-1-revision>.json``. The newest revision comes first in a listing. The
id is a digest of the topics. The dot separates it from logs, whose names cannot begin with one.

Each member has a snapshot of the topics, which goes through these phases:

    EMPTY ─begin→ BUILDING ─complete→ COMPLETE ─retire→ RETIRING ─cleaned→ EMPTY

A member begins when the newest complete snapshot is old enough. It is complete when it holds what
the others hold. It retires only while a snapshot that was completed after it holds as much. So once
a snapshot is complete, there is one at every moment, whichever member dies.
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
from kafkeep.archive.names import ROOT
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence, SequenceNaming
from kafkeep.errors import UnknownOutcomeError

RETIRE_TIMEOUT_MS = 300_000
"""A member that waits to be covered before it retires resumes archiving after this."""

BUILD_MS = 600_000
"""A building member has this time, or its length if that is longer; then another may begin."""


class SnapshotPhase(StrEnum):
    """The phase of a member's snapshot."""

    EMPTY = "empty"
    BUILDING = "building"
    COMPLETE = "complete"
    """Complete, and followed: new records are added."""
    RETIRING = "retiring"
    """Not used any more: its log is being retired and its objects deleted."""


@dataclass(frozen=True, slots=True)
class PairMember:
    """One member in the document."""

    phase: SnapshotPhase
    since_ms: int
    order: int
    """The revision that set the phase: of two snapshots, the later one is newer."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The document at one revision; -1 before there is any."""

    revision: int = -1
    begun_ms: int = 0
    """When the first member joined."""
    members: Mapping[str, PairMember] = field(default_factory=dict)

    def phase(self, name: str) -> SnapshotPhase:
        """Return a member's phase; an unknown one is empty."""
        member = self.members.get(name)
        return member.phase if member else SnapshotPhase.EMPTY

    def newest_complete(self) -> str | None:
        """Return the member whose snapshot was completed last."""
        there = [n for n, m in self.members.items() if m.phase is SnapshotPhase.COMPLETE]
        return max(there, key=lambda name: self.members[name].order, default=None)

    def moved(self, name: str, phase: SnapshotPhase, now_ms: int) -> Pair:
        """Return the next revision; ValueError for a transition that is not allowed."""
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
        """Return the next revision, with a new member."""
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
    """What a member does next."""

    WAIT = "wait"
    """Nothing: the member is passive."""
    BEGIN = "begin"
    """Enter the phase building."""
    WORK = "work"
    """Archive: the member is active."""
    COMPLETE = "complete"
    """Enter the phase complete, and continue to archive."""
    REST = "rest"
    """Stop archiving until the newer snapshot holds what this one holds."""
    RETIRE = "retire"
    """Enter the phase retiring."""
    CLEAN = "clean"
    """Retire the log, delete its objects, and enter the phase empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """What decides a member's next step, in addition to the document."""

    now_ms: int
    length_ms: int
    begins: bool
    """True for the member that begins: ``ACTIVATE``."""
    caught_up: bool = False
    """True when a building member holds what Kafka had at its start, and what the newest complete
    snapshot holds."""
    covered: bool = False
    """True when the newest complete snapshot holds all that a complete member holds."""


def next_step(pair: Pair, me: str, facts: MemberFacts) -> Step:
    """Return what member ``me`` does at this revision of the document."""
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
    return Step.REST if 0 <= waited < RETIRE_TIMEOUT_MS else Step.WORK


def _may_begin(pair: Pair, facts: MemberFacts) -> bool:
    builders = [m for m in pair.members.values() if m.phase is SnapshotPhase.BUILDING]
    timeout_ms = max(facts.length_ms, BUILD_MS)
    if any(facts.now_ms - m.since_ms < timeout_ms for m in builders):
        return False
    newest = pair.newest_complete()
    if newest is not None:
        return facts.now_ms - pair.members[newest].since_ms >= facts.length_ms
    waited = facts.now_ms - pair.begun_ms >= facts.length_ms
    return (facts.begins and not builders) or waited


FOLDER = f"{ROOT}.pairs/"
MAX_BYTES = 1 << 20


def pair_id(topics: Sequence[str], topics_regex: str | None) -> str:
    """Return the id of a pair: connectors of the same topics in one archive are one pair."""
    document = dump_document({"topics": sorted(set(topics)), "topics.regex": topics_regex or ""})
    return hashlib.sha256(document).hexdigest()[:32]


class PairDocument:
    """The document of one pair."""

    def __init__(self, store: ObjectStore, id: str) -> None:
        self._revisions = DocumentSequence(
            store=store,
            folder=f"{FOLDER}{id}/",
            naming=SequenceNaming.NEWEST_FIRST,
            max_bytes=MAX_BYTES,
        )

    def load(self) -> Pair:
        """Return its newest revision."""
        newest = self._revisions.newest()
        if newest < 0:
            return Pair()
        return _decode(self._revisions.read(newest), self._revisions.key(newest))

    def put(self, pair: Pair) -> bool:
        """Create a revision; False when another came first, or the outcome is unknown.

        After False, load the document again: it contains what was written.
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
