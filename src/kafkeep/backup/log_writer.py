"""The writer of a log: intends, has tasks read and store, commits what they did. On the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kafkeep.archive.commit import Changes, Commit, Intent, PlannedRange, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import ClusterSnapshot
from kafkeep.backup.plan import (
    CyclePlan,
    LoggedState,
    changed_groups,
    gap_error,
    identify_topics,
    is_empty,
)
from kafkeep.backup.reconcile import (
    RANGES_PER_CORE,
    Reconciliation,
    WeighedRange,
    bundles_for,
    pack,
    reconcile,
    split_stretches,
    weigh,
)
from kafkeep.backup.summary import BackupSummary
from kafkeep.backup.task import BackupBundle, BundledRange, RangeReport, archive_bundle
from kafkeep.errors import RecordError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.segment.writer import WriteOptions
from kafkeep.objects.sink.spec import SinkShape
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.spark.tasks import TaskRow

RunTasks = Callable[..., list[TaskRow]]
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Writer:
    """Holds one log from its opening on. Everything that does I/O is given to it."""

    log: CommitLog
    options: BackupOptions
    sink: SinkOptions | None
    locations: Locations
    admin: Admin
    run_tasks: RunTasks
    cores: int
    now_ms: Callable[[], int]
    on_commit: Callable[[Commit, BackupSummary], None]
    summary: BackupSummary
    waiting: dict[PartitionId, int] = field(default_factory=dict)
    """Since when records of a partition wait, in ms."""
    tails: dict[PartitionId, SinkTail] = field(default_factory=dict)
    """Of a sink: what was read and is left in Kafka."""

    @property
    def state(self) -> LogState:
        """What the log says now."""
        return self.log.state

    def known(self) -> LoggedState:
        """Return what planning needs of the log."""
        latest: dict[str, TopicInfo] = {}
        for (name, _), info in sorted(self.state.topics.items()):
            latest[name] = info
        return LoggedState(self.state.positions, latest, self.state.last_folders())

    def intend(
        self,
        plan: CyclePlan,
        left_over: tuple[PlannedRange, ...],
        note: str = "",
        schemas: str = "",
    ) -> tuple[Intent, tuple[WeighedRange, ...]]:
        """Commit what is about to be written, before the first byte of it."""
        weighed = weigh(left_over) + split_stretches(
            plan.stretches,
            tasks=self.cores * RANGES_PER_CORE,
            may_cut=self.sink is None or (self.sink.can_split and not self._keeps_tail()),
        )
        weighed = [replace(w, planned=self.state.planned(w.planned)) for w in weighed]
        intent = Intent(
            ranges=tuple(w.planned for w in weighed),
            options=self._write_options(plan).to_json(),
            at_ms=self.now_ms(),
        )
        self.commit(
            Changes(
                topics=plan.topics,
                gaps=plan.gaps,
                positions=plan.positions,
                intent=intent,
                closes_intent=self.state.intent is not None,
                schemas=schemas,
                note=note,
            )
        )
        return intent, tuple(weighed)

    def execute(
        self,
        intent: Intent,
        snapshot: ClusterSnapshot | None,
        weights: tuple[WeighedRange, ...] = (),
    ) -> None:
        """Run an intent's tasks and commit what they did; what is left stays intended."""
        bundles = self._bundles(intent, weights or tuple(weigh(intent.ranges)))
        try:
            rows = self.run_tasks(bundles, archive_bundle, label="backup")
        except RecordError as error:
            # Nothing of it counts, so that the next run may go on with other options.
            self.commit(Changes(closes_intent=True, note=f"given up: {error.message}"))
            raise
        entries: dict[int, list[Entry]] = {}
        reports: dict[int, RangeReport] = {}
        for row in rows:
            if row.kind == "object":
                entry = Entry.from_json(row.body["entry"])
                entries.setdefault(row.body["number"], []).append(entry)
            else:
                reports[row.body["number"]] = RangeReport.from_json(row.body)
        reconciled = reconcile(intent, entries, reports, at_ms=self.now_ms())
        if reconciled.gaps and self.options.on_gap == "fail":
            raise gap_error(reconciled.gaps)  # the intent stays open: another run decides again
        self._note_tails(intent, reconciled)
        self.commit(self._changes(intent, reconciled, snapshot))
        self.summary.bad += reconciled.bad

    def tell(
        self, snapshot: ClusterSnapshot, plan: CyclePlan, note: str = "", schemas: str = ""
    ) -> None:
        """Commit what a cycle without data has to say: new topics, settings, gaps, groups."""
        changes = Changes(
            topics=plan.topics,
            gaps=plan.gaps,
            positions=plan.positions,
            schemas=schemas,
            note=note,
        )
        self.commit(
            self._with_metadata(changes, snapshot, {**self.state.positions, **plan.positions})
        )

    def commit(self, changes: Changes) -> None:
        """Append to the log, unless there is nothing to tell."""
        if is_empty(changes) and changes.intent is None and not changes.closes_intent:
            return
        anew = self._made_anew(changes.topics)
        commit = self.log.append(changes)
        for info in anew:
            logger.warning(
                "%s: topic %s was re-created: it is archived as incarnation %d",
                *(self.options.called, info.topic, info.incarnation),
            )
        self.log.checkpoint_if_due()
        self.summary.count(changes)
        self.on_commit(commit, self.summary)

    def _made_anew(self, topics: tuple[TopicInfo, ...]) -> list[TopicInfo]:
        """Pick topics of which the log knows another one, under the same name."""
        latest = self.known().latest if topics else {}
        return [
            info
            for info in topics
            if info.topic in latest
            and info.incarnation > latest[info.topic].incarnation
            and info.topic_id != latest[info.topic].topic_id
        ]

    def _note_tails(self, intent: Intent, reconciled: Reconciliation) -> None:
        """Remember what a sink left to wait, and since when; say which records were bad."""
        for planned in intent.ranges:
            pid = planned.partition_id
            tail = reconciled.tails.get(pid)
            if tail is None:
                self.tails.pop(pid, None)
                self.waiting.pop(pid, None)
                continue
            self.tails[pid] = tail
            if reconciled.positions[pid] != self.state.positions.get(pid):
                self.waiting[pid] = intent.at_ms
        for line in reconciled.complaints if self._logs_errors() else ():
            logger.warning("%s: %s", self.options.called, line)

    def _bundles(self, intent: Intent, weights: tuple[WeighedRange, ...]) -> list[BackupBundle]:
        count = bundles_for(sum(w.est_bytes for w in weights), self.cores)
        count = min(count, self.options.tasks_max or count)
        numbers = {id(w): number for number, w in enumerate(weights)}
        begins = _stretch_beginnings(intent)
        return [
            BackupBundle(
                ranges=tuple(
                    BundledRange(
                        number=numbers[id(w)],
                        planned=w.planned,
                        begins_stretch=numbers[id(w)] in begins,
                        est_bytes=w.est_bytes,
                    )
                    for w in members
                ),
                kafka=self.locations.kafka,
                archive=self.locations.archive,
                storage=self.locations.storage,
                log_name=self.options.name,
                connector=self.options.called,
                write=_write_options(intent),
                seconds=self.options.cycle_ms / 1000,
                at_ms=intent.at_ms,
                secrets=self.options.sink_secrets,
            )
            for members in pack(weights, bundles=count)
        ]

    def _changes(
        self, intent: Intent, reconciled: Reconciliation, snapshot: ClusterSnapshot | None
    ) -> Changes:
        state = self.state
        positions = {**state.positions, **reconciled.positions}
        rest = replace(intent, ranges=reconciled.left_over) if reconciled.left_over else None
        changes = Changes(
            entries=reconciled.entries,
            positions={
                pid: at
                for pid, at in reconciled.positions.items()
                if state.positions.get(pid) != at
            },
            leader_epochs={
                pid: epoch
                for pid, epoch in reconciled.leader_epochs.items()
                if state.leader_epochs.get(pid, -1) != epoch
            },
            gaps=reconciled.gaps,
            topics=self._deleted_topics(reconciled.gone),
            intent=rest,
            closes_intent=True,
        )
        return changes if snapshot is None else self._with_metadata(changes, snapshot, positions)

    def _with_metadata(
        self, changes: Changes, snapshot: ClusterSnapshot, positions: dict[PartitionId, int]
    ) -> Changes:
        state = self.state
        known = self.known()
        infos = identify_topics(snapshot, known.latest, known.folders)
        spans = {
            PartitionId(name, infos[name].incarnation, number): partition.span
            for name, topic in snapshot.topics.items()
            for number, partition in enumerate(topic.partitions)
        }
        return replace(
            changes,
            groups=changed_groups(snapshot, infos, positions, state.groups),
            spans={pid: span for pid, span in spans.items() if state.spans.get(pid) != span},
        )

    def _deleted_topics(self, gone: tuple[PartitionId, ...]) -> tuple[TopicInfo, ...]:
        """Mark topics that vanished while they were read, if Kafka no longer lists them."""
        if not gone:
            return ()
        names = sorted({pid.topic for pid in gone})
        there = self.admin.topics(names)
        known = self.state.topics
        vanished = {(p.topic, p.incarnation) for p in gone}
        return tuple(
            replace(known[key], deleted=True)
            for key in sorted(vanished)
            if key in known
            and (key[0] not in there or there[key[0]].topic_id != known[key].topic_id)
        )

    def _keeps_tail(self) -> bool:
        return self.options.keeps_tail or self.options.follow

    def _logs_errors(self) -> bool:
        return self.sink is not None and self.sink.errors.errors_log_enable

    def _closes(self, plan: CyclePlan) -> dict[str, str]:
        """Say why tails are closed; what is left of the last intent keeps its reasons."""
        closes = {str(s.partition_id): str(s.closes) for s in plan.stretches if s.closes}
        before = self.state.intent
        if before is None:
            return closes
        left = {str(planned.partition_id) for planned in before.ranges}
        kept = before.options.get("closes", {})
        return {**{pid: why for pid, why in kept.items() if pid in left}, **closes}

    def _write_options(self, plan: CyclePlan) -> WriteOptions | SinkShape:
        options = self.options
        if options.sink is None:
            return WriteOptions(
                segment_bytes=options.segment_bytes, keeps_aborted=options.keeps_aborted
            )
        return SinkShape(
            options=options.sink,
            closes=self._closes(plan),
            keeps_aborted=options.keeps_aborted,
        )


def _write_options(intent: Intent) -> WriteOptions | SinkShape:
    if "sink" in intent.options:
        return SinkShape.from_json(intent.options)
    return WriteOptions.from_json(intent.options)


def _stretch_beginnings(intent: Intent) -> set[int]:
    """Locations in the intent of the ranges that begin their partition's stretch."""
    first: dict[PartitionId, int] = {}
    for number, planned in enumerate(intent.ranges):
        first.setdefault(planned.partition_id, number)
    return set(first.values())
