"""Connectors that take turns at a fresh snapshot of compacted topics: whose turn is it? Pure.

All of them share one document, changed by conditional creates alone. An instance goes round:

    EMPTY ─begin→ BUILDING ─complete→ COMPLETE ─retire→ RETIRING ─cleaned→ EMPTY

It begins when the newest complete snapshot is old enough, is complete when it holds what the others
hold, and retires only while another one, completed after it, is there and holds as much. So once
a snapshot is complete, there is one at every moment, whoever dies where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

PATIENCE_MS = 300_000
"""An instance that waits to be covered before it retires goes on following after this."""

BUILD_MS = 600_000
"""One that builds is given this time, or a turn if that is longer; then another may begin too."""


class Phase(StrEnum):
    """Where an instance's snapshot is."""

    EMPTY = "empty"
    BUILDING = "building"
    COMPLETE = "complete"
    """Whole, and followed: new records are added."""
    RETIRING = "retiring"
    """No longer counted on: its log is being retired, its objects deleted."""


@dataclass(frozen=True, slots=True)
class Member:
    """One instance as the document has it."""

    phase: Phase
    since_ms: int
    order: int
    """Revision of the document that says so: of two snapshots the later one is the newer."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The document at one revision; -1 before there is any."""

    revision: int = -1
    begun_ms: int = 0
    """When the first of them came."""
    members: Mapping[str, Member] = field(default_factory=dict)

    def phase(self, name: str) -> Phase:
        """Return where an instance is; one that is not known has nothing."""
        member = self.members.get(name)
        return member.phase if member else Phase.EMPTY

    def newest_complete(self) -> str | None:
        """Return the instance whose snapshot was completed last."""
        there = [n for n, m in self.members.items() if m.phase is Phase.COMPLETE]
        return max(there, key=lambda name: self.members[name].order, default=None)

    def moved(self, name: str, phase: Phase, now_ms: int) -> Pair:
        """Return the next revision; ValueError when the instance may not go there."""
        allowed = _NEXT[self.phase(name)]
        if phase not in allowed or (phase is Phase.RETIRING and not self._may_retire(name)):
            raise ValueError(f"{name} cannot be {phase} after {self.phase(name)}")
        number = self.revision + 1
        return Pair(
            revision=number,
            begun_ms=self.begun_ms or now_ms,
            members={**self.members, name: Member(phase, now_ms, number)},
        )

    def joined(self, name: str, now_ms: int) -> Pair:
        """Return the next revision, in which an instance is known."""
        entered = Member(Phase.EMPTY, now_ms, self.revision + 1)
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
    Phase.EMPTY: {Phase.BUILDING},
    Phase.BUILDING: {Phase.COMPLETE},
    Phase.COMPLETE: {Phase.RETIRING},
    Phase.RETIRING: {Phase.EMPTY},
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
    if phase is Phase.EMPTY:
        return Step.BEGIN if _may_begin(pair, facts) else Step.WAIT
    if phase is Phase.BUILDING:
        return Step.COMPLETE if facts.caught_up else Step.WORK
    if phase is Phase.RETIRING:
        return Step.CLEAN
    newest = pair.newest_complete()
    if newest is None or newest == me:
        return Step.WORK
    if facts.covered:
        return Step.RETIRE
    waited = facts.now_ms - pair.members[newest].since_ms
    return Step.REST if 0 <= waited < PATIENCE_MS else Step.WORK


def _may_begin(pair: Pair, facts: Facts) -> bool:
    builders = [m for m in pair.members.values() if m.phase is Phase.BUILDING]
    patience = max(facts.length_ms, BUILD_MS)
    if any(facts.now_ms - m.since_ms < patience for m in builders):
        return False
    newest = pair.newest_complete()
    if newest is not None:
        return facts.now_ms - pair.members[newest].since_ms >= facts.length_ms
    waited = facts.now_ms - pair.begun_ms >= facts.length_ms
    return (facts.begins and not builders) or waited
