"""The state of a log at one of its commits, and how the next commit changes it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kafkeep.archive.commit import (
    Changes,
    Commit,
    Gap,
    Intent,
    LogSpan,
    PlannedRange,
    Retirements,
    TopicInfo,
    is_retired,
    with_retirement,
)
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Everything that a writer needs to continue. Readers load entries and gaps separately."""

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
    schemas: str = ""
    """Digest of the newest document of schemas; empty when no registry was ever read."""
    intent: Intent | None = None
    """Planned, unfinished work. A writer must finish it first."""
    retired: Mapping[PartitionId, Retirements] = field(default_factory=dict)
    generations: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By topic and incarnation; only for topics that were moved back."""

    @property
    def commits(self) -> int:
        return self.commit + 1

    def latest_incarnation(self, topic: str) -> TopicInfo | None:
        """Return the newest topic of that name, or None when it was never archived."""
        found = [info for (name, _), info in self.topics.items() if name == topic]
        return max(found, key=lambda info: info.incarnation, default=None)

    def generation(self, partition_id: PartitionId) -> int:
        """Return the generation of new entries, gaps and planned ranges of a partition."""
        return self.generations.get(partition_id[:2], 0)

    def planned(self, planned: PlannedRange) -> PlannedRange:
        """Return a planned range with its current generation."""
        return replace(planned, generation=self.generation(planned.partition_id))

    def last_folder(self, topic: str) -> int:
        """Return the highest folder number of a topic; the next incarnation gets a higher one.

        Incarnations and generations share these numbers, so that each has a folder of its own.
        """
        numbers = [number for name, number in self.topics if name == topic]
        numbers += [pid.incarnation for pid in self.positions if pid.topic == topic]
        numbers += [number for (name, _), number in self.generations.items() if name == topic]
        return max(numbers, default=0)

    def last_folders(self) -> dict[str, int]:
        """Return ``last_folder`` of each topic that was moved back."""
        return {topic: self.last_folder(topic) for topic, _ in self.generations}

    def counts(self, partition_id: PartitionId, generation: int, end: int) -> bool:
        """Return whether data committed under a generation, up to ``end``, is not retired."""
        return not is_retired(self.retired.get(partition_id, ()), generation, end)


def apply(state: LogState, commit: Commit, digest: str) -> LogState:
    """Return the state after ``commit``, whose bytes have ``digest``.

    ValueError when the commit cannot follow: it does not continue the chain, its epoch moves back,
    a position moves back without being retired, ranges overlap, or an intent would be lost.
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
        positions=_merged(_without(state.positions, changes.retired), changes.positions),
        topics=_merged(state.topics, {(t.topic, t.incarnation): t for t in changes.topics}),
        leader_epochs=_merged_epochs(state, changes),
        spans=_merged(state.spans, changes.spans),
        groups=_merged_groups(_bounded_groups(state, changes), changes.groups),
        schemas=changes.schemas or state.schemas,
        intent=_next_intent(state, changes),
        retired=_next_retired(state, changes),
        generations=_next_generations(state, changes),
    )


def check_changes(state: LogState, changes: Changes) -> None:
    """Raise ValueError when ``changes`` cannot be the next step after ``state``."""
    for partition_id, position in changes.positions.items():
        before = _reached(state, changes, partition_id)
        if position < before:
            raise ValueError(f"{partition_id}: position moves back from {before} to {position}")
    _check_retired(state, changes)
    _check_generations(state, changes)
    for partition_id, ranges in _claimed(changes).items():
        _check_tiling(state, changes, partition_id, sorted(ranges))
    if changes.closes_intent and state.intent is None:
        raise ValueError("there is no open intent to close")
    if changes.intent and state.intent and not changes.closes_intent:
        raise ValueError("an intent is open: it must be finished before the next")


def stamped(state: LogState, changes: Changes) -> Changes:
    """Return ``changes`` with the current generation in their entries and gaps.

    Planned ranges keep their generation, because it determined their folder.
    """
    generations = _next_generations(state, changes)
    if not generations:
        return changes
    entries = [
        replace(e, generation=generations.get(e.partition_id[:2], 0)) for e in changes.entries
    ]
    gaps = [replace(g, generation=generations.get(g.partition_id[:2], 0)) for g in changes.gaps]
    return replace(changes, entries=tuple(entries), gaps=tuple(gaps))


def _reached(state: LogState, changes: Changes, partition_id: PartitionId) -> int:
    """Return the position of a partition after the commit's retirements, before its entries."""
    if partition_id in changes.retired:
        return changes.retired[partition_id]
    return state.positions.get(partition_id, 0)


