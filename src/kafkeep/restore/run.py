"""Open the clients of a restore or of a group move, run it, close them. Runs on the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.check_result import Check
from kafkeep.clock import now_ms
from kafkeep.errors import NoSuchArchiveError, PreflightError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.choose_log import without_log
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.spark import SparkOptions, usable_cores
from kafkeep.options.unlogged import UnloggedOptions, changes_of_log
from kafkeep.restore.document import Phase, open_documents
from kafkeep.restore.groups.job import GroupJob
from kafkeep.restore.groups.plan import GroupPlan
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.preflight import Preflight, require_pass
from kafkeep.restore.routing.routing import SAME
from kafkeep.restore.source import LogSource
from kafkeep.restore.summary import RestoreSummary
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.worker_daemon import open_clients
from kafkeep.store.open import open_store

if TYPE_CHECKING:
    from kafkeep.restore.listing_source import ListingSource


def run_restore(
    options: RestoreOptions,
    locations: Locations,
    spark: SparkOptions,
    *,
    unlogged: UnloggedOptions | None = None,
    on_plan: Callable[[Preflight], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> RestoreSummary:
    """Run a restore and return its summary; with ``dry_run``, only plan and check it.

    ``on_plan`` is called with the plan and the checks before anything is written; a failed check
    then raises PreflightError. ``unlogged`` holds the transforms and, if there is no log,
    the options for reading the objects of Confluent's sink; an option without effect is refused.
    """
    background = BackgroundSession(spark, first=partial(open_clients, locations), on_demand=True)
    with (
        nullcontext() if options.dry_run else background,
        open_restore(options, locations, unlogged=unlogged, on_progress=on_progress) as job,
    ):
        preflight = job.preflight()
        if on_plan is not None:
            on_plan(preflight)
        require_pass(preflight.checks)
        if options.dry_run:
            return job.summary
        began = time.monotonic()
        document = job.prepare(preflight)  # while Spark starts: Kafka needs time for partitions
        preparing = time.monotonic() - began
        running = background.session()
        job.slots = running.slots
        started = time.monotonic()
        summary = job.write(preflight, document, running.run_tasks)
        summary.seconds = preparing + time.monotonic() - started
    summary.start_seconds = started - background.launched_at
    return summary


@contextmanager
def open_restore(
    options: RestoreOptions,
    locations: Locations,
    *,
    unlogged: UnloggedOptions | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    connect_timeout_ms: int | None = None,
    documents: ObjectStore | None = None,
) -> Iterator[RestoreJob]:
    """Yield the restore with its clients open, to plan it and to run it on any Spark session.

    ``documents`` is where its state is kept; None: where the options say.
    """
    with Wire(locations.kafka, connect_timeout_ms=connect_timeout_ms) as wire:
        store, admin = open_store(locations.archive, locations.storage), Admin(wire)
        documents = documents or open_documents(options.state, locations.storage, store)
        source = _open_source(store, options, unlogged, admin, documents)
        yield RestoreJob(
            options=source.options,
            locations=locations,
            admin=admin,
            store=store,
            source=source,
            documents=documents,
            slots=usable_cores,
            now_ms=now_ms,
            on_progress=on_progress or (lambda _done, _total: None),
        )


def _open_source(
    store: ObjectStore,
    options: RestoreOptions,
    unlogged: UnloggedOptions | None,
    admin: Admin,
    documents: ObjectStore,
) -> LogSource | ListingSource:
    """Return the archive's log, or a listing of the bucket if it has none."""
    listed = without_log(store, options.name, None)
    if listed is None:
        changes = changes_of_log(unlogged, store.describe())
        return LogSource(store=store, options=replace(options, changes=changes), now_ms=now_ms)
    if next(iter(store.list("")), None) is None:
        raise NoSuchArchiveError(
            f"there is no archive at {store.describe()}",
            hint="Check the address; kafkeep backup creates an archive.",
        )
    from kafkeep.restore.listing_source import (  # noqa: PLC0415 - it loads all formats
        ListingSource,
        options_for_listing,
    )

    chosen = unlogged or listed
    return ListingSource(
        store=store,
        options=options_for_listing(options, chosen),
        unlogged=chosen,
        admin=admin,
        documents=documents,
    )


def move_groups(
    options: RestoreOptions,
    locations: Locations,
    *,
    dry_run: bool,
    on_plan: Callable[[GroupPlan], None] = lambda _plan: None,
) -> GroupPlan:
    """Move groups to their archived positions; with ``dry_run``, only plan it.

    The topics must be those that a restore with the same options wrote, or the archived ones
    themselves.
    """
    with _opened(options, locations) as (job, found):
        _require_known(job, found)
        moves = job.plan_moves(found.document)
        on_plan(moves)
        if not dry_run:
            require_pass(job.checks(moves))
            job.apply(moves)
        return moves


def preview_groups(
    options: RestoreOptions,
    locations: Locations,
    *,
    admin: Admin,
    store: ObjectStore,
    newest: ArchiveView,
) -> tuple[GroupPlan, list[Check]]:
    """Plan a move of groups, with the checks that ``move_groups`` would make; writes nothing.

    The clients are those of the locations. ``newest`` is the newest commit of the log that the
    options name.
    """
    job, found = _group_job(options, locations, admin, store, newest)
    _require_known(job, found)
    moves = job.plan_moves(found.document)
    return moves, job.checks(moves)


def put_groups_back(
    options: RestoreOptions, locations: Locations
) -> dict[str, dict[tuple[str, int], int | None]]:
    """Undo the group moves of a restore with these options, or of ``move_groups``."""
    with _opened(options, locations) as (job, _):
        return job.rollback()


@contextmanager
def _opened(options: RestoreOptions, locations: Locations) -> Iterator[tuple[GroupJob, Preflight]]:
    with Wire(locations.kafka) as wire:
        store = open_store(locations.archive, locations.storage)
        yield _group_job(options, locations, Admin(wire), store)


def _group_job(
    options: RestoreOptions,
    locations: Locations,
    admin: Admin,
    store: ObjectStore,
    newest: ArchiveView | None = None,
) -> tuple[GroupJob, Preflight]:
    job = RestoreJob(
        options=options,
        locations=locations,
        admin=admin,
        store=store,
        source=LogSource(store=store, options=options, now_ms=now_ms, newest=newest),
        documents=open_documents(options.state, locations.storage, store),
        slots=usable_cores,
        now_ms=now_ms,
    )
    # Records of damaged objects were left out and must not be counted.
    found = job.preflight() if options.allow_missing else job.plan_only()
    return job.group_job(found), found


def _require_known(job: GroupJob, found: Preflight) -> None:
    """Refuse topics in which the position of an archived record is unknown."""
    there = job.admin.topics([topic.target for topic in found.plan.topics])
    for topic in found.plan.topics:
        described = there.get(topic.target)
        if described is None:
            raise PreflightError(f"topic {topic.target} is not in the cluster")
        if described.topic_id == topic.source.topic_id and topic.routing == SAME:
            continue
        known = found.document.target(topic.target) if found.document else None
        if known is None or described.topic_id != known.topic_id:
            raise PreflightError(
                f"topic {topic.target} is neither the one that was archived nor one that a restore "
                "with these options wrote",
                hint="Give the options of that restore, or run it with --groups.",
            )
        if found.document is not None and found.document.phase is not Phase.DONE:
            raise PreflightError(
                f"topic {topic.target} does not hold all of its records yet: its restore was "
                "interrupted",
                hint="Finish that restore first, preferably with --groups.",
            )
