"""One task of a backup over partitions that are not in Kafka, into a store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

from tests.support.fake_kafka import FakeFetchWire, FakeLog

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup import task
from kafkeep.backup.task import BackupBundle, BundledRange, archive_bundle
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.objects.sink.spec import SinkIntent
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.store.memory import MemoryStore

PID = PartitionId("t", 1, 0)


def archive(log: FakeLog, store: MemoryStore, write: SegmentIntent | SinkIntent) -> list[Entry]:
    """Archive all of ``log`` as partition ``PID`` and return the entries."""
    return archive_all([log], store, write)


def archive_all(
    logs: Sequence[FakeLog],
    store: MemoryStore,
    write: SegmentIntent | SinkIntent,
    *,
    seconds: float = 1000.0,
    limit: int = 10**6,
    est_bytes: int = 1,
) -> list[Entry]:
    """Archive logs as the partitions of one topic; an answer has about ``limit`` bytes."""
    bundle = BackupBundle(
        ranges=tuple(
            BundledRange(number, _planned(number, log), True, est_bytes)
            for number, log in enumerate(logs)
        ),
        kafka=KafkaOptions("nowhere:1"),
        archive="memory:",
        storage=StorageOptions(),
        log_name="offline",
        connector="offline",
        write=write,
        seconds=seconds,
    )
    wire = FakeFetchWire({("t", number): log for number, log in enumerate(logs)}, limit)
    with (
        mock.patch.object(task, "wire_for", lambda _: wire),
        mock.patch.object(task, "open_store", lambda *_: store),
    ):
        rows = list(archive_bundle(bundle))
    return [Entry.from_json(body["entry"]) for kind, body in rows if kind == "object"]


def _planned(number: int, log: FakeLog) -> PlannedRange:
    pid = PartitionId("t", 1, number)
    return PlannedRange(partition_id=pid, topic_id="id", range=OffsetRange(0, log.end))
