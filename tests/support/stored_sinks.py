"""Write records as a sink does, into memory, from a fake Kafka; no services."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from tests.support.fake_kafka import FakeFetchWire, FakeLog

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup import task
from kafkeep.backup.task import BackupBundle, BundledRange, archive_bundle
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.objects.sink.spec import ReadOptions, RotateReason, SinkIntent
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.sink.sink import SinkSpec
from kafkeep.options.storage import StorageOptions
from kafkeep.store.memory import MemoryStore

PID = PartitionId("t", 1, 0)
JSON = {
    "format.class": "json",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "key.converter": "StringConverter",
    "keys.format.class": "json",
}
BATCH = 5
"""Records to a batch: few, so that windows end inside of batches."""


@dataclass(frozen=True)
class Stored:
    """What a sink wrote."""

    store: MemoryStore
    entries: tuple[Entry, ...]
    options: ReadOptions


def fake_log(records: Sequence[Record], end: int | None = None) -> FakeLog:
    """Return a partition of these records, with holes where offsets are missing."""
    log = FakeLog()
    for at in range(0, len(records), BATCH):
        piece = records[at : at + BATCH]
        log.batches.append((piece[0].offset, piece[-1].offset, build_batch(piece)))
    log.visible = list(records)
    log.start = records[0].offset if records else 0
    log.end = end if end is not None else (records[-1].offset + 1 if records else 0)
    return log


@contextmanager
def _services(wire: FakeFetchWire, store: MemoryStore) -> Iterator[None]:
    with (
        mock.patch.object(task, "wire_for", lambda _: wire),
        mock.patch.object(task, "open_store", lambda *_: store),
    ):
        yield


def write_sink(
    records: Sequence[Record],
    options: Mapping[str, str],
    *,
    store: MemoryStore | None = None,
    partition_id: PartitionId = PID,
) -> Stored:
    """Write records with these options, the tail too."""
    store = store or MemoryStore(uuid.uuid4().hex)
    log = fake_log(records)
    planned = PlannedRange(
        partition_id=partition_id, topic_id="id", range=OffsetRange(log.start, log.end)
    )
    closes = {str(partition_id): str(next(iter(RotateReason)))}
    bundle = BackupBundle(
        ranges=(BundledRange(0, planned, True, 1),),
        kafka=KafkaOptions("nowhere:1"),
        archive="memory:",
        storage=StorageOptions(),
        log_name="sink",
        connector="sink",
        write=SinkIntent(sink=SinkSpec(options), closes=closes),
        seconds=1000.0,
    )
    wire = FakeFetchWire({partition_id[::2]: log}, 10**6)
    with _services(wire, store):
        rows = list(archive_bundle(bundle)) if records else []
    found = tuple(Entry.from_json(body["entry"]) for kind, body in rows if kind == "object")
    return Stored(store, found, ReadOptions(SinkSpec(dict(options))))
