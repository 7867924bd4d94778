"""What a log says at one of its commits, and how the next commit changes it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kafkeep.archive.commit import Changes, Commit, Intent, LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that a writer needs to go on; entries and gaps are left to the reader."""

    name: str
    commit: int = -1
    """Number of the last commit; -1 for a log that has none."""
    digest: str = ""
    epoch: int = 0
    writer: str = ""
    at_ms: int = 0
    positions: Mapping[PartitionId, int] = field(default_factory=dict)
    topics: Mapping[tuple[str, int], TopicInfo] = field(default_factory=dict)
    """By topic and incarnation."""
    leader_epochs: Mapping[PartitionId, int] = field(default_factory=dict)
    spans: Mapping[PartitionId, LogSpan] = field(default_factory=dict)
    groups: Mapping[str, Mapping[PartitionId, int]] = field(default_factory=dict)
    intent: Intent | None = None
    """What was planned and not yet finished; it must be finished before anything else."""

    @property
    def commits(self) -> int:
        """How many commits the log has."""
        return self.commit + 1

    def latest_incarnation(self, topic: str) -> TopicInfo | None:
        """Return the newest topic of that name, or None when it was never seen."""
        found = [info for (name, _), info in self.topics.items() if name == topic]
        return max(found, key=lambda info: info.incarnation, default=None)


def apply(state: State, commit: Commit, digest: str) -> State:
    """Return the state after ``commit``, whose bytes have ``digest``.

    ValueError when the commit cannot follow: it does not chain, an epoch or a position moves
    back, ranges overlap, or an intent would be lost.
    """
    _check_chain(state, commit)
    changes = commit.changes
    check_changes(state, changes)
    return replace(
        state,
        commit=commit.number,
        digest=digest,
        epoch=commit.epoch,
        writer=commit.writer,
        at_ms=commit.at_ms,
        positions=_merged(state.positions, changes.positions),
        topics=_merged(state.topics, {(t.topic, t.incarnation): t for t in changes.topics}),
        leader_epochs=_merged(state.leader_epochs, changes.leader_epochs),
        spans=_merged(state.spans, changes.spans),
        groups=_merged_groups(state.groups, changes.groups),
        intent=_next_intent(state, changes),
    )


def check_changes(state: State, changes: Changes) -> None:
    """Raise ValueError when ``changes`` cannot be the next step after ``state``."""
    for partition_id, position in changes.positions.items():
        before = state.positions.get(partition_id, 0)
        if position < before:
            raise ValueError(f"{partition_id}: position moves back from {before} to {position}")
    for partition_id, ranges in _claimed(changes).items():
        _check_tiling(state, changes, partition_id, sorted(ranges))
    if changes.closes_intent and state.intent is None:
        raise ValueError("there is no open intent to close")
    if changes.intent and state.intent and not changes.closes_intent:
        raise ValueError("an intent is open: it must be finished before the next")


def _check_chain(state: State, commit: Commit) -> None:
    if commit.number != state.commit + 1:
        raise ValueError(f"commit {commit.number} cannot follow commit {state.commit}")
    if commit.previous != state.digest:
        raise ValueError(f"commit {commit.number} does not continue commit {state.commit}")
    if commit.epoch < state.epoch:
        raise ValueError(f"epoch moves back from {state.epoch} to {commit.epoch}")
    if commit.epoch == state.epoch and commit.writer != state.writer:
        raise ValueError(f"epoch {commit.epoch} has two writers")
    if commit.at_ms < state.at_ms:
        raise ValueError(f"time moves back from {state.at_ms} to {commit.at_ms}")


def _claimed(changes: Changes) -> dict[PartitionId, list[OffsetRange]]:
    """Return what each partition is told of; objects that share a range claim it once."""
    claimed: dict[PartitionId, list[OffsetRange]] = {}
    shared: Counter[tuple[PartitionId, OffsetRange]] = Counter()
    for entry in changes.entries:
        if not 0 <= entry.records <= len(entry.range):
            raise ValueError(f"{entry.key}: {entry.records} records in {len(entry.range)} offsets")
        place = entry.partition_id, entry.range
        if entry.parts > 1:
            shared[place] += 1
            if shared[place] > entry.parts:
                raise ValueError(f"{entry.key}: its range has more than {entry.parts} objects")
            if shared[place] > 1:
                continue
        claimed.setdefault(entry.partition_id, []).append(entry.range)
    for gap in changes.gaps:
        claimed.setdefault(gap.partition_id, []).append(gap.range)
    return claimed


def _check_tiling(
    state: State, changes: Changes, partition_id: PartitionId, ranges: list[OffsetRange]
) -> None:
    before = reached = state.positions.get(partition_id, 0)
    for offsets in ranges:
        if offsets.start < reached or len(offsets) == 0:
            raise ValueError(
                f"{partition_id}: {offsets.start}..{offsets.end} is empty"
                f" or overlaps what is archived up to {reached}"
            )
        reached = offsets.end
    position = changes.positions.get(partition_id, before)
    if reached > position:
        raise ValueError(f"{partition_id}: ranges end at {reached}, past the position {position}")


def _next_intent(state: State, changes: Changes) -> Intent | None:
    if changes.intent is not None:
        return changes.intent
    return None if changes.closes_intent else state.intent


def _merged(before: Mapping[K, V], added: Mapping[K, V]) -> Mapping[K, V]:
    return {**before, **added} if added else before


def _merged_groups(
    before: Mapping[str, Mapping[PartitionId, int]], added: Mapping[str, Mapping[PartitionId, int]]
) -> Mapping[str, Mapping[PartitionId, int]]:
    merged = _merged(before, added)
    return {group: offsets for group, offsets in merged.items() if offsets} if added else merged
