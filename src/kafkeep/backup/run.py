"""Open everything that a backup needs, run it, and close it. Runs on the driver."""

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
from kafkeep.backup.cluster_snapshot import describe_topics, require_topics, take_snapshot
from kafkeep.backup.job import BackupJob
from kafkeep.backup.schemas import schema_keeper
from kafkeep.backup.summary import BackupSummary
from kafkeep.clock import now_ms, writer_id
from kafkeep.errors import UsageError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.spark import SparkOptions
from kafkeep.options.storage import ArchiveAddress
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.worker_daemon import open_clients
from kafkeep.store.open import open_store, probe_conditional_create, unsafe_store_error


def check_store(store: ObjectStore, name: str) -> None:
    """Raise PreflightError if the log is new and the store lets two writers create one object."""
    begun = next(iter(store.list(log_prefix(log_name(name)))), None) is not None
    if not begun and not probe_conditional_create(store):
        raise unsafe_store_error(store)


def refuse_memory_store(archive: str) -> None:
    """Refuse a store in memory: each process has its own, which is lost when the process ends."""
    if ArchiveAddress.parse(archive).kind == "memory":
        raise UsageError(
            f"{archive} is lost when this run ends", hint="Use s3://bucket/prefix or a folder."
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
    """Run a backup and return its summary.

    A JVM that waits already starts Spark in the background while Kafka and the archive are
    checked; otherwise Spark starts afterwards. Nothing is written before both checks pass.
    ``stop`` ends a run cleanly after the current cycle.
    """
    refuse_memory_store(locations.archive)
    open_first = partial(open_clients, locations)
    with (
        BackgroundSession(spark, first=open_first, on_demand=True) as session,
        Wire(locations.kafka) as wire,
    ):
        admin = Admin(wire)
        admin.cluster_id()
        snapshot = None
        if not options.follow:
            # Check topics before opening the log: a mistyped topic must neither create a log nor
            # fence its writer. Check them before Spark starts: errors of Kafka show at once.
            topics = describe_topics(admin, options)
            require_topics(topics, options)
            snapshot = take_snapshot(admin, options, now_ms=now_ms(), described=topics)
        store = open_store(locations.archive, locations.storage, create=True)
        check_store(store, options.name)
        started_spark = session.session()
        started = time.monotonic()
        job = BackupJob(
            options=options,
            locations=locations,
            admin=admin,
            open_log=partial(
                CommitLog.open, store, options.name, writer=writer_id(), now_ms=now_ms
            ),
            run_tasks=started_spark.for_threads(),
            slots=started_spark.slots,
            now_ms=now_ms,
            stop=stop or threading.Event(),
            first=snapshot,
            on_commit=on_commit or (lambda _commit, _summary: None),
            on_progress=on_progress,
            schemas=schema_keeper(options, store),
        )
        summary = job.run()
        summary.start_seconds = started - session.launched_at
        summary.seconds = time.monotonic() - started
    return summary
