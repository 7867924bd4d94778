"""Run a restore from beginning to end: plan, check, prepare, write, finish. On the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.check_result import Check
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin, OffsetSpec, topic_defaults
from kafkeep.kafka.admin.fill_offsets import Transactions
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.units import count_of, format_size
from kafkeep.restore.document import Phase, RestoreDocument, load_document, save_document
from kafkeep.restore.exact.plan import check_exact, lanes, needs_transactions, transactional_id
from kafkeep.restore.exact.task import restore_exactly
from kafkeep.restore.groups.job import GroupJob
from kafkeep.restore.groups.plan import ALL, choose_groups
from kafkeep.restore.plan import RestorePlan, fewer_replicas, plan_restore, restore_id
from kafkeep.restore.preflight import (
    Preflight,
    TargetSnapshot,
    check_newer,
    check_targets,
    require_pass,
    take_target_snapshot,
)
from kafkeep.restore.prepare import begun, is_done, prepare, without_restored
from kafkeep.restore.routing.plan import check_routing, largest_target, oldest_time
from kafkeep.restore.routing.task import restore_routed
from kafkeep.restore.schemas import OFF, id_map, plan_schemas
from kafkeep.restore.source import EntrySource, gaps_of, load_contents
from kafkeep.restore.summary import RestoreSummary, watch
from kafkeep.restore.target_checks import check_target_changes
from kafkeep.restore.task import RestoreBundle, TargetWork, restore_bundle
from kafkeep.restore.topic_settings import final_settings
from kafkeep.restore.work import bundles_of, work_of
from kafkeep.spark.tasks import TaskRow

RunTasks = Callable[..., list[TaskRow]]


@dataclass(kw_only=True)
class RestoreJob:
    """One restore. All clients are passed in."""

    options: RestoreOptions
    locations: Locations
    admin: Admin
    store: ObjectStore
    source: EntrySource
    documents: ObjectStore
    """The store of the restore's document: the archive, or ``--state``."""
    slots: Callable[[], int]
    """How many tasks run at once, unless the options set it."""
    now_ms: Callable[[], int]
    on_progress: Callable[[int, int], None] = lambda _done, _total: None
    """Called with the records written and the records to write."""
    id: str | None = None
    """The restore's id, if it does not follow from the options."""
    is_cycle: bool = False
    """True if a follower selected the offsets: gaps outside of them count too."""
    summary: RestoreSummary = field(default_factory=RestoreSummary)

    def preflight(self) -> Preflight:
        """Plan, then check the archive and the target; writes nothing."""
        found, view = self._plan()
        found = self._without_restored(found)
        objects = self.source.check_objects(view, found.plan)
        self.summary.gaps += objects.gaps
        self.summary.lost_offsets = list(objects.lost_offsets)
        plan = objects.plan
        target = take_target_snapshot(self.admin, plan)
        losses = self.source.check_contents(plan, found.reading, target)
        self.summary.missing = [f"{check.subject}: {check.what}" for check in losses]
        found = replace(
            found,
            plan=plan,
            target=target,
            checks=(*self._check_target(found, plan, target), *objects.failures, *losses),
            lost=objects.lost,
        )
        done = is_done(plan, target, found.document)
        if self.options.schemas != OFF and not done:
            resumed = begun(plan, target, found.document)
            step = plan_schemas(self.options, view, self.store, resumed, self.now_ms)
            found = replace(found, schemas=step, checks=(*found.checks, *step.checks))
        return self._with_groups(found, done) if self.options.groups else found

    def plan_only(self) -> Preflight:
        """Plan without checks, using the restore's document if it exists."""
        return self._plan()[0]

    def _plan(self) -> tuple[Preflight, ArchiveView]:
        log = self.source.log_name()
        cluster = self.admin.cluster_id()
        id = self.id or restore_id(self.store.describe(), log, self.options, cluster)
        document = load_document(self.documents, id)
        resumed = document if document is not None and self._is_current(document) else None
        view = self.source.load(id, resumed)
        plan = plan_restore(load_contents(view, self.options), self.options, id=id)
        self.summary.gaps = gaps_of(view, plan, everywhere=self.is_cycle)
        if resumed is not None and resumed.phase is Phase.DONE:
            self.summary.newer = self.source.newer_targets(view, plan)
        reading = self.source.read_options(view, plan)
        return Preflight(plan, (), document, frozenset(), reading, view.state.groups), view

    def _without_restored(self, found: Preflight) -> Preflight:
        """Leave out topics that were restored before, unless all of them were."""
        known = found.document.targets if found.document is not None else ()
        there = self.admin.topics([target.topic for target in known]) if known else {}
        plan = without_restored(found.plan, there, found.document)
        return replace(found, plan=plan, whole=plan is found.plan)

    def _check_target(
        self, found: Preflight, plan: RestorePlan, target: TargetSnapshot
    ) -> list[Check]:
        topics = check_targets(plan, target, self.options, found.document)
        return [
            *topics,
            *check_target_changes(
                plan,
                target,
                found.document,
                self.options,
                topics,
                admin=self.admin,
                now_ms=self.now_ms(),
            ),
            *check_routing(plan, self.options),
            *check_newer(self.summary.newer),
            *(check_exact(plan, self.options) if plan.exact else ()),
        ]

    def group_job(self, preflight: Preflight) -> GroupJob:
        """Return the job that moves the selected groups."""
        wanted, plan = self.options.groups or ALL, preflight.plan
        found = choose_groups(preflight.archived_groups, plan, wanted, strict=preflight.whole)
        return GroupJob(
            plan=plan,
            chosen=found,
            options=self.options,
            reading=preflight.reading,
            admin=self.admin,
            store=self.store,
            documents=self.documents,
            now_ms=self.now_ms,
        )

    def _with_groups(self, found: Preflight, done: bool) -> Preflight:
        job = self.group_job(found)
        if done and job.has_moved():
            return found
        moves = job.plan_moves(found.document)
        return replace(found, checks=(*found.checks, *job.checks(moves)), groups=moves)

    def run(self, preflight: Preflight, run_tasks: RunTasks) -> RestoreSummary:
        """Write everything; resumes an interrupted run of the same restore."""
        return self.write(preflight, self.prepare(preflight), run_tasks)

    def prepare(self, preflight: Preflight) -> RestoreDocument:
        """Create and configure the targets; needs no tasks. A run that ends now is resumable."""
        require_pass(preflight.checks)
        plan = preflight.plan
        assert preflight.target is not None, "preflight() comes first"
        self.source.save_selection(self.documents, plan.id)
        self._abort_open_transactions(plan, preflight.document)
        return prepare(
            plan,
            preflight.target,
            preflight.document,
            self.options,
            admin=self.admin,
            store=self.documents,
            now_ms=self.now_ms,
            put_schemas=partial(preflight.schemas.put, self.summary) if preflight.schemas else dict,
        )

    def write(
        self, preflight: Preflight, document: RestoreDocument, run_tasks: RunTasks
    ) -> RestoreSummary:
        """Write the records, then move the groups; ``prepare`` returned the document."""
        plan = preflight.plan
        self.summary.id, self.summary.commit = plan.id, plan.commit
        self.summary.lost = sorted(preflight.lost)
        work = work_of(plan, document)
        if document.phase is Phase.DONE:
            # Done: later changes to topics or objects do not matter.
            self.summary.already_there = self._done(plan, work)
            self.summary.lose(document.lost)
            self._move_groups(preflight, document)
            return self.summary
        self.summary.already_there = self._grown(work)
        self._count(self._write(preflight, document, work, run_tasks), plan)
        failpoint("restore.written")
        self._put_settings_back(plan, document)
        failpoint("restore.reset")
        self._move_groups(preflight, document)
        save_document(
            self.documents,
            replace(
                document.next(Phase.DONE, at_ms=self.now_ms(), targets=document.targets),
                lost=tuple(self.summary.lost_offsets),
            ),
        )
        failpoint("restore.done")
        return self.summary

    def _write(
        self,
        preflight: Preflight,
        document: RestoreDocument,
        work: list[TargetWork],
        run_tasks: RunTasks,
    ) -> list[TaskRow]:
        """Write every record to its target, and report progress meanwhile."""
        plan = preflight.plan
        bundles = bundles_of(
            work,
            plan,
            self.options,
            self.locations,
            slots=self.options.tasks or self.slots(),
            reading=preflight.reading,
            ids=id_map(document, self.options),
        )
        total = sum(w.end for w in work) if plan.exact else plan.records
        with watch(lambda: self._grown(work), lambda done: self.on_progress(done, total)):
            return run_tasks(
                bundles, _task_of(plan), label="restore", description=_description(plan, work)
            )

    def _is_current(self, document: RestoreDocument) -> bool:
        """Return whether the targets still exist; an unfinished restore creates missing ones."""
        if document.phase is not Phase.DONE:
            return True
        there = self.admin.topics([target.topic for target in document.targets])
        return any(
            t.topic in there and there[t.topic].topic_id == t.topic_id for t in document.targets
        )

    def _abort_open_transactions(self, plan: RestorePlan, document: RestoreDocument | None) -> None:
        """Abort open transactions of an earlier run; this also checks the right to use them."""
        if document is not None and document.phase is Phase.DONE:
            return
        if plan.exact and needs_transactions(plan, self.options):
            for lane in range(lanes(plan)):
                Transactions(self.admin, transactional_id(plan.id, lane)).fence()

    def _grown(self, work: list[TargetWork]) -> int:
        """Return how many offsets the targets have gained."""
        ends = self.admin.offsets([(w.topic, w.partition) for w in work], OffsetSpec.LATEST)
        return sum(ends[w.topic, w.partition] - w.place.base for w in work)

    def _done(self, plan: RestorePlan, work: list[TargetWork]) -> int:
        """Return how many records a finished restore had written."""
        if (
            plan.exact
        ):  # offsets include holes, and the number of records that times left out is unknown
            return 0 if plan.cut else plan.records
        return min(plan.records, self._grown(work))

    def _count(self, rows: list[TaskRow], plan: RestorePlan) -> None:
        for row in rows:
            if row.kind == "schema ids":
                self.summary.count_ids(row.body)
        rows = [row for row in rows if row.kind == "partition"]
        for row in rows:
            topic = row.body["topic"]
            self.summary.topics[topic] = self.summary.topics.get(topic, 0) + row.body["records"]
            self.summary.bytes += row.body["bytes"]
        self.summary.records = sum(self.summary.topics.values())
        self.summary.objects = sum(topic.objects for topic in plan.topics)
        if plan.exact:
            self.summary.filled = sum(row.body["filled"] for row in rows)
            self.summary.holes = sum(row.body["holes"] for row in rows)
            there = 0 if plan.cut else plan.records - self.summary.records
            self.summary.already_there = max(0, there)

    def _move_groups(self, preflight: Preflight, document: RestoreDocument) -> None:
        """Move the groups to their archived positions, once: consumers may have continued since."""
        if not self.options.groups:
            return
        job = self.group_job(preflight)
        if document.phase is Phase.DONE and job.has_moved():
            return
        moves = job.plan_moves(document)
        job.apply(moves)
        self.summary.groups = {group: len(moves.of(group)) for group in moves.groups}
        self.summary.groups_left_out = list(moves.left_out)

    def _put_settings_back(self, plan: RestorePlan, document: RestoreDocument) -> None:
        """Put topic settings back, except those that would delete the records at once."""
        for topic in plan.topics:
            target = document.target(topic.target)
            assert target is not None
            final = final_settings(
                topic.target,
                target.settings,
                topic_defaults(self.admin, topic.target),
                kafka=self.admin.broker_version(),
                replicas=None if target.existed else fewer_replicas(topic, self.options),
                oldest_ms=oldest_time(topic, self.options),
                largest_partition_bytes=largest_target(topic),
                now_ms=self.now_ms(),
                apply_retention=self.options.apply_retention,
            )
            self.admin.alter_topic_configs(topic.target, set=final.set, delete=final.delete)
            self.summary.held_back.extend(final.held_back)


def _description(plan: RestorePlan, work: list[TargetWork]) -> str:
    size = format_size(sum(one.est_bytes for one in work))
    return f"restore {plan.log}, commit {plan.commit}: {count_of(len(work), 'partition')}, {size}"


def _task_of(plan: RestorePlan) -> Callable[[RestoreBundle], Iterator[tuple[str, dict[str, Any]]]]:
    if plan.routing.routed:
        return restore_routed
    return restore_exactly if plan.exact else restore_bundle
