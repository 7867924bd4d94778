"""Commits that were removed from a log: what is lost with them, and what can be done. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.state import State
from kafkeep.errors import DamagedError

MOST_NAMED = 3
"""So many partitions are named in a message; the others are counted."""


def lost_commits_error(state: State, removed: State) -> DamagedError:
    """Return the error of a log that ends at ``state``, though it once stood at ``removed``."""
    lost = lost_offsets(state.positions, removed.positions)
    return DamagedError(
        f"{removed.name}: commits from {state.commit + 1} on were removed from the log: an intact "
        f"checkpoint shows that it went up to commit {removed.commit} at least; "
        f"{format_lost(lost)}",
        hint=_hint(state, removed),
    )


def lost_offsets(
    positions: Mapping[PartitionId, int], before: Mapping[PartitionId, int]
) -> dict[PartitionId, OffsetRange]:
    """Return what was archived at ``before`` and is no longer, by partition."""
    return {
        pid: OffsetRange(positions.get(pid, 0), position)
        for pid, position in sorted(before.items())
        if position > positions.get(pid, 0)
    }


def format_lost(lost: Mapping[PartitionId, OffsetRange]) -> str:
    """Say which offsets went with commits, in one clause."""
    if not lost:
        return "no archived offset went with them"
    return f"{sum(map(len, lost.values())):,} offsets are lost with them: {format_offsets(lost)}"


def format_offsets(offsets: Mapping[PartitionId, OffsetRange]) -> str:
    """Name the offsets of the first partitions, and count the other partitions."""
    named = [f"{r.start} to {r.end - 1} of {pid}" for pid, r in list(offsets.items())[:MOST_NAMED]]
    more = len(offsets) - MOST_NAMED
    return ", ".join(named) + (f" and of {more} more partitions" if more > 0 else "")


def _hint(state: State, removed: State) -> str:
    back = "Bring them back from older versions of the objects in the bucket, or from a copy of it"
    if state.commit < 0:
        return f"{back}."
    return (
        f"{back}. Until then what is left can be restored: kafkeep restore --name {removed.name} "
        f"--commit {state.commit}."
    )
