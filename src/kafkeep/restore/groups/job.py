"""Move consumer groups to their archived positions: plan, apply, roll back. On the driver.

The previous offsets of groups are stored, so that a move can be rolled back. Each change is a
separate object beside the restore's document. It is created before the first offset is committed;
the next change records that all offsets are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kafkeep.archive.document import check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import DamagedError, PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin, OffsetSpec, TopicDescription
from kafkeep.kafka.admin.groups import (
    active_groups,
    commit_offsets,
    delete_offsets,
    load_group_offsets,
)
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import FOLDER, MAX_BYTES, RestoreDocument, check_version
from kafkeep.restore.exact.plan import filling
from kafkeep.restore.groups.plan import (
    Archived,
    GroupMove,
    GroupPlan,
    GroupPosition,
    count_read,
    count_records_before,
    plan_groups,
    plan_routed,
    positions_on,
    restored_partitions,
    wanted_offsets,
)
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.restore.routing.routing import SAME

VERSION = 1
_OLDER_FIELDS = ("version", "at_ms", "rolled_back", "pending", "before")
Offsets = Mapping[tuple[str, int], int | None]


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
        starts = self.admin.offsets(keys, OffsetSpec.EARLIEST)
        ends = self.admin.offsets(keys, OffsetSpec.LATEST)
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
        self._require_idle(moves.groups)
        topics = {move.topic for move in moves.moves}
        there = load_group_offsets(self.admin, topics, moves.groups).offsets
        before = {
            group: {key: there.get(group, {}).get(key) for key in moves.of(group)}
            for group in moves.groups
        }
        history = load_history(self.documents, self.plan.id)
        noted = GroupChange(history.next_revision, self.now_ms(), before, pending=True)
        save_change(self.documents, self.plan.id, noted)
        failpoint("groups.recorded")
        for group in moves.groups:
            commit_offsets(self.admin, group, moves.of(group))
            failpoint("groups.committed")
        done = GroupChange(noted.revision + 1, self.now_ms(), {})
        save_change(self.documents, self.plan.id, done)

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
        self._require_idle(sorted(before))
        for group, offsets in sorted(before.items()):
            commit_offsets(self.admin, group, {k: o for k, o in offsets.items() if o is not None})
            delete_offsets(self.admin, group, [key for key, o in offsets.items() if o is None])
            failpoint("groups.returned")
        change = GroupChange(history.next_revision, self.now_ms(), {}, rolled_back=True)
        save_change(self.documents, self.plan.id, change)
        return before

    def has_moved(self) -> bool:
        """Return whether all groups of this restore were moved and not rolled back."""
        return load_history(self.documents, self.plan.id).moved

    def _require_idle(self, groups: list[str]) -> None:
        active = active_groups(self.admin, groups)
        if active:
            raise PreflightError(
                f"group {active[0]} is active: Kafka rejects offset commits for it (code 25)"
                + (f" (and {len(active) - 1} more)" if len(active) > 1 else ""),
                hint="Stop the consumers of the group, then run the same command again.",
            )


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One change: the previous offsets of each group; None if it had none."""

    revision: int
    at_ms: int
    before: Mapping[str, Offsets]
    rolled_back: bool = False
    """True if this change rolls back the earlier ones."""
    pending: bool = False
    """True if its offsets may not be committed yet; the next change confirms them."""


@dataclass(slots=True)
class GroupHistory:
    """All changes a restore has made to groups."""

    changes: list[GroupChange] = field(default_factory=list)

    @property
    def next_revision(self) -> int:
        """The number of the next change."""
        return self.changes[-1].revision + 1 if self.changes else 0

    @property
    def moved(self) -> bool:
        """True if all groups were moved and not rolled back."""
        last = self.changes[-1] if self.changes else None
        return last is not None and not last.rolled_back and not last.pending

    def before(self) -> dict[str, dict[tuple[str, int], int | None]]:
        """Return the offsets before the first change that was not rolled back."""
        found: dict[str, dict[tuple[str, int], int | None]] = {}
        for change in self.changes:
            if change.rolled_back:
                found = {}
                continue
            for group, offsets in change.before.items():
                known = found.setdefault(group, {})
                for key, offset in offsets.items():
                    known.setdefault(key, offset)
        return found


def group_changes(store: ObjectStore, id: str) -> DocumentSequence:
    """Return the changes that a restore made to groups."""
    folder = f"{FOLDER}/{id}.groups/"
    return DocumentSequence(store=store, folder=folder, digits=6, max_bytes=MAX_BYTES)


def save_change(store: ObjectStore, id: str, change: GroupChange) -> None:
    """Create a change; PreflightError if another run created it first."""
    document = {
        "version": VERSION,
        "at_ms": change.at_ms,
        "rolled_back": change.rolled_back,
        "pending": change.pending,
        "before": {
            group: [[topic, partition, offset] for (topic, partition), offset in offsets.items()]
            for group, offsets in change.before.items()
        },
    }
    if not group_changes(store, id).try_create(change.revision, dump_with_checksum(document)):
        raise PreflightError(
            "another run is moving the groups of this restore",
            hint="Wait for it to end, then run the same command again.",
        )


def load_history(store: ObjectStore, id: str) -> GroupHistory:
    """Return every change, in order."""
    changes = group_changes(store, id)
    numbers = sorted(changes.iter_numbers())
    return GroupHistory([_parse(n, changes.key(n), changes.read(n)) for n in numbers])


def _parse(revision: int, key: str, body: bytes) -> GroupChange:
    try:
        check_checksum(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        require_checksum(body, document, key, _OLDER_FIELDS)
        before = {
            group: {(topic, partition): offset for topic, partition, offset in rows}
            for group, rows in document["before"].items()
        }
        pending = document.get("pending", False)
        return GroupChange(revision, document["at_ms"], before, document["rolled_back"], pending)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{key} is not a group change document: {error}") from error
