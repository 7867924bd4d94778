"""Run the writer of the sink over a stored case: no Kafka, no Spark, objects in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.support.golden.cases import GoldenCase, GoldenRecord

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.range_writer import Chunk, Uploads
from kafkeep.objects.sink.naming import ObjectOrigin
from kafkeep.objects.sink.writer import SinkWriter
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.store.memory import MemoryStore


def write_offline(
    case: GoldenCase,
    records: Iterable[GoldenRecord],
    settings: Mapping[str, str] | None = None,
    *,
    batch: int = 7,
) -> dict[str, bytes]:
    """Return the objects the sink writes for records, ``batch`` of them to a record batch.

    Raises what the sink raises.
    """
    places = {"store.url": "http://localhost:9000", "s3.bucket.name": "golden"}
    config = {**case.config, **(settings or {}), **places}
    read = ConnectorConfig.from_map(config, name=case.connector, environ={})
    sink = read.sink.options
    store = MemoryStore()
    records = list(records)
    for name, topic in case.topics.items():
        for partition, end in topic.ends.items():
            planned = PlannedRange(
                partition_id=PartitionId(name, 1, partition),
                topic_id="id",
                range=OffsetRange(0, end),
            )
            mine = [r for r in records if (r.topic, r.partition) == (name, partition)]
            _write(store, sink, planned, _batches(mine, batch))
    return {info.key: store.get(info.key) for info in store.list("")}


def _write(store: MemoryStore, sink: SinkOptions, planned: PlannedRange, batches: bytes) -> None:
    origin = ObjectOrigin(
        log_name="golden", planned=planned, plan="plan", naming=sink.naming, tags=sink.tags
    )
    end = planned.range.end
    with Uploads() as uploads:
        writer = SinkWriter(store, origin, sink, uploads, at_ms=0, closes=None)
        if batches:
            writer.add(Chunk(scan_batches(batches), end), 0)
        writer.end(end, finished=True)
        uploads.wait()


def _batches(records: list[GoldenRecord], size: int) -> bytes:
    pieces = [records[at : at + size] for at in range(0, len(records), size)]
    return b"".join(build_batch([_record(r) for r in piece]) for piece in pieces)


def _record(record: GoldenRecord) -> Record:
    headers = [(name.encode(), value) for name, value in record.headers]
    return Record(record.offset, record.timestamp, record.key, record.value, headers)
