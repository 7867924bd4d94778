"""Open everything a restore needs, run it, close it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.unlogged.scan import without_log
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.spark import SparkOptions, usable_cores
from kafkeep.options.unlogged import UnloggedOptions, changes_of_log
from kafkeep.restore.document import open_documents
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.preflight import Preflight, require_pass
from kafkeep.restore.source import no_archive
from kafkeep.restore.summary import RestoreSummary
from kafkeep.restore.unlogged import ForeignJob
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
    """Restore as ``options`` say and return what was done; with ``dry_run``, plan alone.

    ``on_plan`` sees the plan and the preflight before anything is written; a failed check ends
    the run there with PreflightError. ``unlogged`` says what becomes of records, and where there
    is no log also how the objects of Confluent's sink are read; said in vain it is refused.
    """
    door = BackgroundSession(spark, first=partial(open_clients, locations))
    with nullcontext() if options.dry_run else door, Wire(locations.kafka) as wire:
        store = open_store(locations.archive, locations.storage)
        make, options = _kind_of_job(store, options, unlogged)
        job = make(
            options=options,
            locations=locations,
            admin=Admin(wire),
            store=store,
            documents=open_documents(options.state, locations.storage, store),
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


def _kind_of_job(
    store: ObjectStore, options: RestoreOptions, unlogged: UnloggedOptions | None
) -> tuple[Callable[..., RestoreJob], RestoreOptions]:
    """Return what restores from there, and what is asked of it."""
    untold = without_log(store, options.name, None)
    if untold is None:
        changes = changes_of_log(unlogged, store.describe())
        return RestoreJob, replace(options, changes=changes)
    if next(iter(store.list("")), None) is None:
        raise no_archive(store)
    return partial(ForeignJob, unlogged=unlogged or untold), options
