"""Move consumer groups to their archived positions: plan, apply, roll back. On the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkeep.archive.object_store import ObjectStore
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin, OffsetSpec, TopicDescription
from kafkeep.kafka.admin.groups import active_groups
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.exact.plan import filling
from kafkeep.restore.groups.count_records import count_read, count_records_before
from kafkeep.restore.groups.history import (
    GroupChange,
    change_offsets,
    load_history,
    put_offsets,
    require_idle,
    save_change,
)
from kafkeep.restore.groups.plan import (
    Archived,
    GroupMove,
    GroupPlan,
    GroupPosition,
    plan_groups,
    plan_routed,
    positions_on,
    restored_partitions,
    wanted_offsets,
)
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.restore.routing.routing import SAME


@dataclass(kw_only=True)
class GroupJob:
    """The groups of one restore. All clients are passed in."""

    plan: RestorePlan
    chosen: Archived
    """Groups and their archived offsets on the topics of the plan."""
    options: RestoreOptions
    reading: ReadOptions
    admin: Admin
    store: ObjectStore
    documents: ObjectStore
    now_ms: Callable[[], int]

    def plan_moves(self, document: RestoreDocument | None) -> GroupPlan:
        """Plan the offset of each group; incomplete before the targets exist."""
        if self.plan.routing.routed:
            return self._plan_routed(document)
        names = [topic.target for topic in self.plan.topics]
        there = self.admin.topics(names)
        keys = [
            (topic.target, number)
            for topic, partition, number in restored_partitions(self.plan)
            if topic.target in there
            and number < there[topic.target].partition_count
            and wanted_offsets(self.chosen, topic, partition.partition)
        ]
        starts, ends = self.admin.offset_bounds(keys)
        places: dict[tuple[str, int], GroupPosition] = {}
        for topic, partition, number in restored_partitions(self.plan):
            key = (topic.target, number)
            if not wanted_offsets(self.chosen, topic, partition.partition):
                continue
            described = there.get(topic.target)
            topic_id = described.topic_id if described is not None else ""
            known = document.target(topic.target) if document is not None else None
            ours = known is not None and bool(topic_id) and known.topic_id == topic_id
            same = described is not None and topic_id == topic.source.topic_id
            same = same and topic.routing == SAME
            if same or (ours and self.plan.exact):
                places[key] = GroupPosition(starts[key], ends[key])
            elif self.plan.exact:
                places[key] = self._expected(partition)
            elif ours:
                assert known is not None
                base = known.partitions[number].base
                places[key] = self._translated(topic, partition, base)
            else:
                places[key] = self._translated(topic, partition, ends.get(key, 0))
        return plan_groups(self.chosen, self.plan, places)

    def _plan_routed(self, document: RestoreDocument | None) -> GroupPlan:
        there = self.admin.topics([topic.target for topic in self.plan.topics])
        moves: list[GroupMove] = []
        refused: list[str] = []
        for topic in self.plan.topics:
            groups = positions_on(self.chosen, topic)
            counted = count_read(
                self.store,
                topic,
                list(groups.values()),
                restore_aborted=self.options.restore_aborted,
                options=self.reading,
            )
            bases = self._bases(topic, there.get(topic.target), document)
            found, impossible = plan_routed(topic, groups, counted, bases)
            moves += found
            refused += impossible
        return GroupPlan(tuple(sorted(moves, key=lambda m: m.group)), refused=tuple(refused))

    def _bases(
        self, topic: TopicPlan, there: TopicDescription | None, document: RestoreDocument | None
    ) -> Mapping[int, int]:
        """Return the offset of the first restored record of each target partition.

        The preflight refuses a topic that has too few partitions.
        """
        known = document.target(topic.target) if document is not None else None
        bases = dict.fromkeys(range(topic.target_count), 0)
        if there is None:
            return bases
        if known is not None and known.topic_id == there.topic_id:
            return {number: place.base for number, place in enumerate(known.partitions)}
        keys = [(topic.target, number) for number in range(there.partition_count)]
        ends = self.admin.offsets(keys, OffsetSpec.LATEST)
        return bases | {number: end for (_, number), end in ends.items()}

    def _expected(self, partition: PartitionPlan) -> GroupPosition:
        slices = partition.all_slices()
        last = slices[-1].range.end if slices else 0
        return GroupPosition(
            filling(partition).before, max(last, 0 if partition.cut else partition.end)
        )

    def _translated(self, topic: TopicPlan, partition: PartitionPlan, base: int) -> GroupPosition:
        counted = count_records_before(
            self.store,
            partition,
            wanted_offsets(self.chosen, topic, partition.partition),
            restore_aborted=self.options.restore_aborted,
            options=self.reading,
            routing=self.plan.routing,
        )
        return GroupPosition(0, 0, base, counted)

    def checks(self, moves: GroupPlan) -> list[Check]:
        """Report groups that cannot be moved, and offsets that are left out."""
        found = [
            Check(
                CheckStatus.FAIL,
                f"group {group}",
                "it has active members, so Kafka rejects offset commits for it",
                "Stop the consumers of the group, then run the same command again.",
            )
            for group in active_groups(self.admin, moves.groups)
        ]
        found += [
            Check(
                CheckStatus.FAIL,
                "groups",
                sentence,
                "Select other groups with --groups, or keep the archived partitions.",
            )
            for sentence in moves.refused
        ]
        notes = list(moves.left_out)
        if moves == GroupPlan():
            notes = ["no group has an offset on these topics at that commit: none is moved"]
        return found + [Check(CheckStatus.WARN, "groups", sentence) for sentence in notes]

    def apply(self, moves: GroupPlan) -> None:
        """Store the current offsets, then commit the new ones; safe to repeat after a crash."""
        if not moves.moves:
            return
        wanted = {group: moves.of(group) for group in moves.groups}
        change_offsets(wanted, self.plan.id, self.documents, self.admin, self.now_ms)

    def rollback(self) -> dict[str, dict[tuple[str, int], int | None]]:
        """Commit the offsets that groups had before this restore, and return them.

        A dry run only returns them.
        """
        history = load_history(self.documents, self.plan.id)
        before = history.before()
        if not before:
            raise PreflightError(
                "this restore has not moved any group, or the move is already rolled back"
            )
        if self.options.dry_run:
            return before
        require_idle(self.admin, sorted(before))
        for group, offsets in sorted(before.items()):
            put_offsets(self.admin, group, offsets)
            failpoint("groups.returned")
        change = GroupChange(history.next_revision, self.now_ms(), {}, rolled_back=True)
        save_change(self.documents, self.plan.id, change)
        return before

    def has_moved(self) -> bool:
        """Return whether all groups of this restore were moved and not rolled back."""
        return load_history(self.documents, self.plan.id).moved
