"""A backup, from beginning to end: look, plan, intend, read and store, commit. On the driver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kafkeep.archive.commit import Changes, Commit, Intent, PlannedRange, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.backup.bundle import (
    RANGES_PER_CORE,
    WeighedRange,
    bundles_for,
    pack,
    split_stretches,
)
from kafkeep.backup.due import SinkTiming, late_times
from kafkeep.backup.look import Look, look_at_kafka
from kafkeep.backup.plan import (
    CyclePlan,
    Known,
    changed_groups,
    identify_topics,
    is_empty,
    plan_cycle,
)
from kafkeep.backup.settle import Settled, settle
from kafkeep.backup.shape import SinkShape
from kafkeep.backup.summary import BackupSummary
from kafkeep.backup.tail import Tail
from kafkeep.backup.task import Bundle, BundledRange, RangeReport, archive_bundle
from kafkeep.backup.write import WriteOptions
from kafkeep.config.backup import BackupOptions
from kafkeep.config.places import Places
from kafkeep.config.sink import SinkOptions
from kafkeep.errors import RecordError, TransientError
from kafkeep.kafka.admin import Admin
from kafkeep.spark.tasks import TaskRow

RunTasks = Callable[..., list[TaskRow]]
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class BackupJob:
    """One writer of one log. Everything that does I/O is given to it."""

    options: BackupOptions
    places: Places
    admin: Admin
    open_log: Callable[[], CommitLog]
    """Takes the next epoch of the log: at the start, and after an outcome stayed unknown."""
    run_tasks: RunTasks
    cores: int
    now_ms: Callable[[], int]
    stop: threading.Event
    on_commit: Callable[[Commit, BackupSummary], None] = lambda _commit, _summary: None
    summary: BackupSummary = field(default_factory=BackupSummary)
    log: CommitLog = field(init=False)
    _waiting: dict[PartitionId, int] = field(default_factory=dict)
    _tails: dict[PartitionId, Tail] = field(default_factory=dict)
    _sink: SinkTiming | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        options = self.options
        if options.sink is not None:
            self._sink = SinkTiming(
                options=SinkOptions.parse({**options.sink, **options.sink_secrets}),
                follow=options.follow,
                keeps_tail=options.keeps_tail,
                age_ms=options.segment_age_ms,
            )

    def run(self) -> BackupSummary:
        """Archive everything not yet in the archive; with ``follow``, until stopped."""
        self._begin()
        if self.options.follow:
            self._follow()
        else:
            self._once()
        return self.summary.at(self.log.state.commit)

    def _begin(self) -> None:
        """Take the log, and finish what an earlier run had begun before anything else."""
        self.log = self.open_log()
        self._make_dead_letter_topic()
        intent = self.log.state.intent
        if intent is None:
            return
        try:
            self._execute(intent, None)
        except RecordError:
            if intent.options.get("sink") == self.options.sink:
                raise  # else the options were changed, perhaps because of that record

    def _make_dead_letter_topic(self) -> None:
        errors = self._sink.options.errors if self._sink else None
        if errors is None or not errors.dead_letter_topic:
            return
        if errors.dead_letter_topic not in self.admin.topics([errors.dead_letter_topic]):
            self.admin.create_topic(
                errors.dead_letter_topic, 1, replication_factor=errors.dead_letter_replication
            )

    def _once(self) -> None:
        """Cycle until the end offsets seen at the start are archived.

        A listed topic must be there at the start; one deleted meanwhile is no mistake of the user.
        """
        look = self._look(need_all=True)
        infos = identify_topics(look, self._known().latest)
        until = {
            PartitionId(name, infos[name].incarnation, number): partition.stable
            for name, topic in look.topics.items()
            for number, partition in enumerate(topic.partitions)
        }
        before: Mapping[PartitionId, int] | None = None
        while self._cycle(look, until) and not self._reached(until) and not self.stop.is_set():
            if self.options.keeps_tail and self.log.state.positions == before:
                return  # what is left waits for a rule
            before = self.log.state.positions
            look = self._look()

    def _reached(self, until: dict[PartitionId, int]) -> bool:
        positions = self.log.state.positions
        return all(positions.get(pid, 0) >= end for pid, end in until.items())

    def _follow(self) -> None:
        """Cycle until stopped; what fails for now is tried again, from what the log says."""
        failed = False
        while not self.stop.is_set():
            try:
                if failed:
                    self._begin()
                    failed = False
                busy = self._cycle(self._look(), None)
            except TransientError as error:
                failed, busy = True, False
                logger.warning("%s; trying again", error.message)
            if not busy:
                self.stop.wait(self.options.interval_ms / 1000)

    def _cycle(self, look: Look, until: dict[PartitionId, int] | None) -> bool:
        """Plan and run one cycle; tell whether there may be more to do at once."""
        state = self.log.state
        left_over = state.intent.ranges if state.intent else ()
        plan = plan_cycle(
            look,
            self._known(),
            self.options,
            waiting=self._waiting,
            until=until,
            skip=frozenset(r.partition_id for r in left_over),
            sink=self._sink,
            tails=self._tails,
        )
        self._waiting = dict(plan.waiting)
        self.summary.saw(look, plan)
        if not plan.stretches and not left_over:
            self._commit(self._quiet_changes(look, plan))
            return False
        intent, weights = self._intend(plan, left_over)
        self._execute(intent, look, weights)
        return True

    def _intend(
        self, plan: CyclePlan, left_over: tuple[PlannedRange, ...]
    ) -> tuple[Intent, tuple[WeighedRange, ...]]:
        """Commit what is about to be written, before the first byte of it."""
        weighed = [WeighedRange(planned=r, leader=-1, est_bytes=len(r.range)) for r in left_over]
        weighed += split_stretches(
            plan.stretches,
            tasks=self.cores * RANGES_PER_CORE,
            may_cut=self._sink is None or (self._sink.options.can_split and not self._keeps_tail()),
        )
        intent = Intent(
            ranges=tuple(w.planned for w in weighed),
            options=self._write_options(plan).to_json(),
            at_ms=self.now_ms(),
        )
        self._commit(
            Changes(
                topics=plan.topics,
                gaps=plan.gaps,
                positions=plan.positions,
                intent=intent,
                closes_intent=self.log.state.intent is not None,
            )
        )
        return intent, tuple(weighed)

    def _execute(
        self, intent: Intent, look: Look | None, weights: tuple[WeighedRange, ...] = ()
    ) -> None:
        """Run an intent's tasks and commit what they did; what is left stays intended."""
        bundles = self._bundles(intent, weights or _unweighed(intent))
        try:
            rows = self.run_tasks(bundles, archive_bundle, label="backup")
        except RecordError as error:
            # Nothing of it counts, so that the next run may go on with other options.
            self._commit(Changes(closes_intent=True, note=f"given up: {error.message}"))
            raise
        entries: dict[int, list[Entry]] = {}
        reports: dict[int, RangeReport] = {}
        for row in rows:
            if row.kind == "object":
                entry = Entry.from_json(row.body["entry"])
                entries.setdefault(row.body["number"], []).append(entry)
            else:
                reports[row.body["number"]] = RangeReport.from_json(row.body)
        settled = settle(intent, entries, reports, at_ms=self.now_ms())
        self._note_tails(intent, settled)
        self._commit(self._changes(intent, settled, look))
        self.summary.bad += settled.bad

    def _note_tails(self, intent: Intent, settled: Settled) -> None:
        """Remember what a sink left to wait, and since when; say which records were bad."""
        for planned in intent.ranges:
            pid = planned.partition_id
            tail = settled.tails.get(pid)
            if tail is None:
                self._tails.pop(pid, None)
                self._waiting.pop(pid, None)
                continue
            self._tails[pid] = tail
            if settled.positions[pid] != self.log.state.positions.get(pid):
                self._waiting[pid] = intent.at_ms
        for line in settled.complaints if self._logs_errors() else ():
            logger.warning("%s", line)

    def _bundles(self, intent: Intent, weights: tuple[WeighedRange, ...]) -> list[Bundle]:
        count = bundles_for(sum(w.est_bytes for w in weights), self.cores)
        count = min(count, self.options.tasks_max or count)
        numbers = {id(w): number for number, w in enumerate(weights)}
        begins = _stretch_beginnings(intent)
        return [
            Bundle(
                ranges=tuple(
                    BundledRange(
                        number=numbers[id(w)],
                        planned=w.planned,
                        begins_stretch=numbers[id(w)] in begins,
                        est_bytes=w.est_bytes,
                    )
                    for w in members
                ),
                kafka=self.places.kafka,
                archive=self.places.archive,
                storage=self.places.storage,
                log_name=self.options.name,
                write=_write_options(intent),
                seconds=self.options.cycle_ms / 1000,
                at_ms=intent.at_ms,
                secrets=self.options.sink_secrets,
            )
            for members in pack(weights, bundles=count)
        ]

    def _changes(self, intent: Intent, settled: Settled, look: Look | None) -> Changes:
        state = self.log.state
        positions = {**state.positions, **settled.positions}
        rest = replace(intent, ranges=settled.left_over) if settled.left_over else None
        changes = Changes(
            entries=settled.entries,
            positions={
                pid: at for pid, at in settled.positions.items() if state.positions.get(pid) != at
            },
            leader_epochs={
                pid: epoch
                for pid, epoch in settled.leader_epochs.items()
                if state.leader_epochs.get(pid) != epoch
            },
            gaps=settled.gaps,
            topics=self._deleted_topics(settled.gone),
            intent=rest,
            closes_intent=True,
        )
        return changes if look is None else self._with_metadata(changes, look, positions)

    def _quiet_changes(self, look: Look, plan: CyclePlan) -> Changes:
        """Tell what a cycle without data has to say: new topics, settings, gaps, group offsets."""
        changes = Changes(topics=plan.topics, gaps=plan.gaps, positions=plan.positions)
        return self._with_metadata(changes, look, {**self.log.state.positions, **plan.positions})

    def _with_metadata(
        self, changes: Changes, look: Look, positions: dict[PartitionId, int]
    ) -> Changes:
        state = self.log.state
        infos = {**identify_topics(look, self._known().latest)}
        spans = {
            PartitionId(name, infos[name].incarnation, number): partition.span
            for name, topic in look.topics.items()
            for number, partition in enumerate(topic.partitions)
        }
        return replace(
            changes,
            groups=changed_groups(look, infos, positions, state.groups),
            spans={pid: span for pid, span in spans.items() if state.spans.get(pid) != span},
        )

    def _deleted_topics(self, gone: tuple[PartitionId, ...]) -> tuple[TopicInfo, ...]:
        """Mark topics that vanished while they were read, if Kafka no longer lists them."""
        if not gone:
            return ()
        names = sorted({pid.topic for pid in gone})
        there = self.admin.topics(names)
        known = self.log.state.topics
        vanished = {(p.topic, p.incarnation) for p in gone}
        return tuple(
            replace(known[key], deleted=True)
            for key in sorted(vanished)
            if key in known
            and (key[0] not in there or there[key[0]].topic_id != known[key].topic_id)
        )

    def _commit(self, changes: Changes) -> None:
        """Append to the log, unless there is nothing to tell."""
        if is_empty(changes) and changes.intent is None and not changes.closes_intent:
            return
        commit = self.log.append(changes)
        self.log.checkpoint_if_due()
        self.summary.count(changes)
        self.on_commit(commit, self.summary)

    def _look(self, *, need_all: bool = False) -> Look:
        state, latest = self.log.state, self._known().latest
        epochs = {
            (pid.topic, pid.partition): epoch
            for pid, epoch in state.leader_epochs.items()
            if latest[pid.topic].incarnation == pid.incarnation
        }
        tails = {(pid.topic, pid.partition): tail for pid, tail in self._tails.items()}
        return look_at_kafka(
            self.admin,
            self.options,
            now_ms=self.now_ms(),
            epochs=epochs,
            times=late_times(self._sink, tails) if self._sink else None,
            need_all=need_all,
        )

    def _known(self) -> Known:
        state = self.log.state
        latest: dict[str, TopicInfo] = {}
        for (name, _), info in sorted(state.topics.items()):
            latest[name] = info
        return Known(state.positions, latest)

    def _keeps_tail(self) -> bool:
        return self.options.keeps_tail or self.options.follow

    def _logs_errors(self) -> bool:
        return self._sink is not None and self._sink.options.errors.errors_log_enable

    def _closes(self, plan: CyclePlan) -> dict[str, str]:
        """Say why tails are closed; what is left of the last intent keeps its reasons."""
        closes = {str(s.partition_id): str(s.closes) for s in plan.stretches if s.closes}
        before = self.log.state.intent
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
    """Places in the intent of the ranges that begin their partition's stretch."""
    first: dict[PartitionId, int] = {}
    for number, planned in enumerate(intent.ranges):
        first.setdefault(planned.partition_id, number)
    return set(first.values())


def _unweighed(intent: Intent) -> tuple[WeighedRange, ...]:
    """Weigh the ranges of an intent found open by their offsets alone."""
    return tuple(
        WeighedRange(planned=r, leader=-1, est_bytes=len(r.range) * 256) for r in intent.ranges
    )
