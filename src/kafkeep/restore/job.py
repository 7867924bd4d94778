"""A restore, from beginning to end: plan, preflight, prepare, write, settle. On the driver."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.reader import ArchiveView, list_logs, load_view
from kafkeep.archive.store import ObjectStore
from kafkeep.check import Check
from kafkeep.config.places import Places
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.choice import choose_view
from kafkeep.contents.options import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.contents.windows import SEGMENT
from kafkeep.errors import (
    DamagedError,
    KafkeepError,
    KeyMissingError,
    NoSuchArchiveError,
    PreflightError,
)
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin import Admin, OffsetSpec
from kafkeep.kafka.defaults import topic_defaults
from kafkeep.restore.bundle import bundles_for, pack_work
from kafkeep.restore.document import Phase, RestoreDocument, load_document, save_document
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_restore, restore_id
from kafkeep.restore.preflight import (
    check_contents,
    check_objects,
    check_targets,
    look_at_target,
    require_pass,
)
from kafkeep.restore.prepare import prepare
from kafkeep.restore.settings import final_settings
from kafkeep.restore.summary import RestoreSummary
from kafkeep.restore.task import RestoreBundle, TargetWork, restore_bundle
from kafkeep.spark.tasks import TaskRow

RunTasks = Callable[..., list[TaskRow]]
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Preflight:
    """The plan with everything that was looked at before writing."""

    plan: RestorePlan
    checks: tuple[Check, ...]
    document: RestoreDocument | None
    lost: frozenset[str]
    reading: ReadOptions = NO_OPTIONS
    """How the log's objects were made."""


