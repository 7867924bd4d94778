"""One task of a backup over a partition that is not in Kafka, into a store in memory."""

from __future__ import annotations

from unittest import mock

from fake_kafka import FakeFetchWire, FakeLog
from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup import task
from kafkeep.backup.shape import SinkShape
from kafkeep.backup.task import Bundle, BundledRange, archive_bundle
from kafkeep.backup.write import WriteOptions
from kafkeep.config.kafka import KafkaOptions
from kafkeep.config.storage import StorageOptions
from kafkeep.store.memory import MemoryStore

PID = PartitionId("t", 1, 0)


def archive(log: FakeLog, store: MemoryStore, write: WriteOptions | SinkShape) -> list[Entry]:
    """Archive all of ``log`` as partition ``PID`` and return the entries."""
    planned = PlannedRange(partition_id=PID, topic_id="id", range=OffsetRange(0, log.end))
    bundle = Bundle(
        ranges=(BundledRange(0, planned, True, 1),),
        kafka=KafkaOptions("nowhere:1"),
        archive="memory:",
        storage=StorageOptions(),
        log_name="offline",
        connector="offline",
        write=write,
        seconds=1000.0,
    )
    wire = FakeFetchWire({("t", 0): log}, 10**6)
    with (
        mock.patch.object(task, "wire_for", lambda _: wire),
        mock.patch.object(task, "open_store", lambda *_: store),
    ):
        rows = list(archive_bundle(bundle))
    return [Entry.from_json(body["entry"]) for kind, body in rows if kind == "object"]
