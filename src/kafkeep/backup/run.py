"""Open everything a backup needs, run it, close it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from kafkeep.archive.commit import Commit
from kafkeep.archive.keys import log_prefix
from kafkeep.archive.log import CommitLog
from kafkeep.archive.names import log_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.backup.cluster_snapshot import require_topics, take_snapshot
from kafkeep.backup.job import BackupJob
from kafkeep.backup.schemas import schema_keeper
from kafkeep.backup.summary import BackupSummary
from kafkeep.clock import now_ms, writer_id
from kafkeep.errors import PreflightError, UsageError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.spark import SparkOptions
from kafkeep.options.storage import ArchiveAddress
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.preload import with_sinks
from kafkeep.spark.worker import open_clients
from kafkeep.store.conditional_writes import probe_conditional_create
from kafkeep.store.open import open_store


def check_store(store: ObjectStore, name: str) -> None:
    """Try, before a log is begun, that the store keeps two writers apart; PreflightError if not."""
    begun = next(iter(store.list(log_prefix(log_name(name)))), None) is not None
    if not begun and not probe_conditional_create(store):
        raise PreflightError(
            f"{store.describe()} lets two writers create the same object",
            hint="kafkeep needs a store that honours If-None-Match on PUT.",
        )


def _check_lasting(archive: str) -> None:
    """Refuse memory: each task would fill its own, and all of it ends with this run."""
    if ArchiveAddress.parse(archive).kind == "memory":
        raise UsageError(
            f"{archive} would end with this run", hint="Write s3://bucket/prefix or a folder."
        )


def run_backup(
    options: BackupOptions,
    locations: Locations,
    spark: SparkOptions,
    *,
    stop: threading.Event | None = None,
    on_commit: Callable[[Commit, BackupSummary], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> BackupSummary:
    """Back up as ``options`` say and return what was done.

    Spark starts while Kafka and the archive are looked at. Nothing is written before both
    answered. ``stop`` ends a run cleanly after the cycle at hand.
    """
    _check_lasting(locations.archive)
    if options.sink is not None:
        spark = with_sinks(spark)
    first = partial(open_clients, locations)
    with BackgroundSession(spark, first=first) as door, Wire(locations.kafka) as wire:
        admin = Admin(wire)
        admin.cluster_id()
        if not options.follow:  # a slip must neither begin a log nor take it from its writer
            require_topics(admin, options)
            take_snapshot(admin, options, now_ms=now_ms())  # what is refused is, before Spark runs
        store = open_store(locations.archive, locations.storage, create=True)
        check_store(store, options.name)
        spark_now = door.session()
        started = time.monotonic()
        job = BackupJob(
            options=options,
            locations=locations,
            admin=admin,
            open_log=partial(
                CommitLog.open, store, options.name, writer=writer_id(), now_ms=now_ms
            ),
            run_tasks=partial(spark_now.run_tasks, on_progress=on_progress),
            cores=spark_now.cores,
            now_ms=now_ms,
            stop=stop or threading.Event(),
            on_commit=on_commit or (lambda _commit, _summary: None),
            schemas=schema_keeper(options, store),
        )
        summary = job.run()
        summary.start_seconds = started - door.launched_at
        summary.seconds = time.monotonic() - started
    return summary
