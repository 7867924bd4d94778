"""A commit: one step of the log, and the changes it carries. Pure.

When a partition is moved back, it is archived again from an earlier offset. Data that was committed
after that offset is *retired*. Its topic then gets the next *generation*, and new entries and gaps
carry that number. So readers can distinguish them from retired ones in any order. New objects go to
a folder of that number, where no name is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkeep.archive.document import FORMAT_VERSION
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId

__all__ = [
    "FORMAT_VERSION",
    "Changes",
    "Commit",
    "Gap",
    "Intent",
    "LogSpan",
    "PlannedRange",
    "TopicInfo",
]


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that were never archived, and why."""

    partition_id: PartitionId
    range: OffsetRange
    reason: str
    at_ms: int
    generation: int = 0


BROKER_DEFAULT = -1
"""Makes the broker use its default replication factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic with everything that a restore needs to create it again."""

    topic: str
    incarnation: int
    topic_id: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    """Settings that differ from the broker's defaults."""
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class LogSpan:
    """Where a partition began and ended in Kafka at a snapshot of the cluster."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """One range of offsets that a task archives."""

    partition_id: PartitionId
    topic_id: str
    range: OffsetRange
    generation: int = 0
    """See ``LogState.generation``."""

    @property
    def folder_id(self) -> PartitionId:
        """The partition with its folder's number in place of the incarnation, for object names.

        No name in that folder was taken before the topic was moved back.
        """
        topic, incarnation, partition = self.partition_id
        return PartitionId(topic, self.generation or incarnation, partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a cycle is about to write, committed before the first byte of it.

    ``options`` are the settings that the bytes depend on. The writer that finishes the intent uses
    these instead of its own. The next commit with ``closes_intent`` ends it.
    """

    ranges: tuple[PlannedRange, ...]
    options: Mapping[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of one commit to the state. Every field is optional; empty means unchanged."""

    entries: tuple[Entry, ...] = ()
    positions: Mapping[PartitionId, int] = field(default_factory=dict)
    """Archived up to here (exclusive); moves back only for partitions in ``retired``."""
    retired: Mapping[PartitionId, int] = field(default_factory=dict)
    """From this offset on, earlier commits no longer count. The new position is in ``positions``;
    without one the partition begins anew, as if it had never been archived."""
    gaps: tuple[Gap, ...] = ()
    topics: tuple[TopicInfo, ...] = ()
    leader_epochs: Mapping[PartitionId, int] = field(default_factory=dict)
    """Leader epoch of the last batch before the position, to recognise a truncated partition. -1
    removes it."""
    spans: Mapping[PartitionId, LogSpan] = field(default_factory=dict)
    groups: Mapping[str, Mapping[PartitionId, int]] = field(default_factory=dict)
    """Group → partition → committed offset. A group replaces its earlier offsets; a group without
    any is removed."""
    schemas: str = ""
    """SHA-256 of the document that holds the registry's schemas from here on."""
    intent: Intent | None = None
    closes_intent: bool = False
    note: str = ""
    """A sentence for operators: who began this log, who took it over."""

    @property
    def is_plan(self) -> bool:
        """True if they open an intent, or add to one, without the result of another."""
        return self.intent is not None and not (self.entries or self.leader_epochs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One step of the log, immutable once its conditional create succeeded."""

    log: str
    """The name of the log. It detects a commit that was copied to another log."""
    number: int
    previous: str
    """SHA-256 of the previous commit's bytes; empty for commit 0."""
    epoch: int
    writer: str
    """Identifies the writing process: host, process id and a random part."""
    at_ms: int
    changes: Changes


class Retirement(NamedTuple):
    """Data committed under an earlier generation counts only up to ``offset``."""

    generation: int
    offset: int


Retirements = tuple[Retirement, ...]
"""The retirements of one partition; generations and offsets both ascend."""


def with_retirement(steps: Retirements, generation: int, offset: int) -> Retirements:
    """Return ``steps`` with one more, without the steps that it covers."""
    return (*(s for s in steps if s.offset < offset), Retirement(generation, offset))


def is_retired(steps: Retirements, generation: int, end: int) -> bool:
    """Return whether data committed under ``generation``, up to offset ``end``, is retired.

    An entry that spans the offset is retired whole. The commit that retires it adds an entry for
    the part that still counts.
    """
    return bool(steps) and any(step.generation > generation and end > step.offset for step in steps)
