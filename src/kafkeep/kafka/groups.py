"""Consumer groups: their committed offsets, read all at once and written back for one group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkeep.kafka.admin import Admin
from kafkeep.kafka.coordinators import Coordinators, GroupOffsets
from kafkeep.kafka.routes import TopicPartition

__all__ = [
    "GroupOffsets",
    "active_groups",
    "commit_offsets",
    "delete_group",
    "delete_offsets",
    "list_groups",
    "load_group_offsets",
]

_IDLE_STATES = frozenset({"", "empty", "dead", "unknown"})


def list_groups(admin: Admin) -> list[str]:
    """Return the ids of all groups that may hold committed offsets, active or not."""
    return admin.wire.call(Coordinators(admin.routes).all_ids)


def active_groups(admin: Admin, groups: Collection[str]) -> list[str]:
    """Return which of these groups have members; brokers before 2.6 tell of none."""
    listed = admin.wire.call(Coordinators(admin.routes).listed)
    wanted = set(groups)
    return sorted(
        {
            group.group_id
            for group in listed
            if group.group_id in wanted and (group.group_state or "").lower() not in _IDLE_STATES
        }
    )


def load_group_offsets(
    admin: Admin, topics: Collection[str], groups: Collection[str] | None = None
) -> GroupOffsets:
    """Return what each group has committed on ``topics``; groups without any are left out.

    All groups unless some are named. Groups that are active are read as well.
    """
    call = Coordinators(admin.routes)
    names = list(groups) if groups is not None else admin.wire.call(call.all_ids)
    found = admin.wire.call(call.fetch, names)
    wanted = set(topics)
    kept = {
        group: {tp: offset for tp, offset in sorted(offsets.items()) if tp[0] in wanted}
        for group, offsets in sorted(found.offsets.items())
    }
    found.offsets = {group: offsets for group, offsets in kept.items() if offsets}
    found.denied.sort()
    return found


def commit_offsets(admin: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group; PreflightError when it has active members.

    All or none is not promised: the error names the first partition that was refused.
    """
    if offsets:
        admin.wire.call(Coordinators(admin.routes).commit, group, offsets)


def delete_group(admin: Admin, group: str) -> None:
    """Delete a group with its offsets; one that is not there is no error.

    PreflightError when it has active members.
    """
    admin.wire.call(Coordinators(admin.routes).delete, group)


def delete_offsets(admin: Admin, group: str, partitions: Collection[TopicPartition]) -> None:
    """Forget what a group has committed on partitions; it is no error when that is nothing."""
    if partitions:
        admin.wire.call(Coordinators(admin.routes).forget, group, partitions)
