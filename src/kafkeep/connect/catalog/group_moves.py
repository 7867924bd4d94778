"""Move a consumer group to its archived offsets, and back: what ``kafkeep groups`` does.

The offsets before a move are stored in the archive where the command line stores them, so either
can undo what the other has done.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import orjson

from kafkeep.archive.object_store import ObjectInfo, ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.check_result import Check, CheckStatus
from kafkeep.connect.catalog.archives.archives import ArchivePlace, Archives
from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.connect.catalog.groups import ConsumerGroups, SavedGroup
from kafkeep.connect.model import RestError
from kafkeep.errors import (
    KafkeepError,
    KeyMissingError,
    NoSuchArchiveError,
    PreflightError,
    UsageError,
)
from kafkeep.kafka.admin.groups import load_group_offsets
from kafkeep.kafka.client.metadata import TopicPartition
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.document import FOLDER
from kafkeep.restore.groups.history import GroupChange, Offsets, change_offsets, load_change
from kafkeep.restore.groups.plan import GroupMove, GroupPlan
from kafkeep.restore.run import move_groups, preview_groups

SNAPSHOTS_SHOWN = 20
_CHANGES_READ = 200
"""The newest changes of all groups of an archive among which those of one are searched."""
_CHANGES_KEPT = 1000
_CHANGE = re.compile(rf"{re.escape(FOLDER)}/([0-9a-f]{{1,64}})\.groups/([0-9]{{1,18}})\.json")
_RESTORE = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoveRequest:
    """Which archived offsets a group gets, and on which topics."""

    group: str
    archive: str = ""
    """The id of the archive; the one with the newest offsets of the group if empty."""
    log: str = ""
    commit: int | None = None
    at_ms: int | None = None
    topics: tuple[tuple[str, str], ...] = ()
    """Archived and target topic; empty: the archived topics that are still in Kafka."""
    exact_offsets: bool = False
    """True if a restore at exact offsets wrote the topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """One partition: the offset that would be set, and the present one."""

    move: GroupMove
    live: int | None

    @property
    def why(self) -> str:
        """Say where the new offset comes from."""
        if self.move.note:
            return f"limited: {self.move.note}"
        if self.move.archived is None:
            return "the first record that the group had not read"
        if self.move.archived == self.move.offset:
            return "the saved offset"
        return f"the record that was at {self.move.archived}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMovePlan:
    """What a move would set, or why it is refused."""

    request: GroupMoveRequest
    address: str = ""
    log: str = ""
    moves: tuple[PlannedMove, ...] = ()
    checks: tuple[Check, ...] = ()
    digest: str = ""
    """Of the moves: what was confirmed is applied, or nothing."""

    @property
    def changes_nothing(self) -> bool:
        """True if the group already has all these offsets."""
        return all(one.live == one.move.offset for one in self.moves)

    @property
    def is_refused(self) -> bool:
        """True if it cannot be applied."""
        return not self.moves or any(one.verdict is CheckStatus.FAIL for one in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSnapshot:
    """The offsets that a group had before a change."""

    archive: str
    address: str
    restore: str
    """The id of the restore, or of the plan, that the change belongs to."""
    revision: int
    at_ms: int
    offsets: Offsets
    is_finished: bool
    """False: the change was interrupted, so only a part of it may be in Kafka."""


@dataclass(slots=True)
class _KeptChanges:
    changes: dict[tuple[str, str], GroupChange] = field(default_factory=dict)


class GroupMoves:
    """Plans, applies and rolls back. Safe to use from any thread; one change at a time."""

    def __init__(
        self,
        cluster: LiveCluster,
        archives: Archives,
        groups: ConsumerGroups,
        now_ms: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._archives = archives
        self._groups = groups
        self._now_ms = now_ms
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._kept = _KeptChanges()

    def plan(self, request: GroupMoveRequest) -> GroupMovePlan:
        """Plan a move; writes nothing. A refusal is a failed check of the plan."""
        chosen, left_out = self._complete(request)
        plan = GroupMovePlan(request=chosen, log=chosen.log, checks=left_out)
        if chosen.archive:
            plan = replace(plan, address=self._archives.place(chosen.archive).address)
        if any(one.verdict is CheckStatus.FAIL for one in left_out):
            return plan
        try:
            log = self._archives.log(self._archives.place(chosen.archive), chosen.log)
            moves, checks = preview_groups(
                *self._options(chosen),
                admin=self._cluster.admin(for_readings=True),
                store=log.store,
                newest=ArchiveView(log.store, log.loaded),  # it keeps the tables that it reads
            )
        except (NoSuchArchiveError, PreflightError, UsageError) as error:
            refusal = Check(CheckStatus.FAIL, request.group, error.message, error.hint)
            return replace(plan, checks=(*left_out, refusal))
        return replace(
            plan,
            moves=self._beside_live(chosen.group, moves),
            checks=(*left_out, *checks),
            digest=digest_of_moves(moves),
        )

    def apply(self, request: GroupMoveRequest, digest: str) -> GroupPlan:
        """Store the present offsets, then set those of the plan with this digest.

        409 when the plan is another one now; PreflightError when the group is active.
        """
        chosen, left_out = self._complete(request)
        for one in left_out:
            if one.verdict is CheckStatus.FAIL:
                raise PreflightError(one.what, hint=one.hint)

        def confirm(moves: GroupPlan) -> None:
            if digest != digest_of_moves(moves):
                raise RestError(
                    409, "The plan has changed since it was shown, and nothing was set. Plan again."
                )

        with self._changing:
            try:
                return move_groups(*self._options(chosen), dry_run=False, on_plan=confirm)
            finally:
                self._cluster.readings.forget()

    def snapshots(self, group: str) -> list[OffsetSnapshot]:
        """Return the offsets before the newest changes of a group, the newest first."""
        found: list[OffsetSnapshot] = []
        for place in self._archives.places():
            found += self._snapshots_in(place, group)
        found.sort(key=lambda one: (-one.at_ms, one.restore, -one.revision))
        return found[:SNAPSHOTS_SHOWN]

    def snapshot(self, group: str, archive: str, restore: str, revision: int) -> OffsetSnapshot:
        """Return one of them; 404 when there is none."""
        place = self._archives.place(archive)
        missing = RestError(404, f"There are no stored offsets {restore} {revision} of {group!r}")
        if not _RESTORE.fullmatch(restore):
            raise missing
        store = self._archives.store(place)
        try:
            change = load_change(store, restore, revision)
        except KeyMissingError:
            raise missing from None
        if group not in change.before:
            raise missing
        return _snapshot(place, restore, change, group, self._is_done(store, restore, change))

    def roll_back(self, group: str, snapshot: OffsetSnapshot) -> list[TopicPartition]:
        """Set the offsets of a snapshot; return partitions that Kafka lacks and are left out.

        The present offsets are stored first, so a roll back can be undone in the same way.
        """
        wanted, missing = self.split_missing(snapshot)
        if not wanted:
            raise PreflightError("none of the partitions of the stored offsets is in Kafka")
        store = self._archives.store(self._archives.place(snapshot.archive))
        admin = self._cluster.admin()
        with self._changing:
            try:
                change_offsets({group: wanted}, snapshot.restore, store, admin, self._now_ms)
            finally:
                self._cluster.readings.forget()
        return missing

    def split_missing(self, snapshot: OffsetSnapshot) -> tuple[Offsets, list[TopicPartition]]:
        """Return the offsets of partitions that Kafka has, and the other partitions."""
        topics = self._cluster.admin().topics({topic for topic, _ in snapshot.offsets})
        wanted = {
            (topic, number): offset
            for (topic, number), offset in snapshot.offsets.items()
            if topic in topics and number in topics[topic].partitions
        }
        return wanted, sorted(snapshot.offsets.keys() - wanted.keys())

    def live_offsets(self, group: str) -> Mapping[TopicPartition, int]:
        """Return the present offsets of a group."""
        found = load_group_offsets(self._cluster.admin(for_readings=True), None, [group])
        return found.offsets.get(group, {})

    def _complete(self, request: GroupMoveRequest) -> tuple[GroupMoveRequest, tuple[Check, ...]]:
        """Fill in archive, log and topics; the checks say which topics are left out."""
        saved = self._saved(request)
        request = replace(request, archive=saved.archive, log=saved.log)
        if request.topics:
            return request, ()
        # Not the remembered topics: one that was created again a moment ago has other offsets.
        there = self._cluster.admin().topics(list(saved.newest))
        kept, checks = [], []
        for name, incarnation in saved.newest.items():
            described = there.get(name)
            if described is not None and described.topic_id == saved.topic_ids.get(
                (name, incarnation)
            ):
                kept.append((name, name))
                continue
            what = "is not in Kafka" if described is None else "was created again since"
            checks.append(
                Check(
                    CheckStatus.WARN,
                    name,
                    f"the topic {what}: it is left out",
                    "Restore it, then name it here: archived:restored.",
                )
            )
        if not kept:
            checks.append(
                Check(
                    CheckStatus.FAIL,
                    request.group,
                    "none of the topics with saved offsets is in Kafka as it was archived",
                    "Restore them first. For topics that a restore has written, name them: "
                    "archived:restored.",
                )
            )
        return replace(request, topics=tuple(kept)), tuple(checks)

    def _saved(self, request: GroupMoveRequest) -> SavedGroup:
        found = self._groups.saved_at(
            request.group, archive=request.archive, log=request.log, commit=request.commit
        )
        if found is None or not found.offsets:
            raise RestError(404, f"No archive has offsets of the group {request.group!r}")
        return found

    def _options(self, request: GroupMoveRequest) -> tuple[RestoreOptions, Locations]:
        place = self._archives.place(request.archive)
        options = RestoreOptions(
            name=request.log,
            commit=request.commit,
            at_ms=request.at_ms,
            topics=request.topics,
            groups=(request.group,),
            exact_offsets=request.exact_offsets,
        )
        storage = place.storage or StorageOptions.from_env()
        kafka = self._cluster.options
        return options, Locations(kafka=kafka, archive=place.address, storage=storage)

    def _beside_live(self, group: str, moves: GroupPlan) -> tuple[PlannedMove, ...]:
        live = self.live_offsets(group)
        return tuple(
            PlannedMove(move=move, live=live.get((move.topic, move.partition)))
            for move in moves.moves
        )

    def _snapshots_in(self, place: ArchivePlace, group: str) -> list[OffsetSnapshot]:
        try:
            store = self._archives.store(place)
            listed = [
                (info, match)
                for info in store.list(f"{FOLDER}/")
                if (match := _CHANGE.fullmatch(info.key)) is not None
            ]
            listed.sort(key=lambda one: (-one[0].modified_ms, one[0].key))
            changes = [
                (match[1], self._change(place, store, info, match[1], int(match[2])))
                for info, match in listed[:_CHANGES_READ]
            ]
        except KafkeepError:
            return []  # a page about the archive says what is wrong with it
        known = {(id, change.revision): change for id, change in changes}
        return [
            _snapshot(place, id, change, group, _is_finished(change, known, id))
            for id, change in changes
            if group in change.before
        ]

    def _change(
        self, place: ArchivePlace, store: ObjectStore, info: ObjectInfo, id: str, revision: int
    ) -> GroupChange:
        """Return a change; it never changes, so it is read once."""
        key = place.id, info.key
        with self._lock:
            known = self._kept.changes.get(key)
        if known is None:
            known = load_change(store, id, revision)
            with self._lock:
                if len(self._kept.changes) >= _CHANGES_KEPT:
                    del self._kept.changes[next(iter(self._kept.changes))]
                self._kept.changes[key] = known
        return known

    def _is_done(self, store: ObjectStore, id: str, change: GroupChange) -> bool:
        if not change.pending:
            return True
        try:
            return not load_change(store, id, change.revision + 1).pending
        except KeyMissingError:
            return False


def digest_of_moves(moves: GroupPlan) -> str:
    """Return a digest of what a plan sets."""
    rows = [one.to_json() for one in moves.moves]
    return hashlib.sha256(orjson.dumps(rows)).hexdigest()


def _is_finished(
    change: GroupChange, known: Mapping[tuple[str, int], GroupChange], id: str
) -> bool:
    if not change.pending:
        return True
    later = known.get((id, change.revision + 1))
    return later is not None and not later.pending


def _snapshot(
    place: ArchivePlace, id: str, change: GroupChange, group: str, is_finished: bool
) -> OffsetSnapshot:
    return OffsetSnapshot(
        archive=place.id,
        address=place.address,
        restore=id,
        revision=change.revision,
        at_ms=change.at_ms,
        offsets=change.before[group],
        is_finished=is_finished,
    )
