"""Compare a cluster with an archive from beginning to end. On the driver; reads only."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.commit_chain import read_stored_commit
from kafkeep.archive.document import digest_of
from kafkeep.archive.expiry import Expiry
from kafkeep.archive.view import ArchiveView
from kafkeep.clock import now_ms
from kafkeep.compare.plan import (
    ArchiveSide,
    TopicComparison,
    as_restored,
    choose_topics,
    is_exact,
    plan_topic,
)
from kafkeep.compare.result import CompareResult, TopicResult
from kafkeep.compare.target import describe_targets, load_restored_topics
from kafkeep.compare.task import compare_bundle
from kafkeep.compare.work import CompareBundle, CompareWork, WorkResult, pack
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.choose_log import load_chosen
from kafkeep.objects.completeness import what_is_missing
from kafkeep.objects.sink.read_windows import SEGMENT
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.options.kafka import Locations
from kafkeep.options.maintenance import CompareOptions
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.tasks import TaskRunner
from kafkeep.store.open import open_store

TASKS_PER_CORE = 3
_SMALL_BYTES = 32 << 20
"""Less than this is not worth a task of its own."""

OnProgress = Callable[[int, int], None]


def run_compare(
    options: CompareOptions,
    locations: Locations,
    spark: SparkOptions,
    *,
    name: str | None = None,
    on_progress: OnProgress | None = None,
) -> CompareResult:
    """Read the target back and compare it with the archive; see docs/verify.md.

    PreflightError when a topic is not there, or its partitions are others than archived.
    """
    with BackgroundSession(spark) as door, Wire(locations.kafka) as wire:
        store = open_store(locations.archive, locations.storage)
        admin = Admin(wire)
        named = [source for source, _ in options.topics]
        view = load_chosen(store, name, named or None, at_ms=options.at_ms, commit=options.commit)
        chosen = choose_topics(view.topics, options)
        targets = describe_targets(
            admin, [target for _, target in chosen], load_restored_topics(store)
        )
        expiry = Expiry(store, view, now_ms())
        plans = []
        for newest, name_there in chosen:
            target = targets[name_there]
            source = as_restored(view.topics, newest, target.restored, options)
            plans.append(plan_topic(_load_side(view, source, expiry), target, options))
        entries = [e for plan in plans for w in plan.work for p in w.archive for e in p.entries]
        of_sink = any(entry.format != SEGMENT for entry in entries)
        reading = load_read_options(store, view).read_only() if of_sink else NO_OPTIONS
        began_ms = now_ms()
        session = door.session()
        started = time.monotonic()
        compared = _compare(session, plans, locations, reading, on_progress)
        return CompareResult(
            archive=store.describe(),
            log=view.name,
            commit=view.commit,
            commit_at_ms=view.at_ms,
            commit_sha256=digest_of(read_stored_commit(store, view.name, view.commit).body),
            bootstrap=locations.kafka.bootstrap_servers,
            cluster_id=admin.cluster_id(),
            exact_offsets=all(
                is_exact(plan.target.restored, options) and not plan.by_key for plan in plans
            ),
            began_ms=began_ms,
            seconds=time.monotonic() - started,
            start_seconds=started - door.launched_at,
            topics=tuple(_result(plan, compared) for plan in plans),
            notes=(*what_is_missing(entries, reading), *_gaps(view, plans)),
        )


def _load_side(view: ArchiveView, info: TopicInfo, expiry: Expiry) -> ArchiveSide:
    """Read what the archive holds of one topic."""
    entries = view.entries(info.topic, info.incarnation)
    incarnations = [number for name, number in view.topics if name == info.topic]
    return ArchiveSide(
        info=info,
        entries=entries,
        expired=expiry.find(entries),
        log=view.name,
        commit=view.commit,
        is_newest=info.incarnation == max(incarnations),
    )


def _compare(
    session: TaskRunner,
    plans: list[TopicComparison],
    locations: Locations,
    reading: ReadOptions,
    on_progress: OnProgress | None,
) -> list[WorkResult]:
    work: list[CompareWork] = [one for plan in plans for one in plan.work]
    total = sum(one.est_bytes for one in work)
    count = min(session.cores * TASKS_PER_CORE, max(1, total // _SMALL_BYTES))
    bundles = [
        CompareBundle(work=some, locations=locations, reading=reading) for some in pack(work, count)
    ]
    rows = session.run_tasks(bundles, compare_bundle, label="verify", on_progress=on_progress)
    return [WorkResult.from_json(row.body) for row in rows]


def _result(plan: TopicComparison, compared: list[WorkResult]) -> TopicResult:
    mine = [one for one in compared if one.target == plan.target.name]
    return TopicResult(plan=plan, compared=tuple(sorted(mine, key=lambda c: c.partition or 0)))


def _gaps(view: ArchiveView, plans: list[TopicComparison]) -> list[str]:
    chosen = {(plan.source.topic, plan.source.incarnation) for plan in plans}
    return [
        f"{gap.partition_id}: offsets {gap.range.start} to {gap.range.end - 1} were never "
        f"archived: {gap.reason}"
        for gap in view.gaps
        if gap.partition_id[:2] in chosen
    ]
