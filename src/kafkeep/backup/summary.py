"""The totals of a backup, counted with each commit. Runs on the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.commit import Changes, Gap
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import ClusterSnapshot
from kafkeep.backup.plan import CyclePlan


@dataclass(slots=True)
class BackupSummary:
    """Totals of one run. ``bytes`` counts record batches as Kafka holds them."""

    records: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    objects: int = 0
    commit: int = -1
    gaps: list[Gap] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    """Topic → records that this run archived. Includes topics without new records."""
    blocked: tuple[PartitionId, ...] = ()
    skipped_groups: tuple[str, ...] = ()
    """Consumer groups that this backup is not allowed to read."""
    bad: int = 0
    """Records skipped because they could not be converted, transformed or placed."""
    waiting: int = 0
    """Offsets of the last snapshot that were not archived when the run ended."""
    readable: dict[PartitionId, OffsetRange] = field(default_factory=dict, repr=False)
    """The offsets of the last snapshot that no open transaction holds back."""
    cycles: int = 0
    """Cycles that ran tasks."""
    seconds: float = 0.0
    start_seconds: float = 0.0

    def note_snapshot(self, snapshot: ClusterSnapshot, plan: CyclePlan) -> None:
        """Update topics, blocked partitions and readable offsets from a snapshot."""
        for name in snapshot.topics:
            self.topics.setdefault(name, 0)
        self.blocked = plan.blocked
        self.skipped_groups = snapshot.skipped_groups
        self.readable = {
            pid: OffsetRange(
                span.start, snapshot.topics[pid.topic].partitions[pid.partition].stable
            )
            for pid, span in plan.spans.items()
        }

    def count(self, changes: Changes) -> None:
        """Add the counts of one commit."""
        for entry in changes.entries:
            self.records += entry.own_records
            self.bytes += entry.raw_bytes
            self.stored_bytes += entry.size_bytes
            topic = entry.partition_id.topic
            self.topics[topic] = self.topics.get(topic, 0) + entry.own_records
        self.objects += len(changes.entries)
        self.gaps.extend(changes.gaps)

    def finish(self, state: LogState) -> BackupSummary:
        """Set the number of the last commit, and count the offsets that are not archived."""
        self.commit = state.commit
        self.waiting = sum(
            max(0, offsets.end - max(offsets.start, state.positions.get(pid, 0)))
            for pid, offsets in self.readable.items()
        )
        return self

    @property
    def exit_code(self) -> int:
        """3 if offsets were lost or held back, records skipped or groups not readable; else 0."""
        return 3 if self.gaps or self.blocked or self.bad or self.skipped_groups else 0

    def to_json(self) -> dict[str, Any]:
        """Return the last document of ``--output json``."""
        return {
            "message_type": "summary",
            "records": self.records,
            "bytes": self.bytes,
            "stored_bytes": self.stored_bytes,
            "objects": self.objects,
            "commit": self.commit,
            "gaps": [
                {**range_json(gap.partition_id, gap.range), "reason": gap.reason}
                for gap in self.gaps
            ],
            "waiting": self.waiting,
            "bad": self.bad,
            "blocked": [str(pid) for pid in self.blocked],
            "skipped_groups": list(self.skipped_groups),
            "topics": self.topics,
            "seconds": round(self.seconds, 3),
            "start_seconds": round(self.start_seconds, 3),
        }


def range_json(partition_id: PartitionId, range: OffsetRange) -> dict[str, Any]:
    """Return offsets of one partition as the documents of a backup name them."""
    topic, incarnation, partition = partition_id
    return {
        "topic": topic,
        "incarnation": incarnation,
        "partition": partition,
        "start": range.start,
        "end": range.end,
    }
