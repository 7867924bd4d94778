"""Plan where consumer groups continue in the target.

If partitions are kept, an archived offset is translated. If records are repartitioned, a group's
position in a target partition is its first unread record. This position is valid only if all later
records are unread, too. ``count_records.py`` counts them exactly. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import PartitionId
from kafkeep.errors import UsageError
from kafkeep.options.option import did_you_mean
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan

ALL = ("all",)
Archived = Mapping[str, Mapping[PartitionId, int]]


@dataclass(frozen=True, slots=True)
class GroupMove:
    """One group's move to an offset of one target partition."""

    group: str
    topic: str
    partition: int
    archived: int | None
    """Its archived offset; None if the target gets records of several partitions."""
    offset: int
    """Its offset in the target."""
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
    """All moves, and a sentence for each offset that is not moved."""

    moves: tuple[GroupMove, ...] = ()
    left_out: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """A sentence for each group that has no valid position."""

    @property
    def groups(self) -> list[str]:
        """Names of the groups that are moved."""
        return sorted({move.group for move in self.moves})

    def of(self, group: str) -> dict[tuple[str, int], int]:
        """Return the new offsets of one group."""
        return {(m.topic, m.partition): m.offset for m in self.moves if m.group == group}


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """How an archived offset translates to one target partition.

    Either the target keeps the archived offsets, or ``counted`` holds the number of restored
    records before each of them; the first record is at ``base``.
    """

    start: int
    end: int
    base: int | None = None
    counted: Mapping[int, int] | None = None

    def offset(self, archived: int) -> tuple[int, str]:
        """Return the target offset of the record at ``archived`` or the next one, and a note."""
        if self.base is not None and self.counted is not None:
            return self.base + self.counted[archived], ""
        if archived < self.start:
            return self.start, f"the archive starts at {self.start}"
        if archived > self.end:
            return self.end, f"the archive ends at {self.end}"
        return archived, ""


def choose_groups(
    archived: Archived, plan: RestorePlan, wanted: Collection[str], *, strict: bool = True
) -> Archived:
    """Return the selected groups with their offsets on the topics to restore.

    With ``strict``, UsageError for a selected group without an offset.
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
    """Return the offsets of groups on a topic, by group and partition."""
    name = topic.source.topic, topic.source.incarnation
    found = {
        group: {pid.partition: offset for pid, offset in offsets.items() if pid[:2] == name}
        for group, offsets in chosen.items()
    }
    return {group: positions for group, positions in found.items() if positions}


def plan_groups(
    chosen: Archived, plan: RestorePlan, places: Mapping[tuple[str, int], GroupPosition]
) -> GroupPlan:
    """Plan every move; ``places`` has the target partitions that are restored."""
    moves: list[GroupMove] = []
    left_out: list[str] = []
    topics = {(t.source.topic, t.source.incarnation): t for t in plan.topics}
    for group, offsets in chosen.items():
        for pid, archived in sorted(offsets.items()):
            topic = topics[pid.topic, pid.incarnation]
            number = topic.routing.target_of(pid.partition)
            if number is None or (topic.target, number) not in places:
                left_out.append(f"group {group}: {topic.target}-{pid.partition} is not restored")
                continue
            key = (topic.target, number)
            offset, note = places[key].offset(archived)
            moves.append(GroupMove(group, *key, archived, offset, note))
    return GroupPlan(tuple(moves), tuple(left_out))


def restored_partitions(plan: RestorePlan) -> Iterator[tuple[TopicPlan, PartitionPlan, int]]:
    """Yield the selected partitions, each with its target partition."""
    for topic in plan.topics:
        for partition in topic.partitions:
            number = topic.routing.target_of(partition.partition)
            if partition.ranges != () and number is not None:
                yield topic, partition, number


Positions = Mapping[int, int]
"""A group's archived offsets, by partition."""


@dataclass(frozen=True, slots=True)
class ReadCount:
    """The records of a target partition that a group has read."""

    records: int
    first: bool
    """True if they come before all unread records."""


def plan_routed(
    topic: TopicPlan,
    groups: Mapping[str, Positions],
    counted: Sequence[Mapping[int, ReadCount]],
    bases: Mapping[int, int],
) -> tuple[list[GroupMove], list[str]]:
    """Return the moves in one topic, and sentences on groups that cannot be moved. Pure."""
    moves: list[GroupMove] = []
    refused: list[str] = []
    filled = [p.partition for p in topic.partitions if p.ranges != () and p.records]
    for (group, positions), places in zip(groups.items(), counted, strict=True):
        lacking = [number for number in filled if number not in positions]
        mixed = [number for number, read in places.items() if not read.first]
        if lacking:
            refused.append(f"group {group} had no offset on {topic.source.topic}-{lacking[0]}")
        elif mixed:
            refused.append(
                f"group {group} has no valid position in {topic.target}-{mixed[0]}: records "
                "that it has read would follow unread ones"
            )
        else:
            moves += [
                GroupMove(group, topic.target, number, None, bases[number] + read.records)
                for number, read in sorted(places.items())
            ]
    return moves, refused
