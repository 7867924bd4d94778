"""The writer of a log: commits intents and the results of their tasks. On the driver.

``job.py`` decides what is read and when.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkeep.archive.commit import Changes, Commit, Intent, PlannedRange, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.state import LogState
from kafkeep.backup.incarnations import LoggedState
from kafkeep.backup.plan import CyclePlan, changed_groups, gap_error, is_empty
from kafkeep.backup.reconcile_reports import (
    RANGES_PER_SLOT,
    Reconciliation,
    WeighedRange,
    count_bundles,
    pack,
    reconcile,
    split_stretches,
    weigh_ranges,
)
from kafkeep.backup.running_cycles import RunningCycle
from kafkeep.backup.summary import BackupSummary
from kafkeep.backup.task import BackupBundle, BundledRange, RangeReport
from kafkeep.errors import RecordError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.objects.sink.spec import SinkIntent
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.options.units import count_of, format_size
from kafkeep.pace import share_of_rate

METADATA_MS = 60_000
"""While a backup catches up, group offsets and the ends of partitions that it does not read are
committed this often. They change in all partitions, while a cycle reads a few."""
FEW_OFFSETS = 1_000
"""While following, groups that have moved by up to so many offsets are committed with each cycle.
Larger ones are committed once a minute and at the end: a group is written whole."""
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class LogWriter:
    """Writes one open log. The caller passes in everything that does I/O."""

    log: CommitLog
    options: BackupOptions
    sink: SinkOptions | None
    locations: Locations
    admin: Admin
    slots: Callable[[], int]
    now_ms: Callable[[], int]
    on_commit: Callable[[Commit, BackupSummary], None]
    summary: BackupSummary
    _ratios: dict[PartitionId, float] = field(init=False, default_factory=dict)
    """Bytes per offset of the ranges of the last intent."""
    _metadata_at_ms: int | None = field(init=False, default=None)
    _groups_at_ms: int | None = field(init=False, default=None)
    _postponed: CyclePlan | None = field(init=False, default=None)
    """The last plan, if the log lacks some of its group offsets."""

    @property
    def state(self) -> LogState:
        """The current state of the log."""
        return self.log.state

    def intend(
        self,
        plan: CyclePlan,
        left_over: tuple[PlannedRange, ...],
        note: str = "",
        schemas: str = "",
    ) -> tuple[Intent, tuple[WeighedRange, ...]]:
        """Commit the plan as a part of the open intent, before the first byte of it is written.

        Return that part. Ranges of the open intent that are not in ``left_over`` are being
        archived: they stay in the intent.
        """
        running = self._open_without(left_over)
        weighed = self.weigh(left_over) + split_stretches(
            plan.stretches,
            tasks=self.task_slots() * RANGES_PER_SLOT,
            may_cut=self.sink is None or (self.sink.can_split and not self._keeps_tail()),
            segment_bytes=self._whole_segments(plan, has_running=len(running) > 0),
        )
        self._ratios |= {
            w.planned.partition_id: w.est_bytes / max(1, len(w.planned.range)) for w in weighed
        }
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
                intent=replace(intent, ranges=running + intent.ranges),
                closes_intent=self.state.intent is not None,
                schemas=schemas,
                note=note,
            )
        )
        return intent, tuple(weighed)

    def weigh(self, left_over: Iterable[PlannedRange]) -> list[WeighedRange]:
        """Estimate the size of ranges that the last intent left over."""
        return weigh_ranges(left_over, self._ratios)

    def reconcile(self, cycle: RunningCycle) -> Reconciliation:
        """Reconcile the reports of a cycle that has ended with its intent.

        Raise GapError under ``--on-gap fail``. The intent then stays open for the next run.
        """
        intent = cycle.intent
        try:
            rows = cycle.rows.result()
        except RecordError as error:
            # Close the intent without its results, so that the next run may use other options.
            note = f"given up: {error.message}"
            self.commit(
                Changes(intent=self._remaining_intent(intent), closes_intent=True, note=note)
            )
            raise
        entries: dict[int, list[Entry]] = {}
        reports: dict[int, RangeReport] = {}
        for row in rows:
            if row.kind == "object":
                entry = Entry.from_json(row.body["entry"])
                entries.setdefault(row.body["number"], []).append(entry)
            else:
                reports[row.body["number"]] = RangeReport.from_json(row.body)
        result = reconcile(intent, entries, reports, at_ms=self.now_ms())
        if result.gaps and self.options.on_gap == "fail":
            raise gap_error(result.gaps)
        for line in result.complaints if self._logs_errors() else ():
            logger.warning("%s: %s", self.options.called, line)
        return result

    def record(self, intent: Intent, result: Reconciliation, plan: CyclePlan | None) -> None:
        """Commit the result of an intent. Ranges that were not read stay in the intent.

        Without a plan, the commit holds no settings and no group offsets.
        """
        state = self.state
        changes = Changes(
            entries=result.entries,
            positions={
                pid: at for pid, at in result.positions.items() if state.positions.get(pid) != at
            },
            leader_epochs={
                pid: epoch
                for pid, epoch in result.leader_epochs.items()
                if state.leader_epochs.get(pid, -1) != epoch
            },
            gaps=result.gaps,
            topics=self._deleted_topics(result.gone),
            intent=self._remaining_intent(intent, result.left_over),
            closes_intent=True,
        )
        if plan is not None:
            changes = self._with_metadata(changes, plan, {**state.positions, **result.positions})
        self.commit(changes)
        self.summary.bad += result.bad

    def record_metadata(self, plan: CyclePlan, note: str = "", schemas: str = "") -> None:
        """Commit the result of a cycle without data: new topics, settings, gaps, groups."""
        changes = Changes(
            topics=plan.topics,
            gaps=plan.gaps,
            positions=plan.positions,
            schemas=schemas,
            note=note,
        )
        self.commit(self._with_metadata(changes, plan, {**self.state.positions, **plan.positions}))

    def record_postponed(self) -> None:
        """Commit the group offsets that wait for the next minute; called when following ends."""
        plan, state = self._postponed, self.state
        if plan is not None:
            self._postponed = None
            groups = changed_groups(plan.groups, plan.identified, state.positions, state.groups)
            self.commit(Changes(groups=groups))

    def commit(self, changes: Changes) -> None:
        """Append a commit to the log, unless it would contain nothing new."""
        if is_empty(changes) and changes.intent is None and not changes.closes_intent:
            return
        recreated = self._recreated(changes.topics)
        commit = self.log.append(changes)
        for info in recreated:
            logger.warning(
                "%s: topic %s was re-created: it is archived as incarnation %d",
                *(self.options.called, info.topic, info.incarnation),
            )
        self.log.checkpoint_if_due()
        self.summary.count(changes)
        self.on_commit(commit, self.summary)

    def _remaining_intent(
        self, intent: Intent, left_over: tuple[PlannedRange, ...] = ()
    ) -> Intent | None:
        """Return the open intent without the part ``intent``, but with what that left over."""
        rest = self._open_without(intent.ranges) + left_over
        return replace(self.state.intent or intent, ranges=rest) if rest else None

    def _open_without(self, ranges: Iterable[PlannedRange]) -> tuple[PlannedRange, ...]:
        """Return the ranges of the open intent, but for some."""
        intent, without = self.state.intent, set(ranges)
        return tuple(r for r in intent.ranges if r not in without) if intent else ()

    def _recreated(self, topics: tuple[TopicInfo, ...]) -> list[TopicInfo]:
        """Return the topics that replace another topic of the same name in the log."""
        latest = LoggedState.of(self.state).latest if topics else {}
        return [
            info
            for info in topics
            if info.topic in latest
            and info.incarnation > latest[info.topic].incarnation
            and info.topic_id != latest[info.topic].topic_id
        ]

    def bundles(
        self, intent: Intent, weights: tuple[WeighedRange, ...] = (), *, tasks_left: int = 0
    ) -> list[BackupBundle]:
        """Return the work of each task of a cycle, beside the ``tasks_left`` of earlier cycles."""
        weights = weights or tuple(self.weigh(intent.ranges))
        slots = self.task_slots()
        count = count_bundles(sum(w.est_bytes for w in weights), slots)
        if self.options.tasks_max:
            count = min(count, max(1, self.options.tasks_max - tasks_left))
        numbers = {id(w): number for number, w in enumerate(weights)}
        begins = _stretch_beginnings(intent)
        write = _parse_intent(intent, self.options)
        packed = pack(weights, bundles=count)
        share = share_of_rate(self.options.rate_bytes, slots=slots, tasks=len(packed))
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
                write=write,
                seconds=self.options.cycle_ms / 1000,
                at_ms=intent.at_ms,
                rate_bytes=share,
            )
            for members in packed
        ]

    def describe(self, bundles: Sequence[BackupBundle]) -> str:
        """Return what Spark's pages show for the tasks of a cycle."""
        ranges = [item for bundle in bundles for item in bundle.ranges]
        partitions = {item.planned.partition_id for item in ranges}
        size = format_size(sum(item.est_bytes for item in ranges))
        return (
            f"backup {self.options.called}, cycle {self.summary.cycles}: "
            f"{count_of(len(partitions), 'partition')}, {size}"
        )

    def task_slots(self) -> int:
        """Return how many tasks run at once now, or as many as ``--tasks`` says."""
        return self.options.tasks or self.slots()

    def max_parallel_tasks(self) -> int:
        """Return how many tasks of this job run at once now."""
        slots = self.task_slots()
        return min(slots, self.options.tasks_max or slots)

    def _with_metadata(
        self, changes: Changes, plan: CyclePlan, positions: Mapping[PartitionId, int]
    ) -> Changes:
        state, last_ms, now_ms = self.state, self._metadata_at_ms, self.now_ms()
        if plan.catches_up and last_ms is not None and now_ms - last_ms < METADATA_MS:
            read = {pid: plan.spans[pid] for pid in changes.positions if pid in plan.spans}
            return replace(changes, spans=read)
        self._metadata_at_ms = now_ms
        return replace(
            changes,
            groups=self._due_groups(plan, positions, now_ms),
            spans={pid: span for pid, span in plan.spans.items() if state.spans.get(pid) != span},
        )

    def _due_groups(
        self, plan: CyclePlan, positions: Mapping[PartitionId, int], now_ms: int
    ) -> Mapping[str, Mapping[PartitionId, int]]:
        before, last_ms = self.state.groups, self._groups_at_ms
        changed = changed_groups(plan.groups, plan.identified, positions, before)
        moved = {name for name, at in changed.items() if at.keys() == before.get(name, {}).keys()}
        is_due = last_ms is None or now_ms - last_ms >= METADATA_MS
        size = sum(len(changed[name]) for name in moved)
        if is_due or size <= FEW_OFFSETS or not self.options.follow:
            self._groups_at_ms = now_ms if size > FEW_OFFSETS else last_ms
            self._postponed = None
            return changed
        self._postponed = plan
        return {name: at for name, at in changed.items() if name not in moved}

    def _deleted_topics(self, gone: tuple[PartitionId, ...]) -> tuple[TopicInfo, ...]:
        """Return the topics that were deleted while they were read, marked as deleted."""
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

    def _whole_segments(self, plan: CyclePlan, *, has_running: bool) -> int | None:
        """Return the size of segments if only whole ones are read; None if the end is near.

        A one-shot backup then reads in smaller ranges, so that no core is idle. While other cycles
        run, whose partitions are not in the plan, the end is not near.
        """
        if self.sink is not None or not (plan.catches_up or self.options.follow or has_running):
            return None
        return self.options.segment_bytes

    def _keeps_tail(self) -> bool:
        return self.options.keeps_tail or self.options.follow

    def _logs_errors(self) -> bool:
        return self.sink is not None and self.sink.errors.errors_log_enable

    def _closes(self, plan: CyclePlan) -> dict[str, str]:
        """Return why tails are closed. Ranges left over from the last intent keep their reasons."""
        closes = {str(s.partition_id): str(s.closes) for s in plan.stretches if s.closes}
        before = self.state.intent
        if before is None:
            return closes
        left_over = {str(planned.partition_id) for planned in before.ranges}
        kept = before.options.get("closes", {})
        return {**{pid: why for pid, why in kept.items() if pid in left_over}, **closes}

    def _write_options(self, plan: CyclePlan) -> SegmentIntent | SinkIntent:
        options = self.options
        if options.sink is None:
            return SegmentIntent(
                segment_bytes=options.segment_bytes, keeps_aborted=options.keeps_aborted
            )
        return SinkIntent(
            sink=options.sink,
            closes=self._closes(plan),
            keeps_aborted=options.keeps_aborted,
        )


def _parse_intent(intent: Intent, options: BackupOptions) -> SegmentIntent | SinkIntent:
    """Return the write options of an intent, with the secrets of this run's options."""
    if "sink" in intent.options:
        secrets = options.sink.secrets if options.sink is not None else {}
        return SinkIntent.from_json(intent.options, secrets)
    return SegmentIntent.from_json(intent.options)


def _stretch_beginnings(intent: Intent) -> set[int]:
    """Return the indexes in the intent of the ranges that begin their partition's stretch."""
    first: dict[PartitionId, int] = {}
    for number, planned in enumerate(intent.ranges):
        first.setdefault(planned.partition_id, number)
    return set(first.values())
