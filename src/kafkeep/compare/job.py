"""Compare a cluster with an archive from beginning to end. On the driver; reads only.

The target topics are described when the comparison begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.document import FIELD, MAX_DOCUMENT_BYTES, digest_of, has_valid_checksum
from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.expiry import Expiry
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import read_stored_commit
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.archive.view import ArchiveView
from kafkeep.clock import now_ms
from kafkeep.compare.plan import (
    NOT_RESTORED,
    ArchiveSide,
    RestoredTopic,
    TargetTopic,
    TopicComparison,
    as_restored,
    choose_topics,
    is_exact,
    plan_topic,
)
from kafkeep.compare.result import CompareResult, TopicResult
from kafkeep.compare.task import compare_bundle, ids_of
from kafkeep.compare.work import CompareBundle, CompareWork, WorkResult, pack
from kafkeep.errors import DamagedError, PreflightError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.choose_log import load_chosen, what_is_missing
from kafkeep.objects.sink.read_windows import SEGMENT
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.options.kafka import Locations
from kafkeep.options.maintenance import CompareOptions
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.spark import SparkOptions
from kafkeep.options.units import count_of, format_size
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.tasks import TaskRow, TaskRunner
from kafkeep.store.open import open_store

TASKS_PER_SLOT = 3
_SMALL_BYTES = 32 << 20
"""The minimum size of a task."""

OnProgress = Callable[[int, int], None]


class CompareSession(Protocol):
    """The part of a Spark session that a comparison uses."""

    @property
    def slots(self) -> Callable[[], int]:
        """Return how many tasks run at once now."""

    @property
    def run_tasks(self) -> Callable[..., list[TaskRow]]:
        """Run a task for each bundle; see ``TaskRunner.run_tasks``."""


def run_compare(
    options: CompareOptions,
    locations: Locations,
    spark: SparkOptions,
    *,
    name: str | None = None,
    on_progress: OnProgress | None = None,
) -> CompareResult:
    """Read the target back and compare it with the archive; see docs/verify.md.

    Raise PreflightError when a topic does not exist or has other partitions than archived.
    """
    with BackgroundSession(spark, on_demand=True) as background:
        started = time.monotonic()

        def open_session() -> TaskRunner:
            nonlocal started
            session = background.session()
            started = time.monotonic()
            return session

        found = compare(options, locations, open_session, name=name, on_progress=on_progress)
    return replace(found, start_seconds=started - background.launched_at)


def compare(
    options: CompareOptions,
    locations: Locations,
    open_session: Callable[[], CompareSession],
    *,
    name: str | None = None,
    on_progress: OnProgress | None = None,
    changes: ChangeOptions | None = None,
    documents: ObjectStore | None = None,
) -> CompareResult:
    """Compare as ``run_compare`` does, on a session that is opened once the plan is made.

    ``changes`` are the transforms of the restore: archived records are compared as they change
    them. ``documents`` holds the documents of restores; None: the archive holds them.
    """
    with Wire(locations.kafka) as wire:
        store = open_store(locations.archive, locations.storage)
        admin = Admin(wire)
        named = [source for source, _ in options.topics]
        view = load_chosen(store, name, named or None, at_ms=options.at_ms, commit=options.commit)
        chosen = choose_topics(view.topics, options)
        targets = describe_targets(
            admin, [target for _, target in chosen], load_restored_topics(documents or store)
        )
        expiry = Expiry(store, view, now_ms())
        plans = []
        for newest, name_there in chosen:
            target = targets[name_there]
            source = as_restored(view.topics, newest, target.restored, options)
            plans.append(plan_topic(_load_side(view, source, expiry), target, options, changes))
        entries = [e for plan in plans for w in plan.work for p in w.archive for e in p.entries]
        of_sink = any(entry.format != SEGMENT for entry in entries)
        reading = load_read_options(store, view) if of_sink else NO_OPTIONS
        reading = replace(reading.read_only(), asked=changes)
        began_ms = now_ms()
        session = open_session()
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
            start_seconds=0.0,
            topics=tuple(_result(plan, compared) for plan in plans),
            notes=(*what_is_missing(entries, reading), *_gaps(view, plans)),
        )


def _load_side(view: ArchiveView, info: TopicInfo, expiry: Expiry) -> ArchiveSide:
    """Load the archived entries of one topic."""
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
    session: CompareSession,
    plans: list[TopicComparison],
    locations: Locations,
    reading: ReadOptions,
    on_progress: OnProgress | None,
) -> list[WorkResult]:
    work: list[CompareWork] = [one for plan in plans for one in plan.work]
    total = sum(one.est_bytes for one in work)
    count = min(session.slots() * TASKS_PER_SLOT, max(1, total // _SMALL_BYTES))
    bundles = [
        CompareBundle(work=some, locations=locations, reading=reading) for some in pack(work, count)
    ]
    rows = session.run_tasks(
        *(bundles, compare_bundle),
        label="verify",
        description=f"verify: {count_of(len(work), 'partition')}, {format_size(total)}",
        on_progress=on_progress,
    )
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


RESTORES = "_kafkeep/restores/"
OBJECTS = "-objects"
"""Folders of object lists, which are not restore documents."""


def describe_targets(
    admin: Admin, names: Sequence[str], restored: Mapping[str, RestoredTopic]
) -> dict[str, TargetTopic]:
    """Return the topics; raise PreflightError that names missing ones."""
    there = admin.topics(names)
    missing = [name for name in names if name not in there]
    if missing:
        raise PreflightError(
            f"the target has no topic {', '.join(missing)}",
            hint="Map archived topics to their names in the target with --topics a:new-a.",
        )
    partitions = [(name, number) for name in names for number in there[name].partitions]
    starts = admin.offsets(partitions, OffsetSpec.EARLIEST)
    ends = admin.offsets(partitions, OffsetSpec.LAST_STABLE)
    policies = admin.all_topic_configs(names)
    found = {}
    for name in names:
        policy = policies[name].get("cleanup.policy")
        topic_id = there[name].topic_id
        found[name] = TargetTopic(
            name=name,
            topic_id=topic_id,
            offsets={
                n: OffsetRange(starts[name, n], max(starts[name, n], ends[name, n]))
                for n in there[name].partitions
            },
            compacts=policy is not None and "compact" in (policy.value or ""),
            restored=restored.get(topic_id, NOT_RESTORED),
        )
    return found


def load_restored_topics(store: ObjectStore) -> dict[str, RestoredTopic]:
    """Return the contents of the archive's restore documents, by the id of the target topic.

    A document states at which offset the restored records start.
    """
    found: dict[str, tuple[int, RestoredTopic]] = {}
    for document in _iter_documents(store):
        for target in document.get("targets", ()):
            bases = {n: int(p["base"]) for n, p in enumerate(target.get("partitions", ()))}
            known = found.get(target.get("topic_id") or "")
            at_ms = int(document.get("at_ms", 0))
            if target.get("topic_id") and bases and (known is None or known[0] <= at_ms):
                found[target["topic_id"]] = at_ms, _restored_topic(document, target, bases)
    return {topic_id: restored for topic_id, (_, restored) in found.items()}


def _restored_topic(
    document: Mapping[str, Any], target: Mapping[str, Any], bases: Mapping[int, int]
) -> RestoredTopic:
    return RestoredTopic(
        bases=bases,
        asked=document.get("asked") or {},
        ids=ids_of(document),
        source=(target.get("source", ""), int(target.get("incarnation", 1))),
        commit=(document.get("log", ""), int(document.get("commit", -1))),
    )


def _iter_documents(store: ObjectStore) -> Iterator[dict[str, Any]]:
    """Yield the newest revision of each readable document."""
    for folder in store.folders(RESTORES):
        if folder.endswith(OBJECTS):
            continue
        documents = DocumentSequence(
            store=store, folder=f"{RESTORES}{folder}/", digits=6, max_bytes=MAX_DOCUMENT_BYTES
        )
        newest = documents.newest()
        if newest < 0:
            continue
        try:
            body = documents.read(newest)
            document = orjson.loads(body)
        except (ValueError, DamagedError):
            continue
        if isinstance(document, dict) and (has_valid_checksum(body) or FIELD not in document):
            yield document
