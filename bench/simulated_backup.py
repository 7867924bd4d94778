"""A backup of a large cluster without Kafka and Spark: the real planner, and objects as counts.

Each cycle is planned by ``plan_cycle`` and cut by ``split_stretches``, as in a backup. What tasks
would write follows from the rule by which segments are closed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkeep.archive.commit import LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.backup.cycle_budget import ArchivedTo
from kafkeep.backup.incarnations import LoggedState
from kafkeep.backup.plan import CycleBacklog, PlanInput, plan_cycle
from kafkeep.backup.reconcile_reports import RANGES_PER_SLOT, split_stretches
from kafkeep.options.backup import SEGMENT_SPARE, BackupOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTopics:
    """Topics whose partitions are all alike."""

    topics: int
    partitions: int
    partition_bytes: int
    record_bytes: int = 1024
    later_record_bytes: int = 1024
    """The size of records in the second half of each partition."""

    @property
    def records(self) -> int:
        """The records of one partition."""
        return self.partition_bytes * 2 // (self.record_bytes + self.later_record_bytes)

    def bytes_before(self, offset: int) -> int:
        """Return the bytes of a partition's records before ``offset``."""
        half = self.records // 2
        return min(offset, half) * self.record_bytes + max(0, offset - half) * (
            self.later_record_bytes
        )

    def offset_at(self, size: int) -> int:
        """Return the first offset with at least ``size`` bytes before it."""
        half = self.records // 2
        first = half * self.record_bytes
        if size <= first:
            return -(-size // self.record_bytes)
        return half - (-(size - first) // self.later_record_bytes)

    def snapshot(self, *, grown: int = 0) -> ClusterSnapshot:
        """Return what a backup sees of the cluster; ``grown`` topics have a new record each."""
        one = PartitionSnapshot(LogSpan(0, self.records), self.records, 1, self.partition_bytes)
        end = self.records + 1
        more = PartitionSnapshot(LogSpan(0, end), end, 1, self.partition_bytes)
        found = {
            name: TopicSnapshot(
                name, "id", 1, {}, (more if number < grown else one, *[one] * (self.partitions - 1))
            )
            for number, name in enumerate(f"topic-{number:05d}" for number in range(self.topics))
        }
        return ClusterSnapshot(0, found, {})

    def infos(self) -> dict[str, TopicInfo]:
        """Return what the log says of the topics."""
        return {
            name: TopicInfo(
                topic=name,
                incarnation=1,
                topic_id="id",
                partitions=self.partitions,
                replication_factor=1,
                configs={},
            )
            for name in self.snapshot().topics
        }


def plan_gained(topics: SimulatedTopics, options: BackupOptions, *, grown: int) -> float:
    """Plan a cycle in which one partition of each of ``grown`` topics has a new record.

    Return its CPU seconds: combining the snapshot with the log, choosing, and comparing the ends.
    """
    snapshot, latest = topics.snapshot(grown=grown), topics.infos()
    before = PlanInput.of(topics.snapshot(), LoggedState({}, latest))
    spans = {pid: partition.span for pid, _, partition in before.iter_partitions()}
    positions = dict.fromkeys(spans, topics.records)
    began = time.process_time()
    plan = plan_cycle(
        PlanInput.of(snapshot, LoggedState(positions, latest)), options, CycleBacklog(), slots=2
    )
    moved = {pid: span for pid, span in plan.spans.items() if spans[pid] != span}
    seconds = time.process_time() - began
    assert len(plan.stretches) == len(moved) == grown, "the cycle reads what is new"
    return seconds


@dataclass(slots=True)
class SimulatedBackup:
    """Runs the cycles of a one-shot backup and counts what they would write."""

    topics: SimulatedTopics
    options: BackupOptions
    slots: int
    most_cycles: int | None = None
    """Stop after so many cycles."""
    objects: int = 0
    cycles: int = 0
    planning_seconds: float = 0.0
    smallest: list[int] = field(default_factory=list)
    """The smallest object of each cycle."""

    def run(self) -> None:
        """Run cycles until everything is archived."""
        snapshot, backlog = self.topics.snapshot(), CycleBacklog()
        positions: dict[PartitionId, int] = {}
        latest = self.topics.infos()
        while self.cycles != self.most_cycles:
            given = PlanInput.of(snapshot, LoggedState(positions, latest))
            began = time.process_time()
            plan = plan_cycle(given, self.options, backlog, slots=self.slots)
            whole = self.options.segment_bytes if plan.catches_up else None
            ranges = split_stretches(
                plan.stretches, tasks=self.slots * RANGES_PER_SLOT, segment_bytes=whole
            )
            self.planning_seconds += time.process_time() - began
            if not ranges:
                return
            self.cycles += 1
            sizes = [size for one in ranges for size in self._objects(one.planned.range)]
            self.objects += len(sizes)
            self.smallest.append(min(sizes))
            for stretch in plan.stretches:
                pid, end = stretch.partition_id, stretch.range.end
                positions[pid] = end
                size = self._size(stretch.range)
                backlog.archived[pid] = ArchivedTo(size / len(stretch.range), 0)

    def _size(self, offsets: OffsetRange) -> int:
        return self.topics.bytes_before(offsets.end) - self.topics.bytes_before(offsets.start)

    def _objects(self, offsets: OffsetRange) -> Iterator[int]:
        """Yield the sizes of the objects that a task makes of a range."""
        limit, start = self.options.segment_bytes, offsets.start
        while start < offsets.end:
            begun = self.topics.bytes_before(start)
            end = self.topics.offset_at(begun + limit)
            if (offsets.end - end) * SEGMENT_SPARE <= end - start:
                end = self.topics.offset_at(begun + limit + limit // SEGMENT_SPARE)
            end = max(start + 1, min(end, offsets.end))
            yield self._size(OffsetRange(start, end))
            start = end
