"""Where a new log starts in each partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.archive.entry import PartitionId
from kafkeep.backup.plan import PlanInput

EARLIEST, LATEST = "earliest", "latest"


def first_positions(
    given: PlanInput, *, start_at: str, group: Mapping[tuple[str, int], int]
) -> dict[PartitionId, int]:
    """Return the start offsets of new partitions that do not start at the log start.

    An offset of the group is ignored if it is past the end of the partition. It then belongs to an
    earlier topic of the same name.
    """
    found = {}
    for pid, _topic, partition in given.iter_partitions():
        if pid.topic in given.logged.latest:
            continue
        committed = group.get((pid.topic, pid.partition))
        if committed is not None and committed <= partition.span.end:
            found[pid] = committed
        elif start_at == LATEST:
            found[pid] = partition.stable
    return found


def takeover_note(
    group: str, offsets: Mapping[tuple[str, int], int], starts: Mapping[PartitionId, int]
) -> str:
    """Return the note of a commit that starts at a group's offsets; empty if none does."""
    taken = [p for p, at in starts.items() if offsets.get((p.topic, p.partition)) == at]
    if not taken:
        return ""
    return f"positions of {len(taken)} partitions taken over from group {group}"
