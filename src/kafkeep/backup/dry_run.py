"""Say what a backup would read and write, without writing anything. Runs on the driver.

The same checks run as before a backup: topics, access, the log, truncated partitions, gaps. Not
checked is whether the store honours conditional creates, because that takes writing; ``kafkeep
doctor`` does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafkeep.archive.checkpoint import load_log
from kafkeep.archive.commit import Gap, PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.names import log_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import (
    check_intent,
    complete_snapshot,
    describe_topics,
    require_topics,
    take_snapshot,
)
from kafkeep.backup.cycle_budget import count_segments
from kafkeep.backup.incarnations import LoggedState, current_epochs, current_groups
from kafkeep.backup.job import load_starts
from kafkeep.backup.plan import CycleBacklog, CyclePlan, PlanInput, plan_cycle
from kafkeep.backup.run import refuse_memory_store
from kafkeep.backup.schemas import schema_keeper
from kafkeep.backup.summary import range_json
from kafkeep.clock import now_ms
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.storage import ArchiveAddress
from kafkeep.store.memory import MemoryStore
from kafkeep.store.open import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """What a backup would read of one partition."""

    partition_id: PartitionId
    range: OffsetRange
    est_bytes: int
    """The size of its batches, from the size of the partition in Kafka."""

    def to_json(self) -> dict[str, Any]:
        return {
            **range_json(self.partition_id, self.range),
            "records_at_most": len(self.range),
            "est_bytes": self.est_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupForecast:
    """What a backup would read and write."""

    archive: str
    log: str
    commit: int
    """The last commit of the log; -1 if the log does not exist yet."""
    format: str
    topics: tuple[str, ...]
    """All topics of the backup, by folder, also those without new records."""
    new_topics: tuple[str, ...]
    """Topics, by folder, that the log does not have yet."""
    partitions: tuple[PlannedPartition, ...]
    gaps: tuple[Gap, ...]
    blocked: tuple[PartitionId, ...]
    skipped_groups: tuple[str, ...]
    groups: int
    unfinished: tuple[PlannedRange, ...]
    """What an interrupted run has planned; the backup reads it first."""
    segment_bytes: int | None
    """The largest size of an object, of batches; None for a sink."""

    @property
    def records_at_most(self) -> int:
        """Offsets to read. Holes of transactions and compaction are offsets without a record."""
        planned = sum(len(planned.range) for planned in self.unfinished)
        return planned + sum(len(one.range) for one in self.partitions)

    @property
    def est_bytes(self) -> int:
        return sum(one.est_bytes for one in self.partitions)

    @property
    def objects_at_least(self) -> int | None:
        """The number of objects; None for a sink, whose records decide it."""
        if self.segment_bytes is None:
            return None
        return sum(count_segments(p.est_bytes, self.segment_bytes) for p in self.partitions)

    @property
    def exit_code(self) -> int:
        """3 if the backup would end with 3 for what is known now; else 0."""
        return 3 if self.gaps or self.blocked or self.skipped_groups else 0

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``--dry-run --output json``."""
        return {
            "message_type": "plan",
            "archive": self.archive,
            "log": self.log,
            "commit": self.commit,
            "format": self.format,
            "topics": list(self.topics),
            "new_topics": list(self.new_topics),
            "partitions": [one.to_json() for one in self.partitions],
            "records_at_most": self.records_at_most,
            "est_bytes": self.est_bytes,
            "objects_at_least": self.objects_at_least,
            "gaps": [
                {**range_json(gap.partition_id, gap.range), "reason": gap.reason}
                for gap in self.gaps
            ],
            "blocked": [str(pid) for pid in self.blocked],
            "skipped_groups": list(self.skipped_groups),
            "groups": self.groups,
            "unfinished": [
                range_json(planned.partition_id, planned.range) for planned in self.unfinished
            ],
        }


def forecast_backup(options: BackupOptions, locations: Locations) -> BackupForecast:
    """Plan a backup of everything that Kafka holds now; write nothing, start no Spark.

    With ``follow``, topics that do not exist yet are left out: the backup waits for them.
    """
    log_name(options.name)
    refuse_memory_store(locations.archive)
    with Wire(locations.kafka) as wire:
        admin = Admin(wire)
        admin.cluster_id()
        described = describe_topics(admin, options)
        if not options.follow:
            require_topics(described, options)
        snapshot = take_snapshot(admin, options, now_ms=now_ms(), described=described)
        store = _open(locations)
        state = load_log(store, options.name).state
        keeper = schema_keeper(options, store)
        if keeper is not None:
            keeper.check()
        if state.intent is not None:
            check_intent(admin, state.intent, state)
        snapshot = complete_snapshot(
            admin,
            options,
            snapshot,
            epochs=current_epochs(state),
            known_groups=current_groups(state),
        )
        given = PlanInput.of(snapshot, LoggedState.of(state))
        starts, _ = load_starts(admin, given, options.group, options.start_at)
    plan = plan_all(given, options, state, starts)
    return describe_plan(plan, given, options, state, archive=locations.archive)


def plan_all(
    given: PlanInput,
    options: BackupOptions,
    state: LogState,
    starts: Mapping[PartitionId, int],
) -> CyclePlan:
    """Plan to read everything in one cycle. Pure. Raise GapError under ``--on-gap fail``."""
    everything = replace(options, follow=False, cycle_bytes=2**63 - 1)
    unfinished = state.intent.ranges if state.intent is not None else ()
    return plan_cycle(
        given,
        everything,
        CycleBacklog(),
        skip={planned.partition_id for planned in unfinished},
        starts=starts,
    )


def describe_plan(
    plan: CyclePlan, given: PlanInput, options: BackupOptions, state: LogState, *, archive: str
) -> BackupForecast:
    """Return the plan as what users see. Pure."""
    folders = {
        (info.topic, info.incarnation): PartitionId(info.topic, info.incarnation, 0).folder
        for info in given.topics.values()
    }
    return BackupForecast(
        archive=archive,
        log=options.name,
        commit=state.commit,
        format=options.format,
        topics=tuple(sorted(folders.values())),
        new_topics=tuple(sorted(f for key, f in folders.items() if key not in state.topics)),
        partitions=tuple(
            PlannedPartition(partition_id=s.partition_id, range=s.range, est_bytes=s.est_bytes)
            for s in plan.stretches
        ),
        gaps=plan.gaps,
        blocked=plan.blocked,
        skipped_groups=given.snapshot.skipped_groups,
        groups=len(plan.groups),
        unfinished=state.intent.ranges if state.intent is not None else (),
        segment_bytes=options.segment_bytes if options.sink is None else None,
    )


def _open(locations: Locations) -> ObjectStore:
    """Open the archive; a folder that does not exist yet is an empty archive."""
    where = ArchiveAddress.parse(locations.archive)
    if where.kind == "file" and not Path(where.path).exists():
        return MemoryStore(where.path)
    return open_store(locations.archive, locations.storage)
