"""A backup, from beginning to end: look, plan, intend, read and store, commit. On the driver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from kafkeep.archive.commit import Commit, PlannedRange
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.backup.cluster_snapshot import (
    ClusterDetails,
    ClusterSnapshot,
    check_intent,
    is_unchanged,
    take_snapshot,
)
from kafkeep.backup.plan import (
    EARLIEST,
    CyclePlan,
    first_positions,
    identify_topics,
    plan_cycle,
    taken_over,
)
from kafkeep.backup.schemas import SchemaKeeper
from kafkeep.backup.sink_schedule import SinkTiming, late_times
from kafkeep.backup.summary import BackupSummary
from kafkeep.backup.writer import RunTasks, Writer
from kafkeep.errors import AccessDeniedError, PreflightError, RecordError, TransientError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.groups import load_group_offsets
from kafkeep.objects.sink.dead_letters import create_dead_letter_topic
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.retry import FOLLOW

SNAPSHOT_MS = 5_000
"""Between two looks of one who looks often, a glance at the ends will do."""
DUE_DETAILS_MS = 5_000
"""What is about to be committed goes with settings and group offsets no older than this."""
PATIENCE_MS = 60_000
"""Answers that may pass, and would not if they were meant, are taken for final after this."""
DENIED_MS = 300_000
"""Credentials that were good may be renewed: so long their refusal is borne while following."""
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class BackupJob:
    """One writer of one log. Everything that does I/O is given to it."""

    options: BackupOptions
    locations: Locations
    admin: Admin
    open_log: Callable[[], CommitLog]
    """Takes the next epoch of the log: at the start, and after an outcome stayed unknown."""
    run_tasks: RunTasks
    cores: int
    now_ms: Callable[[], int]
    stop: threading.Event
    on_commit: Callable[[Commit, BackupSummary], None] = lambda _commit, _summary: None
    on_snapshot: Callable[[ClusterSnapshot, CyclePlan], None] = lambda _take_snapshot, _plan: None
    """Told what was seen and planned, before anything is done about it."""
    schemas: SchemaKeeper | None = None
    """Keeps the schemas of a registry too."""
    turn: AbstractContextManager[None] = field(default_factory=nullcontext)
    """Entered to look, plan and commit while following; others wait meanwhile."""
    summary: BackupSummary = field(default_factory=BackupSummary)
    writer: Writer = field(init=False)
    _sink: SinkTiming | None = field(init=False, default=None)
    _last_snapshot: ClusterSnapshot | None = field(init=False, default=None)
    """The last look, if nothing was done since."""
    _details: ClusterDetails | None = field(init=False, default=None)
    _refused_at: int | None = field(init=False, default=None)
    _denied_at: int | None = field(init=False, default=None)
    _has_worked: bool = field(init=False, default=False)
    """Whether a look, and what it led to, went through while following."""
    _met_all: bool = field(init=False, default=False)
    """Whether topics that were there at the start have been met."""

    def __post_init__(self) -> None:
        options = self.options
        if options.sink is not None:
            self._sink = SinkTiming(
                options=SinkOptions.parse({**options.sink, **options.sink_secrets}),
                follow=options.follow,
                keeps_tail=options.keeps_tail,
                age_ms=options.segment_age_ms,
            )

    @property
    def log(self) -> CommitLog:
        """The log this job holds."""
        return self.writer.log

    def run(self) -> BackupSummary:
        """Archive everything not yet in the archive; with ``follow``, until stopped."""
        if self.schemas is not None:
            self.schemas.check()
        self._begin()
        if self.options.follow:
            self._follow()
        else:
            self._once()
        return self.summary.ended(self.log.state)

    def _begin(self) -> None:
        """Take the log, and finish what an earlier run had begun before anything else."""
        before = getattr(self, "writer", None)
        self.writer = Writer(
            log=self.open_log(),
            options=self.options,
            sink=self._sink.options if self._sink else None,
            locations=self.locations,
            admin=self.admin,
            run_tasks=self.run_tasks,
            cores=self.cores,
            now_ms=self.now_ms,
            on_commit=self.on_commit,
            summary=self.summary,
            waiting=before.waiting if before else {},
            tails=before.tails if before else {},
        )
        self._last_snapshot = None
        self._make_dead_letter_topic()
        intent = self.log.state.intent
        if intent is None:
            return
        check_intent(self.admin, intent, self.log.state)
        try:
            self.writer.execute(intent, None)
        except RecordError:
            if intent.options.get("sink") == self.options.sink:
                raise  # else the options were changed, perhaps because of that record

    def _make_dead_letter_topic(self) -> None:
        errors = self._sink.options.errors if self._sink else None
        if errors is not None and errors.dead_letter_topic:
            create_dead_letter_topic(self.admin, errors)

    def _once(self) -> None:
        """Cycle until the end offsets seen at the start are archived.

        That listed topics are there was looked at before the log was taken (``require_topics``);
        one deleted meanwhile is no mistake of the user.
        """
        snapshot = self._take_snapshot()
        known = self.writer.known()
        infos = identify_topics(snapshot, known.latest, known.folders)
        until = {
            PartitionId(name, infos[name].incarnation, number): partition.stable
            for name, topic in snapshot.topics.items()
            for number, partition in enumerate(topic.partitions)
        }
        before: Mapping[PartitionId, int] | None = None
        while self._cycle(snapshot, until) and not self._reached(until) and not self.stop.is_set():
            if self.options.keeps_tail and self.log.state.positions == before:
                return  # what is left waits for a rule
            before = self.log.state.positions
            snapshot = self._take_snapshot()

    def _reached(self, until: dict[PartitionId, int]) -> bool:
        positions = self.log.state.positions
        return all(positions.get(pid, 0) >= end for pid, end in until.items())

    def _follow(self) -> None:
        """Cycle until stopped; what fails for now is tried again, from what the log says."""
        unsure, failures = False, 0
        while not self.stop.is_set():
            busy = False
            try:
                if unsure:
                    self._begin()
                    unsure = False
                if not self._is_quiet():
                    with self.turn:
                        snapshot = self._take_snapshot_while_following()
                        unsure = True  # of the log, should anything fail from here on
                        busy = self._cycle(snapshot, None)
                unsure, failures = False, 0
                self._has_worked, self._denied_at = True, None
            except (TransientError, AccessDeniedError) as error:
                if isinstance(error, AccessDeniedError) and not self._bears_denial():
                    raise
                failures += 1
                logger.warning("%s: %s; trying again", self.options.called, error.message)
            if not busy:
                self.stop.wait(self._pause(failures))

    def _bears_denial(self) -> bool:
        """Whether refused credentials may be good again soon: they were, not long ago."""
        self._denied_at = self._denied_at or self.now_ms()
        return self._has_worked and self.now_ms() - self._denied_at <= DENIED_MS

    def _pause(self, failures: int) -> float:
        """Return the seconds until the next look: longer when one after the other fails."""
        return replace(FOLLOW, first_wait_s=self.options.interval_ms / 1000).wait_s(failures)

    def _take_snapshot_while_following(self) -> ClusterSnapshot:
        """Look; a topic that comes or goes while it is asked about makes answers that pass."""
        try:
            snapshot = self._take_snapshot()
        except PreflightError as error:
            self._refused_at = self._refused_at or self.now_ms()
            if self.now_ms() - self._refused_at > PATIENCE_MS:
                raise
            raise TransientError(error.message) from error
        self._refused_at = None
        return snapshot

    def _is_quiet(self) -> bool:
        """Tell whether there is nothing to do, with as little effort as that takes.

        Only for who looks often: no partition has grown, and no clock has closed what waits.
        """
        seen, now = self._last_snapshot, self.now_ms()
        if not self.options.details_ms or seen is None or now - seen.at_ms >= SNAPSHOT_MS:
            return False
        if any(name not in seen.topics for name in self.options.topics):
            return False  # a topic that does not exist yet is waited for
        if self.log.state.intent is not None or not is_unchanged(self.admin, seen):
            return False
        return not self._plan(replace(seen, at_ms=now), None, ()).stretches

    def _cycle(self, snapshot: ClusterSnapshot, until: dict[PartitionId, int] | None) -> bool:
        """Plan and run one cycle; tell whether there may be more to do at once.

        One who follows and is to stop begins none: what came since is for whoever comes next,
        perhaps with other options.
        """
        if self.options.follow and self.stop.is_set():
            return False
        intent = self.log.state.intent
        left_over = intent.ranges if intent else ()
        starts, note = self._starts(snapshot)
        plan = self._plan(snapshot, until, left_over, starts)
        if plan.stretches and self._is_stale(snapshot, DUE_DETAILS_MS):
            self._details = None
            return self._cycle(self._take_snapshot(), until)
        schemas = ""
        if self.schemas is not None:
            known = self.log.state.schemas
            schemas = self.schemas.keep(known, self.now_ms(), records=bool(plan.stretches))
        self.writer.waiting = dict(plan.waiting)
        self.summary.saw(snapshot, plan)
        self.on_snapshot(snapshot, plan)
        if not plan.stretches and not left_over:
            self.writer.tell(snapshot, plan, note, schemas)
            self._met_all, self._last_snapshot = True, snapshot
            return False
        self._last_snapshot = None
        intent, weights = self.writer.intend(plan, left_over, note, schemas)
        self._met_all = True
        self.writer.execute(intent, snapshot, weights)
        return True

    def _plan(
        self,
        snapshot: ClusterSnapshot,
        until: dict[PartitionId, int] | None,
        left_over: tuple[PlannedRange, ...],
        starts: Mapping[PartitionId, int] | None = None,
    ) -> CyclePlan:
        return plan_cycle(
            snapshot,
            self.writer.known(),
            self.options,
            waiting=self.writer.waiting,
            until=until,
            skip=frozenset(r.partition_id for r in left_over),
            sink=self._sink,
            tails=self.writer.tails,
            starts=starts,
        )

    def _starts(self, snapshot: ClusterSnapshot) -> tuple[dict[PartitionId, int], str]:
        """Say where new topics begin, and a note about it; the group is asked once in a log's life.

        Topics that come into being while the job runs are read from their beginning.
        """
        group, known = self.options.group, self.writer.known()
        offsets: Mapping[tuple[str, int], int] = {}
        if group and snapshot.topics and not known.latest:
            offsets = load_group_offsets(self.admin, list(snapshot.topics), [group]).offsets.get(
                group, {}
            )
        start_at = EARLIEST if self._met_all else self.options.start_at
        starts = first_positions(snapshot, known, start_at=start_at, group=offsets)
        return starts, taken_over(group or "", offsets, starts)

    def _is_stale(self, snapshot: ClusterSnapshot, most_ms: int) -> bool:
        return snapshot.details is not None and snapshot.at_ms - snapshot.details.at_ms > most_ms

    def _take_snapshot(self) -> ClusterSnapshot:
        state, latest = self.log.state, self.writer.known().latest
        epochs = {
            (pid.topic, pid.partition): epoch
            for pid, epoch in state.leader_epochs.items()
            if latest[pid.topic].incarnation == pid.incarnation
        }
        groups = {
            group: {pid.topic for pid in at if latest[pid.topic].incarnation == pid.incarnation}
            for group, at in state.groups.items()
        }
        tails = {(pid.topic, pid.partition): tail for pid, tail in self.writer.tails.items()}
        now, details = self.now_ms(), self._details
        if details is not None and now - details.at_ms >= self.options.details_ms:
            details = None
        snapshot = take_snapshot(
            self.admin,
            self.options,
            now_ms=now,
            epochs=epochs,
            times=late_times(self._sink, tails) if self._sink else None,
            details=details,
            known_groups=groups,
        )
        self._details = snapshot.details
        failpoint("look.after")
        return snapshot
