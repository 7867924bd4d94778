from __future__ import annotations

import hashlib
import random
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.releases import needs_data_sources, needs_filter_pushdown

from kafkeep.archive.commit import Changes, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.errors import EnvironmentFault
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import min_timestamps, scan_batches
from kafkeep.objects.segment.format import SegmentEncoder
from kafkeep.spark.datasource.slices import MIN_PIECE_BYTES
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="dataframe")]

HOUR = 3_600_000
BEGIN = 1_700_000_000_000
NANOSECONDS = BEGIN * 1_000_000


def make_record(offset: int) -> Record:
    headers = ((b"trace", b"t%d" % offset), (b"none", None)) if offset % 2 else ()
    key = None if offset % 5 == 0 else b"k%d" % offset
    return Record(offset, BEGIN + offset * HOUR, key, b"v%d" % offset, headers)


def make_object(
    partition_id: PartitionId, span: OffsetRange, records: list[Record]
) -> tuple[Entry, bytes]:
    """Ten records to a batch, a batch to a frame."""
    raw = b"".join(build_batch(records[at : at + 10]) for at in range(0, len(records), 10))
    batches = scan_batches(raw)
    writer = SegmentEncoder(frame_bytes=1)
    frames = [*writer.add(batches, min_timestamps(batches))]
    last, summary = writer.finish()
    body = b"".join([*frames, last])
    entry = Entry(
        key=data_key(partition_id, span.start, ".log.zst"),
        partition_id=partition_id,
        topic_id=f"id-{partition_id.topic}",
        range=span,
        records=len(span),
        min_timestamp=summary.min_timestamp,
        max_timestamp=summary.max_timestamp,
        size_bytes=len(body),
        raw_bytes=summary.raw_bytes,
        format="segment",
        codec="zstd",
        sha256=hashlib.sha256(body).hexdigest(),
        index=summary.index,
    )
    return entry, body


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Topic orders, 2 partitions of 4 objects with 50 offsets; topic odd with a strange time."""
    store = open_store(str(tmp_path))
    entries = []
    for partition in range(2):
        for start in range(0, 200, 50):
            # The object holds more than it answers for: readers drop the rest.
            records = [make_record(offset) for offset in range(start, start + 60)]
            span = OffsetRange(start, start + 50)
            entry, body = make_object(PartitionId("orders", 1, partition), span, records)
            store.put_new(entry.key, body)
            entries.append(entry)
    odd = [Record(0, NANOSECONDS, b"", b""), Record(1, -1, None, None), Record(2, 0, b"k", b"v")]
    entry, body = make_object(PartitionId("odd", 1, 0), OffsetRange(0, 3), odd)
    store.put_new(entry.key, body)
    info = TopicInfo(
        topic="orders",
        incarnation=1,
        topic_id="id-orders",
        partitions=2,
        replication_factor=1,
        configs={},
    )
    topics = (info, replace(info, topic="odd", topic_id="id-odd", partitions=1))
    log = CommitLog.open(store, "backup", writer="test", now_ms=lambda: BEGIN)
    positions = {PartitionId("orders", 1, partition): 200 for partition in range(2)}
    positions[PartitionId("odd", 1, 0)] = 3
    log.append(Changes(entries=(*entries, entry), topics=topics, positions=positions))
    return tmp_path


def load(session: SparkSession, archive: Path, **options: str) -> DataFrame:
    return session.read.format("kafkeep").options(**options).load(str(archive))


@needs_data_sources
def test_archive_has_the_schema_of_sparks_kafka_source(
    session: SparkSession, archive: Path
) -> None:
    assert load(session, archive).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


@needs_data_sources
def test_every_record_is_there_once_with_all_its_fields(
    session: SparkSession, archive: Path
) -> None:
    rows = load(session, archive, topics="orders").orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in rows] == [
        (partition, offset) for partition in range(2) for offset in range(200)
    ]
    for row in rows:
        made = make_record(row.offset)
        assert (row.key, row.value, row.topic) == (made.key, made.value, "orders")
        assert row.timestamp.astimezone(UTC).timestamp() * 1000 == made.timestamp
        assert row.timestampType == 0
        headers = [(header.key.encode(), header.value) for header in row.headers or ()]
        assert headers == list(made.headers)


@needs_data_sources
@needs_filter_pushdown
def test_filters_read_only_the_objects_they_need(session: SparkSession, archive: Path) -> None:
    kept = archive / "topics/orders/partition=1/orders+1+0000000100.log.zst"
    for path in archive.glob("topics/**/*.zst"):
        if path != kept:
            path.unlink()
    frame = load(session, archive)
    orders = frame.where("topic = 'orders' and partition = 1")
    assert orders.where("offset >= 100 and offset < 150").count() == 50
    assert orders.where("offset between 120 and 122").count() == 3
    assert orders.where("offset in (101, 149)").count() == 2
    # Objects overlap in time by the ten records that the next one answers for.
    begin = datetime.fromtimestamp((BEGIN + 111 * HOUR) / 1000, UTC)
    end = datetime.fromtimestamp((BEGIN + 149 * HOUR) / 1000, UTC)
    times = orders.where(f"timestamp >= '{begin}' and timestamp < '{end}'")
    assert times.count() == 38


@needs_data_sources
@needs_filter_pushdown
def test_a_session_without_filter_pushdown_gets_the_same_answers(
    session: SparkSession, archive: Path
) -> None:
    """So is every session that kafkeep did not start."""
    switch = "spark.sql.python.filterPushdown.enabled"
    session.conf.set(switch, "false")
    try:
        frame = load(session, archive)
        assert frame.count() == 403
        assert frame.where("topic = 'orders' and partition = 1 and offset < 30").count() == 30
    finally:
        session.conf.set(switch, "true")


@needs_data_sources
def test_times_that_spark_cannot_hold_are_null_and_exact_on_request(
    session: SparkSession, archive: Path
) -> None:
    frame = load(session, archive, topics="odd", includeTimestampMs="true").orderBy("offset")
    rows = frame.collect()
    assert [row.timestampMs for row in rows] == [NANOSECONDS, -1, 0]
    assert rows[0].timestamp is None
    assert rows[2].timestamp.astimezone(UTC) == datetime(1970, 1, 1, tzinfo=UTC)
    assert [(row.key, row.value) for row in rows] == [(b"", b""), (None, None), (b"k", b"v")]


@needs_data_sources
def test_a_query_that_wants_nothing_is_empty(session: SparkSession, archive: Path) -> None:
    assert load(session, archive).where("topic = 'absent'").count() == 0
    assert load(session, archive).where("offset < 0").count() == 0


@needs_data_sources
def test_a_commit_shows_the_archive_as_it_was(session: SparkSession, archive: Path) -> None:
    assert load(session, archive, name="backup", commit="0").count() == 0
    assert load(session, archive, name="backup", commit="1").count() == 403


def test_a_spark_without_python_data_sources_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So is Spark 3.5; a later one is made to look like it."""
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    monkeypatch.delitem(sys.modules, "kafkeep.spark.datasource.source", raising=False)
    with pytest.raises(EnvironmentFault, match="cannot read an archive as a DataFrame") as refused:
        import_module("kafkeep.spark.datasource.source")
    assert refused.value.exit_code == 1
    assert "Spark 4.0 or newer" in refused.value.hint


