"""A complete backup: snapshot, plan, intent, tasks, commit. Runs on the driver.

This module decides the order of the steps; ``log_writer.py`` carries them out, and ``follow.py``
repeats them until stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from kafkeep.archive.commit import Commit, Intent, PlannedRange
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.backup.cluster_snapshot import (
    ClusterDetails,
    ClusterSnapshot,
    check_intent,
    complete_snapshot,
    is_unchanged,
    take_snapshot,
)
from kafkeep.backup.cycle_budget import archived_to
from kafkeep.backup.follow import FollowLoop
from kafkeep.backup.incarnations import LoggedState, current_epochs, current_groups
from kafkeep.backup.log_writer import LogWriter
from kafkeep.backup.plan import CycleBacklog, CyclePlan, PlanInput, plan_cycle
from kafkeep.backup.reconcile_reports import WeighedRange
from kafkeep.backup.running_cycles import MOST_CYCLES, RunningCycle, RunningCycles, RunTasks
from kafkeep.backup.schemas import SchemaKeeper
from kafkeep.backup.sink_schedule import SinkTiming, late_times
from kafkeep.backup.start_positions import EARLIEST, first_positions, takeover_note
from kafkeep.backup.summary import BackupSummary
from kafkeep.errors import RecordError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.groups import load_group_offsets
from kafkeep.objects.range_writer import SinkTail
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.spark.tasks import OnProgress

SNAPSHOT_MS = 5_000
"""If the last snapshot is younger than this, comparing end offsets is enough."""
DUE_DETAILS_MS = 5_000
"""Maximum age of the settings and group offsets in a commit of data."""
_TIMES_OLDER = 20
"""On a large cluster they may be this many times as old as reading them took."""


@dataclass(kw_only=True)
class BackupJob:
    """One writer of one log. The caller passes in everything that does I/O."""

    options: BackupOptions
    locations: Locations
    admin: Admin
    open_log: Callable[[], CommitLog]
    """Opens the log under its next epoch: at the start, and after an unknown outcome."""
    run_tasks: RunTasks
    slots: Callable[[], int]
    """How many tasks run at once. Each cycle asks, unless the options set it."""
    now_ms: Callable[[], int]
    stop: threading.Event
    first: ClusterSnapshot | None = None
    """The snapshot of the first cycle, if it was taken before the log was opened."""
    on_commit: Callable[[Commit, BackupSummary], None] = lambda _commit, _summary: None
    on_snapshot: Callable[[ClusterSnapshot, CyclePlan], None] = lambda _snapshot, _plan: None
    """Called with the snapshot and the plan of each cycle before it runs."""
    on_progress: OnProgress | None = None
    schemas: SchemaKeeper | None = None
    """Archives the schemas of a registry, if there is one."""
    cycle_slot: AbstractContextManager[None] = field(default_factory=nullcontext)
    """A semaphore for planning and committing, so that jobs share the cores."""
    summary: BackupSummary = field(default_factory=BackupSummary)
    _writer: LogWriter = field(init=False)
    _running: RunningCycles = field(init=False)
    _sink: SinkTiming | None = field(init=False, default=None)
    _backlog: CycleBacklog = field(init=False, default_factory=CycleBacklog)
    _idle_since: ClusterSnapshot | None = field(init=False, default=None)
    """The last snapshot, if its cycle found nothing to do."""
    _plan: CyclePlan | None = field(init=False, default=None)
    """The newest plan. Its settings and group offsets are newer than those of running cycles."""
    _details: ClusterDetails | None = field(init=False, default=None)
    _has_initial_topics: bool = field(init=False, default=False)
    """True once the log holds the topics that existed at the start."""

    def __post_init__(self) -> None:
        options = self.options
        if options.sink is not None:
            self._sink = SinkTiming(
                options=options.sink.options,
                follow=options.follow,
                keeps_tail=options.keeps_tail,
                age_ms=options.segment_age_ms,
            )

    @property
    def log(self) -> CommitLog:
        """The log that this job writes."""
        return self._writer.log

    @property
    def tails(self) -> Mapping[PartitionId, SinkTail]:
        """For a sink: records that were read and stay in Kafka."""
        return self._backlog.tails

    @property
    def running_since_ms(self) -> int | None:
        """When the oldest cycle that still runs began, by its clock; None if none runs."""
        return self._running.since_ms

    def run(self) -> BackupSummary:
        """Archive everything not yet in the archive; with ``follow``, until stopped."""
        if self.schemas is not None:
            self.schemas.check()
        self._running = RunningCycles(self.run_tasks, self.on_progress, self._most_cycles())
        try:
            self._begin()
            if self.options.follow:
                if self._follow_loop().run():
                    self._writer.record_postponed()
            else:
                self._once()
        finally:
            self._running.abandon()
        return self.summary.finish(self.log.state)

    def _most_cycles(self) -> int:
        """Return how many cycles may run at the same time.

        One, if each task gets a share of ``--rate``, if a one-shot sink ends when a cycle closes
        nothing, or if the bytes depend on the clock: an intent holds one reading.
        """
        is_sequential = self.options.rate_bytes is not None
        if self._sink is not None:
            is_sequential |= not self.options.follow or self._sink.options.partition.uses_clock
        return 1 if is_sequential else MOST_CYCLES

    def _begin(self) -> None:
        """Open the log and finish the open intent of an earlier run, if there is one."""
        self._running.abandon()
        self._plan = None
        self._writer = LogWriter(
            log=self.open_log(),
            options=self.options,
            sink=self._sink.options if self._sink else None,
            locations=self.locations,
            admin=self.admin,
            slots=self.slots,
            now_ms=self.now_ms,
            on_commit=self.on_commit,
            summary=self.summary,
        )
        self._idle_since = None
        self._create_dead_letter_topic()
        intent = self.log.state.intent
        if intent is None:
            return
        check_intent(self.admin, intent, self.log.state)
        try:
            self._start(intent, None)
            self._running.wait(slots=0)
            self._commit_ended()
        except RecordError:
            sink = self.options.sink
            if intent.options.get("sink") == (None if sink is None else sink.texts):
                raise  # otherwise the options have changed, perhaps because of that record

    def _create_dead_letter_topic(self) -> None:
        errors = self._sink.options.errors if self._sink else None
        if errors is not None and errors.dead_letter_topic:
            from kafkeep.objects.sink.dead_letters import (  # noqa: PLC0415 - for sinks alone
                create_dead_letter_topic,
            )

            create_dead_letter_topic(self.admin, errors)

    def _once(self) -> None:
        """Run cycles until the end offsets of the first snapshot are archived.

        The caller has checked that listed topics exist (``require_topics``). A topic that is
        deleted afterwards is not an error.
        """
        given = self._observe()
        until = {pid: partition.stable for pid, _, partition in given.iter_partitions()}
        before: Mapping[PartitionId, int] | None = None
        while self._cycle(given, until) or self._running:
            catches_up = self._plan is not None and self._plan.catches_up
            self._running.wait(slots=self._writer.max_parallel_tasks() if catches_up else 0)
            self._commit_ended()
            if self._reached(until) or self.stop.is_set():
                break
            if self.options.keeps_tail and self.log.state.positions == before:
                break  # the remaining records wait for a rotation rule
            before = self.log.state.positions
            given = self._observe()
        while self._running:
            self._running.wait(slots=0)
            self._commit_ended()

    def _reached(self, until: dict[PartitionId, int]) -> bool:
        positions = self.log.state.positions
        return all(positions.get(pid, 0) >= end for pid, end in until.items())

    def _follow_loop(self) -> FollowLoop:
        return FollowLoop(
            name=self.options.called,
            interval_ms=self.options.interval_ms,
            now_ms=self.now_ms,
            stop=self.stop,
            cycle_slot=self.cycle_slot,
            begin=self._begin,
            is_idle=self._is_idle,
            observe=self._observe,
            run_cycle=self._follow_cycle,
            await_cycle=lambda: self._running.wait(slots=self._writer.max_parallel_tasks()),
            commit_ended=self._commit_ended,
            running=self._running,
        )

    def _is_idle(self) -> bool:
        """Return True if no partition has grown and no rule by the clock closes waiting records.

        Sends one request to each leader. Used only by jobs with frequent cycles.
        """
        last, now = self._idle_since, self.now_ms()
        if not self.options.details_ms or last is None or now - last.at_ms >= SNAPSHOT_MS:
            return False
        if any(name not in last.topics for name in self.options.topics):
            return False  # wait for a topic that does not exist yet
        intent = self.log.state.intent
        if self._left_over(intent) or not is_unchanged(self.admin, last):
            return False
        given = PlanInput.of(replace(last, at_ms=now), LoggedState.of(self.log.state))
        return not self._plan_next(given, intent=intent).stretches

    def _follow_cycle(self, given: PlanInput) -> bool:
        """Start a cycle; return True if more is due than it reads."""
        return self._cycle(given, None) and self._plan is not None and self._plan.catches_up

    def _cycle(self, given: PlanInput, until: dict[PartitionId, int] | None) -> bool:
        """Plan a cycle and start its tasks; return False if there is nothing to read.

        A following job that was asked to stop starts no cycle. Later records belong to the next
        run, which may have other options.
        """
        if self.options.follow and self.stop.is_set():
            return False
        intent = self.log.state.intent
        left_over = self._left_over(intent)
        starts, note = self._starts(given)
        plan = self._plan_next(given, until, intent, left_over, starts)
        snapshot = given.snapshot
        if plan.stretches and _has_stale_details(snapshot):
            self._details = None
            return self._cycle(self._observe(), until)
        schemas = self._keep_schemas(plan)
        self._backlog.note_waiting(plan.waiting, self._running.partitions)
        self.summary.note_snapshot(snapshot, plan)
        self.on_snapshot(snapshot, plan)
        self._plan = plan
        if not plan.stretches and not left_over:
            self._writer.record_metadata(plan, note, schemas)
            self._has_initial_topics, self._idle_since = True, snapshot
            return False
        self._idle_since = None
        part, weights = self._writer.intend(plan, left_over, note, schemas)
        self._has_initial_topics = True
        self._start(part, plan, weights)
        return True

    def _left_over(self, intent: Intent | None) -> tuple[PlannedRange, ...]:
        """Return the ranges of the open intent that no running cycle archives."""
        running = self._running.ranges
        return tuple(r for r in intent.ranges if r not in running) if intent else ()

    def _start(
        self, intent: Intent, plan: CyclePlan | None, weights: tuple[WeighedRange, ...] = ()
    ) -> None:
        """Start the tasks of a part of the open intent."""
        bundles = self._writer.bundles(intent, weights, tasks_left=self._running.tasks_left)
        self.summary.cycles += 1
        self._running.start(intent, plan, bundles, self._writer.describe(bundles))

    def _commit_ended(self) -> bool:
        """Commit the cycles that have ended, failed ones last; return whether there were any."""
        ended = self._running.take_ended()
        for cycle in sorted(ended, key=lambda cycle: cycle.rows.exception() is not None):
            self._commit(cycle)
        return bool(ended)

    def _commit(self, cycle: RunningCycle) -> None:
        """Commit the objects of a cycle, and note the tails that stay in Kafka."""
        result = self._writer.reconcile(cycle)
        positions = self.log.state.positions
        moved = {pid for pid, at in result.positions.items() if at != positions.get(pid)}
        behind = cycle.plan.behind if cycle.plan is not None else frozenset()
        self._backlog.note_read(cycle.intent, result.tails, moved, behind)
        if self._sink is None:
            self._backlog.archived |= archived_to(result.entries)
        self._writer.record(cycle.intent, result, self._plan)

    def _keep_schemas(self, plan: CyclePlan) -> str:
        if self.schemas is None:
            return ""
        known = self.log.state.schemas
        return self.schemas.keep(known, self.now_ms(), records=bool(plan.stretches))

    def _plan_next(
        self,
        given: PlanInput,
        until: dict[PartitionId, int] | None = None,
        intent: Intent | None = None,
        left_over: tuple[PlannedRange, ...] = (),
        starts: Mapping[PartitionId, int] | None = None,
    ) -> CyclePlan:
        """Plan a cycle of partitions that are not in the open intent, beside what it left over."""
        return plan_cycle(
            given,
            self.options,
            self._backlog,
            sink=self._sink,
            until=until,
            skip={planned.partition_id for planned in intent.ranges} if intent else frozenset(),
            starts=starts,
            slots=1 if self._sink else self._writer.task_slots(),
            reserved_bytes=sum(w.est_bytes for w in self._writer.weigh(left_over)),
        )

    def _starts(self, given: PlanInput) -> tuple[dict[PartitionId, int], str]:
        """Return the start offsets of new topics, and the note for their commit.

        The group's offsets are read once in the life of a log. Topics that are created while the
        job runs are read from their beginning.
        """
        start_at = EARLIEST if self._has_initial_topics else self.options.start_at
        return load_starts(self.admin, given, self.options.group, start_at)

    def _observe(self) -> PlanInput:
        """Take a snapshot and combine it with the state of the log."""
        state = self.log.state
        epochs, groups = current_epochs(state), current_groups(state)
        tails = {(pid.topic, pid.partition): tail for pid, tail in self.tails.items()}
        times = late_times(self._sink, tails) if self._sink else None
        if self.first is not None:
            snapshot = complete_snapshot(
                self.admin,
                self.options,
                self.first,
                epochs=epochs,
                times=times,
                known_groups=groups,
            )
            self.first = None
        else:
            snapshot = take_snapshot(
                self.admin,
                self.options,
                now_ms=self.now_ms(),
                epochs=epochs,
                times=times,
                details=self._fresh_details(),
                known_groups=groups,
            )
        self._details = snapshot.details
        failpoint("snapshot.after")
        return PlanInput.of(snapshot, LoggedState.of(state))

    def _fresh_details(self) -> ClusterDetails | None:
        details = self._details
        if details is None or self.now_ms() - details.at_ms >= self.options.details_ms:
            return None
        return details


def load_starts(
    admin: Admin, given: PlanInput, group: str | None, start_at: str
) -> tuple[dict[PartitionId, int], str]:
    """Return the start offsets of new topics, and the note for their commit.

    Only a new log starts at the offsets of the group.
    """
    topics = list(given.snapshot.topics)
    offsets: Mapping[tuple[str, int], int] = {}
    if group and topics and not given.logged.latest:
        offsets = load_group_offsets(admin, topics, [group]).offsets.get(group, {})
    starts = first_positions(given, start_at=start_at, group=offsets)
    return starts, takeover_note(group or "", offsets, starts)


def _has_stale_details(snapshot: ClusterSnapshot) -> bool:
    details = snapshot.details
    if details is None:
        return False
    most_ms = max(DUE_DETAILS_MS, details.took_ms * _TIMES_OLDER)
    return snapshot.at_ms - details.at_ms > most_ms
