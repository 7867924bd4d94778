"""What no longer counts: a partition that was moved back is archived again from there on. Pure.

Each time, its topic gets the next *generation*, which entries and gaps bear from then on. So what
was committed before can be told from what came later, in any order they are read; and objects go
to a folder of that number, where no name is taken.

A commit: one step of the log, and the changes it carries.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic as it was: what a restore needs to create it again."""

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
    """Where a partition's log began and ended in Kafka when it was looked at."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRange:
    """One stretch a task was told to archive."""

    partition_id: PartitionId
    topic_id: str
    range: OffsetRange
    generation: int = 0
    """As ``State.generation`` says."""

    @property
    def folder_id(self) -> PartitionId:
        """The partition under the number of its folder: for names of objects, and nothing else.

        No name there was taken before the topic was moved back.
        """
        topic, incarnation, partition = self.partition_id
        return PartitionId(topic, self.generation or incarnation, partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a cycle is about to write, committed before the first byte of it.

    ``options`` are the settings that shape the bytes; who finishes the intent uses these, not its
    own. The next commit with ``closes_intent`` ends it.
    """

    ranges: tuple[PlannedRange, ...]
    options: Mapping[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one commit adds to the state. Everything is optional; empty means unchanged."""

    entries: tuple[Entry, ...] = ()
    positions: Mapping[PartitionId, int] = field(default_factory=dict)
    """Archived up to here (exclusive); moves back only where ``retired`` says so."""
    retired: Mapping[PartitionId, int] = field(default_factory=dict)
    """From this offset on, what was committed before no longer counts. The new position is in
    ``positions``; without one the partition begins anew, as if it had never been archived."""
    gaps: tuple[Gap, ...] = ()
    topics: tuple[TopicInfo, ...] = ()
    leader_epochs: Mapping[PartitionId, int] = field(default_factory=dict)
    """Leader epoch of the last batch before the position: shows a log that was cut back. -1
    forgets it."""
    spans: Mapping[PartitionId, LogSpan] = field(default_factory=dict)
    groups: Mapping[str, Mapping[PartitionId, int]] = field(default_factory=dict)
    """Group → partition → committed offset; a group named here replaces what was known of it,
    and is forgotten when it has no offset left."""
    schemas: str = ""
    """SHA-256 of the document that holds the registry's schemas from here on."""
    intent: Intent | None = None
    closes_intent: bool = False
    note: str = ""
    """One sentence for people: what began this log, who took it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One step of the log, immutable once its conditional create succeeded."""

    log: str
    """The name of the log, so that a commit copied elsewhere is noticed."""
    number: int
    previous: str
    """SHA-256 of the previous commit's bytes; empty for commit 0."""
    epoch: int
    writer: str
    """Identifies the writing process: host, process id and a random part."""
    at_ms: int
    changes: Changes


class Retirement(NamedTuple):
    """What was committed under an earlier generation counts up to ``offset`` alone."""

    generation: int
    offset: int


Retirements = tuple[Retirement, ...]
"""Of one partition: generations and offsets both ascend."""


def with_retirement(steps: Retirements, generation: int, offset: int) -> Retirements:
    """Return ``steps`` with one more; those that it covers are dropped, so they stay few."""
    return (*(s for s in steps if s.offset < offset), Retirement(generation, offset))


def is_retired(steps: Retirements, generation: int, end: int) -> bool:
    """Whether what was committed under ``generation``, up to offset ``end``, no longer counts.

    What reaches over the offset is dropped whole: the commit that retires it names again what of
    it still counts.
    """
    return any(step.generation > generation and end > step.offset for step in steps)
