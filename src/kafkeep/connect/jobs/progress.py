"""What a sink's job tells of itself, from its looks and commits.

Others read while one thread writes: a map or set is replaced by a new one, never changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.archive.commit import Commit
from kafkeep.backup.look import Look
from kafkeep.backup.plan import CyclePlan
from kafkeep.connect.model import Progress

TopicPartition = tuple[str, int]


class SinkProgress:
    """Keeps one ``Progress`` up to date."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        progress.ends = {}  # those of an earlier run are none that this one has seen

    def saw(
        self, look: Look, positions: Mapping[TopicPartition, int], plan: CyclePlan | None = None
    ) -> None:
        """Note how far Kafka is ahead of ``positions``, and whether ``plan`` reads any of it."""
        progress = self.progress
        progress.ends = dict(look.stables)
        self._measure(positions, look.at_ms, frozenset())
        if plan is not None and plan.stretches:
            progress.due_since_ms = progress.due_since_ms or look.at_ms
        else:
            progress.due_since_ms = None
        progress.measured_ms = look.at_ms

    def committed(self, commit: Commit, positions: Mapping[TopicPartition, int]) -> None:
        """Count one commit of the log, which now stands at ``positions``."""
        changes, progress = commit.changes, self.progress
        if changes.intent is not None and not changes.closes_intent:
            moved: frozenset[TopicPartition] = frozenset()
        else:
            progress.commits += 1
            progress.last_commit_ms = commit.at_ms
            progress.due_since_ms = None
            moved = frozenset((p.topic, p.partition) for p in changes.positions)
        progress.bytes += sum(entry.raw_bytes for entry in changes.entries)
        progress.objects += len(changes.entries)
        progress.gaps += len(changes.gaps)
        progress.skipped_offsets += sum(len(gap.range) for gap in changes.gaps)
        read = {entry.partition_id.topic for entry in changes.entries}
        if read - progress.topics:
            progress.topics = progress.topics | read
        self._measure(positions, commit.at_ms, moved)
        progress.records += sum(entry.own_records for entry in changes.entries)

    def _measure(
        self,
        positions: Mapping[TopicPartition, int],
        at_ms: int,
        moved: frozenset[TopicPartition],
    ) -> None:
        """Set positions and lag; what is left after a partition moved waits since then."""
        progress = self.progress
        lag = {
            key: max(0, end - positions[key])
            for key, end in progress.ends.items()
            if key in positions
        }
        before = progress.lag_since_ms
        progress.positions = dict(positions)
        progress.lag_since_ms = {
            key: at_ms if key in moved else before.get(key, at_ms)
            for key, behind in lag.items()
            if behind
        }
        progress.lag_records = lag  # last: who sees it sees since when, too
