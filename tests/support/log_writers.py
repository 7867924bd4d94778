"""A writer of a log in memory, without Kafka and Spark."""

from __future__ import annotations

from typing import Any, cast

from kafkeep.archive.log import CommitLog
from kafkeep.backup.log_writer import LogWriter, RunTasks
from kafkeep.backup.summary import BackupSummary
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.storage import StorageOptions


def writer_of(
    log: CommitLog, options: BackupOptions, run_tasks: RunTasks, *, slots: int
) -> LogWriter:
    """Return one that holds ``log``, whose tasks are run by ``run_tasks``."""
    return LogWriter(
        log=log,
        options=options,
        sink=None,
        locations=Locations(
            kafka=KafkaOptions("k:9092"), archive="memory:a", storage=StorageOptions()
        ),
        admin=cast("Any", None),
        run_tasks=run_tasks,
        slots=lambda: slots,
        now_ms=lambda: 7,
        on_commit=lambda _commit, _summary: None,
        summary=BackupSummary(),
    )
