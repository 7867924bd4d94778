"""A writer of a log in memory, without Kafka and Spark."""

from __future__ import annotations

from typing import Any, cast

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.backup.log_writer import LogWriter
from kafkeep.backup.summary import BackupSummary
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.storage import StorageOptions


def planned_ranges(count: int = 8) -> tuple[PlannedRange, ...]:
    """Return ranges of about 100 MB, one of each partition of a topic."""
    return tuple(
        PlannedRange(
            partition_id=PartitionId("t", 1, number),
            topic_id="id",
            range=OffsetRange(500_000, 600_000),
        )
        for number in range(count)
    )


def writer_of(log: CommitLog, options: BackupOptions, *, slots: int) -> LogWriter:
    """Return one that holds ``log``."""
    return LogWriter(
        log=log,
        options=options,
        sink=None,
        locations=Locations(
            kafka=KafkaOptions("k:9092"), archive="memory:a", storage=StorageOptions()
        ),
        admin=cast("Any", None),
        slots=lambda: slots,
        now_ms=lambda: 7,
        on_commit=lambda _commit, _summary: None,
        summary=BackupSummary(),
    )