@dataclass(kw_only=True)
class RestoreJob:
    """One restore. Everything that does I/O is given to it."""

    options: RestoreOptions
    places: Places
    admin: Admin
    store: ObjectStore
    documents: ObjectStore
    """Where the restore's document lies: the archive, or ``--state``."""
    cores: int
    now_ms: Callable[[], int]
    on_progress: Callable[[int, int], None] = lambda _done, _total: None
    """Told the records written and the records to write."""
    summary: RestoreSummary = field(default_factory=RestoreSummary)

    def preflight(self) -> Preflight:
        """Plan, and look at archive and target; writes nothing."""
        log = choose_log(self.store, self.options)
        cluster = self.admin.cluster_id()
        id = restore_id(self.store.describe(), log, self.options, cluster)
        document = load_document(self.documents, id)
        view = self._view(log, document)
        plan = plan_restore(view, self.options, id=id)
        checks, lost = check_objects(plan, self.store)
        if self.options.allow_missing:
            lost = plan.with_companions(lost | self._damaged(plan, lost))
            plan, checks = plan.without(lost), []
        elif lost:
            raise DamagedError(
                f"{checks[0].subject}: {checks[0].what} (of {len(lost)} in all)",
                hint=checks[0].hint,
            )
        target = look_at_target(self.admin, plan)
        checks += check_targets(plan, target, self.options, document)
        reading = self._reading(view, plan)
        losses = check_contents(plan, reading)
        self.summary.gaps = _gaps(view, plan)
        self.summary.missing = [f"{check.subject}: {check.what}" for check in losses]
        return Preflight(plan, (*checks, *losses), document, lost, reading)

    def _reading(self, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
        formats = {entry.format for topic in plan.topics for entry in topic.entries}
        return load_read_options(self.store, view) if formats - {SEGMENT} else NO_OPTIONS

    def run(self, preflight: Preflight, run_tasks: RunTasks) -> RestoreSummary:
        """Write everything; resumes when an earlier run of the same restore was cut off."""
        require_pass(preflight.checks)
        plan = preflight.plan
        target = look_at_target(self.admin, plan)
        document = prepare(
            plan,
            target,
            preflight.document,
            self.options,
            admin=self.admin,
            store=self.documents,
            now_ms=self.now_ms,
        )
        self.summary.id, self.summary.commit = plan.id, plan.commit
        self.summary.lost = sorted(preflight.lost)
        work = _work(plan, document)
        self._count_before(work)
        if document.phase is Phase.DONE:
            return self.summary  # complete: what happened to the topics since is not ours
        with self._progress(plan, work):
            bundles = self._bundles(work, preflight.reading)
            rows = run_tasks(bundles, restore_bundle, label="restore")
        self._count(rows, plan)
        failpoint("restore.written")
        self._settle(plan, document)
        return self.summary

    def _view(self, log: str, document: RestoreDocument | None) -> ArchiveView:
        """Load the asked commit; for "the newest", the one an unfinished run began with."""
        asked = self.options.commit
        newest = asked is None and self.options.at_ms is None
        if newest and document is not None and self._goes_on(document):
            asked = document.commit
        return load_view(self.store, log, commit=asked, at_ms=self.options.at_ms)

    def _goes_on(self, document: RestoreDocument) -> bool:
        """Whether the document speaks of what is there, or of topics deleted since."""
        if document.phase is not Phase.DONE:
            return True
        there = self.admin.topics([target.topic for target in document.targets])
        return any(
            t.topic in there and there[t.topic].topic_id == t.topic_id for t in document.targets
        )

    def _damaged(self, plan: RestorePlan, missing: frozenset[str]) -> frozenset[str]:
        """Read every object and compare digests: only asked for with ``--allow-missing``."""
        bad = set()
        for topic in plan.topics:
            for entry in topic.entries:
                if entry.key in missing:
                    continue
                try:
                    digest = hashlib.sha256(self.store.get(entry.key)).hexdigest()
                except KeyMissingError:
                    digest = ""
                if digest != entry.sha256:
                    bad.add(entry.key)
        return frozenset(bad)

    def _bundles(self, work: list[TargetWork], reading: ReadOptions) -> list[RestoreBundle]:
        packed = pack_work(work, bundles=bundles_for(work, self.cores))
        rate = self.options.rate_bytes
        share = rate / max(1, min(self.cores, len(packed))) if rate is not None else None
        return [
            RestoreBundle(
                work=members,
                kafka=self.places.kafka,
                archive=self.places.archive,
                storage=self.places.storage,
                restore_aborted=self.options.restore_aborted,
                rate_bytes=share,
                reading=reading,
            )
            for members in packed
        ]

    def _count_before(self, work: list[TargetWork]) -> None:
        ends = self._ends(work)
        self.summary.already_there = sum(ends[w.topic, w.partition] - w.place.base for w in work)

    def _ends(self, work: list[TargetWork]) -> dict[tuple[str, int], int]:
        return self.admin.offsets([(w.topic, w.partition) for w in work], OffsetSpec.LATEST)

    @contextmanager
    def _progress(self, plan: RestorePlan, work: list[TargetWork]) -> Iterator[None]:
        """Tell how far the targets have grown, from their end offsets, while tasks run."""
        stop = threading.Event()

        def poll() -> None:
            while not stop.wait(POLL_SECONDS):
                try:
                    ends = self._ends(work)
                except KafkeepError:
                    continue  # the tasks will say what is wrong
                done = sum(ends[w.topic, w.partition] - w.place.base for w in work)
                self.on_progress(done, plan.records)

        thread = threading.Thread(target=poll, name="restore-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _count(self, rows: list[TaskRow], plan: RestorePlan) -> None:
        for row in rows:
            topic = row.body["topic"]
            self.summary.topics[topic] = self.summary.topics.get(topic, 0) + row.body["records"]
            self.summary.bytes += row.body["bytes"]
        self.summary.records = sum(self.summary.topics.values())
        self.summary.objects = sum(len(topic.entries) for topic in plan.topics)

    def _settle(self, plan: RestorePlan, document: RestoreDocument) -> None:
        """Put settings back, less what would delete the records at once; then it is done."""
        for topic in plan.topics:
            target = document.target(topic.target)
            assert target is not None
            final = final_settings(
                topic.target,
                target.settings,
                topic_defaults(self.admin, topic.target),
                oldest_ms=_oldest(topic),
                largest_partition_bytes=max((p.raw_bytes for p in topic.partitions), default=0),
                now_ms=self.now_ms(),
                apply_retention=self.options.apply_retention,
            )
            self.admin.alter_topic_configs(topic.target, set=final.set, delete=final.delete)
            self.summary.held_back.extend(final.held_back)
        failpoint("restore.settled")
        if document.phase is not Phase.DONE:
            done = document.next(Phase.DONE, at_ms=self.now_ms(), targets=document.targets)
            save_document(self.documents, done)


def choose_log(store: ObjectStore, options: RestoreOptions) -> str:
    """Return the log to read: the one named, the only one, or the one that loses least."""
    logs, name = list_logs(store), options.name
    if not logs:
        raise NoSuchArchiveError(
            f"there is no archive at {store.describe()}",
            hint="Check the address; kafkeep backup makes one.",
        )
    if name is not None:
        if name not in logs:
            raise NoSuchArchiveError(
                f"{store.describe()} has no log named {name}", hint=f"It has: {', '.join(logs)}."
            )
        return name
    if len(logs) > 1 and options.commit is not None:
        raise PreflightError(
            f"{store.describe()} has several logs, and a commit is of one: {', '.join(logs)}",
            hint="Choose one with --name.",
        )
    if len(logs) == 1:
        return logs[0]
    topics = {source for source, _ in options.topics}
    return choose_view([load_view(store, log) for log in logs], topics or None).name


def _work(plan: RestorePlan, document: RestoreDocument) -> list[TargetWork]:
    work = []
    for topic in plan.topics:
        target = document.target(topic.target)
        assert target is not None
        for partition in topic.partitions:
            work.append(
                TargetWork(
                    topic=topic.target,
                    topic_id=target.topic_id,
                    partition=partition.partition,
                    place=target.partitions[partition.partition],
                    entries=partition.entries,
                    est_bytes=partition.raw_bytes,
                )
            )
    return work


def _oldest(topic: TopicPlan) -> int | None:
    return min((entry.min_timestamp for entry in topic.entries), default=None)


def _gaps(view: ArchiveView, plan: RestorePlan) -> list[dict[str, Any]]:
    chosen = {(topic.source.topic, topic.source.incarnation) for topic in plan.topics}
    return [
        {
            "topic": gap.partition_id.topic,
            "partition": gap.partition_id.partition,
            "start": gap.range.start,
            "end": gap.range.end,
            "reason": gap.reason,
        }
        for gap in view.gaps
        if gap.partition_id[:2] in chosen
    ]
