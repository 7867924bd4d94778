"""Open everything that a restore needs, run it, and close it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.errors import NoSuchArchiveError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.unlogged.scan import without_log
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.spark import SparkOptions, usable_cores
from kafkeep.options.unlogged import UnloggedOptions, changes_of_log
from kafkeep.restore.document import open_documents
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.listing_source import ListingSource, options_for_listing
from kafkeep.restore.log_source import LogSource
from kafkeep.restore.preflight import Preflight, require_pass
from kafkeep.restore.summary import RestoreSummary
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.worker_daemon import open_clients
from kafkeep.store.open import open_store


def run_restore(
    options: RestoreOptions,
    locations: Locations,
    spark: SparkOptions,
    *,
    unlogged: UnloggedOptions | None = None,
    on_plan: Callable[[Preflight], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> RestoreSummary:
    """Run a restore and return what it did; with ``dry_run``, only plan and check it.

    ``on_plan`` is called with the plan and the checks before anything is written; a failed check
    then raises PreflightError. ``unlogged`` says how records are changed and, where there is no
    log, how the objects of Confluent's sink are read; an option without effect is refused.
    """
    door = BackgroundSession(spark, first=partial(open_clients, locations))
    with nullcontext() if options.dry_run else door, Wire(locations.kafka) as wire:
        store, admin = open_store(locations.archive, locations.storage), Admin(wire)
        documents = open_documents(options.state, locations.storage, store)
        source = _open_source(store, options, unlogged, admin, documents)
        job = RestoreJob(
            options=source.options,
            locations=locations,
            admin=admin,
            store=store,
            source=source,
            documents=documents,
            cores=usable_cores(),
            now_ms=now_ms,
            on_progress=on_progress or (lambda _done, _total: None),
        )
        preflight = job.preflight()
        if on_plan is not None:
            on_plan(preflight)
        require_pass(preflight.checks)
        if options.dry_run:
            return job.summary
        running = door.session()
        job.cores = running.cores
        started = time.monotonic()
        summary = job.run(preflight, running.run_tasks)
        summary.seconds = time.monotonic() - started
    summary.start_seconds = started - door.launched_at
    return summary


def _open_source(
    store: ObjectStore,
    options: RestoreOptions,
    unlogged: UnloggedOptions | None,
    admin: Admin,
    documents: ObjectStore,
) -> LogSource | ListingSource:
    """Return the archive's log, or a listing of the bucket where it has none."""
    listed = without_log(store, options.name, None)
    if listed is None:
        changes = changes_of_log(unlogged, store.describe())
        return LogSource(store=store, options=replace(options, changes=changes), now_ms=now_ms)
    if next(iter(store.list("")), None) is None:
        raise NoSuchArchiveError(
            f"there is no archive at {store.describe()}",
            hint="Check the address; kafkeep backup makes one.",
        )
    chosen = unlogged or listed
    return ListingSource(
        store=store,
        options=options_for_listing(options, chosen),
        unlogged=chosen,
        admin=admin,
        documents=documents,
    )