def _check_retired(state: LogState, changes: Changes) -> None:
    for partition_id, offset in changes.retired.items():
        position = state.positions.get(partition_id)
        if position is None or not 0 <= offset <= position:
            raise ValueError(f"{partition_id}: {offset} cannot be retired from {position} back")
        if offset and partition_id not in changes.positions:
            raise ValueError(f"{partition_id}: retired from {offset} on without a new position")
    if changes.retired and state.intent and not changes.closes_intent:
        raise ValueError("an intent is open: the commit that moves its topics back must close it")


def _check_generations(state: LogState, changes: Changes) -> None:
    """Raise ValueError for entries, gaps and planned ranges of another generation."""
    generations = _next_generations(state, changes)
    items: list[Entry | Gap | PlannedRange] = [*changes.entries, *changes.gaps]
    for item in (*items, *(changes.intent.ranges if changes.intent else ())):
        wanted = generations.get(item.partition_id[:2], 0)
        if item.generation != wanted:
            raise ValueError(f"{item.partition_id}: generation {item.generation}, not {wanted}")


def _check_chain(state: LogState, commit: Commit) -> None:
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
    """Return the ranges of each partition; objects that share a range count once."""
    claimed: dict[PartitionId, list[OffsetRange]] = {}
    shared: Counter[tuple[PartitionId, OffsetRange]] = Counter()
    for entry in changes.entries:
        if not 0 <= entry.records <= len(entry.range):
            raise ValueError(f"{entry.key}: {entry.records} records in {len(entry.range)} offsets")
        shared_range = entry.partition_id, entry.range
        if entry.parts > 1:
            shared[shared_range] += 1
            if shared[shared_range] > entry.parts:
                raise ValueError(f"{entry.key}: its range has more than {entry.parts} objects")
            if shared[shared_range] > 1:
                continue
        claimed.setdefault(entry.partition_id, []).append(entry.range)
    for gap in changes.gaps:
        claimed.setdefault(gap.partition_id, []).append(gap.range)
    return claimed


def _check_tiling(
    state: LogState, changes: Changes, partition_id: PartitionId, ranges: list[OffsetRange]
) -> None:
    before = reached = _reached(state, changes, partition_id)
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


def _next_intent(state: LogState, changes: Changes) -> Intent | None:
    if changes.intent is not None:
        return changes.intent
    return None if changes.closes_intent else state.intent


def _next_generations(state: LogState, changes: Changes) -> Mapping[tuple[str, int], int]:
    topics = sorted({partition_id[:2] for partition_id in changes.retired})
    generations = dict(state.generations) if topics else state.generations
    for topic, incarnation in topics:
        generations = {**generations, (topic, incarnation): state.last_folder(topic) + 1}
    return generations


def _next_retired(state: LogState, changes: Changes) -> Mapping[PartitionId, Retirements]:
    generations = _next_generations(state, changes)
    added = {
        pid: with_retirement(state.retired.get(pid, ()), generations[pid[:2]], offset)
        for pid, offset in changes.retired.items()
    }
    return _merged(state.retired, added)


def _merged_epochs(state: LogState, changes: Changes) -> Mapping[PartitionId, int]:
    merged = _merged(_without(state.leader_epochs, changes.retired), changes.leader_epochs)
    if -1 in changes.leader_epochs.values():
        return {pid: epoch for pid, epoch in merged.items() if epoch >= 0}
    return merged


def _bounded_groups(state: LogState, changes: Changes) -> Mapping[str, Mapping[PartitionId, int]]:
    """Keep group offsets within the archived offsets of partitions that were moved back."""
    if not changes.retired:
        return state.groups
    bounded = {}
    for group, offsets in state.groups.items():
        kept = {pid: at for pid, at in offsets.items() if pid not in changes.retired}
        for pid in offsets.keys() & changes.retired.keys() & changes.positions.keys():
            kept[pid] = min(offsets[pid], changes.positions[pid])
        if kept:
            bounded[group] = kept
    return bounded


def _without(before: Mapping[K, V], gone: Mapping[K, int]) -> Mapping[K, V]:
    return {key: value for key, value in before.items() if key not in gone} if gone else before


def _merged(before: Mapping[K, V], added: Mapping[K, V]) -> Mapping[K, V]:
    return {**before, **added} if added else before


def _merged_groups(
    before: Mapping[str, Mapping[PartitionId, int]], added: Mapping[str, Mapping[PartitionId, int]]
) -> Mapping[str, Mapping[PartitionId, int]]:
    merged = _merged(before, added)
    return {group: offsets for group, offsets in merged.items() if offsets} if added else merged
