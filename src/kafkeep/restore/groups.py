"""Plan consumer groups: where a group that stood at an archived offset goes on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import PartitionId
from kafkeep.config.choose import did_you_mean
from kafkeep.errors import UsageError
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan

ALL = ("all",)
Archived = Mapping[str, Mapping[PartitionId, int]]


@dataclass(frozen=True, slots=True)
class GroupMove:
    """One group's place in one target partition."""

    group: str
    topic: str
    partition: int
    archived: int | None
    """Where it stood; None where several partitions were dealt out to this one."""
    offset: int
    """Where it is put."""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the move as plans show it."""
        return {
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "archived": self.archived,
            "offset": self.offset,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """All moves, and in sentences what is not moved."""

    moves: tuple[GroupMove, ...] = ()
    left_out: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Groups whose place would have no meaning."""

    @property
    def groups(self) -> list[str]:
        """Names of the groups that are moved."""
        return sorted({move.group for move in self.moves})

    def of(self, group: str) -> dict[tuple[str, int], int]:
        """Return where one group is put."""
        return {(m.topic, m.partition): m.offset for m in self.moves if m.group == group}


@dataclass(frozen=True, slots=True)
class Place:
    """What a group's offset in one target partition follows from.

    Either the target keeps the archived offsets, or ``counted`` tells how many restored records
    lie before each of them, the first at ``base``.
    """

    start: int
    end: int
    base: int | None = None
    counted: Mapping[int, int] | None = None

    def offset(self, archived: int) -> tuple[int, str]:
        """Return where the record at ``archived`` stands, or the next one; and a note."""
        if self.base is not None and self.counted is not None:
            return self.base + self.counted[archived], ""
        if archived < self.start:
            return self.start, f"the archive begins at {self.start}"
        if archived > self.end:
            return self.end, f"the archive ends at {self.end}"
        return archived, ""


def choose_groups(
    archived: Archived, plan: RestorePlan, wanted: Collection[str], *, strict: bool = True
) -> Archived:
    """Return the wanted groups with their offsets on the topics to restore.

    UsageError for one that has none there, if ``strict``.
    """
    chosen = {(t.source.topic, t.source.incarnation) for t in plan.topics}
    found = {
        group: {pid: offset for pid, offset in offsets.items() if pid[:2] in chosen}
        for group, offsets in sorted(archived.items())
    }
    found = {group: offsets for group, offsets in found.items() if offsets}
    if tuple(wanted) == ALL:
        return found
    for group in wanted if strict else ():
        if group not in found:
            known = ", ".join(found) or "none"
            raise UsageError(
                f"group {group} has no offset on these topics in the archive",
                hint=did_you_mean(group, found) or f"Groups that have one: {known}.",
            )
    return {group: found[group] for group in sorted(wanted) if group in found}


def wanted_offsets(chosen: Archived, topic: TopicPlan, partition: int) -> list[int]:
    """Return the distinct offsets that groups have on a partition, sorted."""
    pid = PartitionId(topic.source.topic, topic.source.incarnation, partition)
    return sorted({offsets[pid] for offsets in chosen.values() if pid in offsets})


def positions_on(chosen: Archived, topic: TopicPlan) -> dict[str, dict[int, int]]:
    """Return the groups that have offsets on a topic, and these by partition."""
    name = topic.source.topic, topic.source.incarnation
    found = {
        group: {pid.partition: offset for pid, offset in offsets.items() if pid[:2] == name}
        for group, offsets in chosen.items()
    }
    return {group: positions for group, positions in found.items() if positions}


def plan_groups(
    chosen: Archived, plan: RestorePlan, places: Mapping[tuple[str, int], Place]
) -> GroupPlan:
    """Plan every move; ``places`` has the target partitions that are restored."""
    moves: list[GroupMove] = []
    left_out: list[str] = []
    topics = {(t.source.topic, t.source.incarnation): t for t in plan.topics}
    for group, offsets in chosen.items():
        for pid, archived in sorted(offsets.items()):
            topic = topics[pid.topic, pid.incarnation]
            number = topic.shape.target_of(pid.partition)
            if number is None or (topic.target, number) not in places:
                left_out.append(f"group {group}: {topic.target}-{pid.partition} is not restored")
                continue
            key = (topic.target, number)
            offset, note = places[key].offset(archived)
            moves.append(GroupMove(group, *key, archived, offset, note))
    return GroupPlan(tuple(moves), tuple(left_out))


def restored_partitions(plan: RestorePlan) -> Iterator[tuple[TopicPlan, PartitionPlan, int]]:
    """Yield the partitions that were not left out by a pick, each with its target partition."""
    for topic in plan.topics:
        for partition in topic.partitions:
            number = topic.shape.target_of(partition.partition)
            if partition.ranges != () and number is not None:
                yield topic, partition, number