@needs_data_sources
def test_a_registered_format_plans_for_the_tasks_that_the_session_runs_at_once(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkeep.spark.datasource.source import BUNDLES_PER_CORE, register

    rows = [Record(i, BEGIN, None, random.randbytes(MIN_PIECE_BYTES // 8)) for i in range(160)]
    whole = OffsetRange(0, len(rows))
    store = open_store(str(tmp_path))
    entry, body = make_object(PartitionId("large", 1, 0), whole, rows)
    store.put_new(entry.key, body)
    log = CommitLog.open(store, "backup", writer="test", now_ms=lambda: BEGIN)
    info = TopicInfo(
        topic="large",
        incarnation=1,
        topic_id="id-large",
        partitions=1,
        replication_factor=1,
        configs={},
    )
    positions = {entry.partition_id: whole.end}
    log.append(Changes(entries=(entry,), topics=(info,), positions=positions))

    def tasks(**options: str) -> int:
        return load(session, tmp_path, **options).rdd.getNumPartitions()

    for slots in (1, 5):
        with monkeypatch.context() as patch:
            patch.setattr("kafkeep.spark.slots.task_slots", lambda _session, found=slots: found)
            register(session)
        assert tasks() == tasks(numPartitions=str(slots * BUNDLES_PER_CORE))
    assert tasks() > tasks(numPartitions="3")
    register(session)
