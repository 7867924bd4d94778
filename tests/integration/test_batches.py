"""Batches against a real broker and an independent client, both ways."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.cluster import ANY_TIME, WAIT, Cluster

from kafkeep.archive.entry import OffsetRange
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record, TimestampType, build_batch
from kafkeep.kafka.batch.rewrite import regroup, stamp
from kafkeep.kafka.batch.scan import Batches, check_crcs, min_timestamps, scan_batches
from kafkeep.kafka.batch.transactions import drop_aborted
from kafkeep.kafka.client.fetch import FetchPosition
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

pytestmark = [
    pytest.mark.integration,
    pytest.mark.core(suite="records"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

ALL = OffsetRange(0, 2**62)
RECORDS = [
    Record(i, 1_700_000_000_000 + i * 7 % 50, [None, b"", b"k%d" % i][i % 3],
           [None, b"", b"value %d " % i * 20][i % 3 - 1], [(b"h", None), (b"h", b"x")][: i % 3])
    for i in range(300)
]  # fmt: skip


@pytest.fixture
def wire(services: DevStatus) -> Iterator[Wire]:
    with Wire(KafkaOptions(services.bootstrap_servers)) as wire:
        yield wire


def create(services: DevStatus, topic: str) -> None:
    Cluster(services.bootstrap_servers).create(topic, config=ANY_TIME)


def fetch(wire: Wire, topic: str) -> tuple[Batches, list[tuple[int, int]]]:
    wanted = FetchPosition(topic, "", 0, 0, 50 << 20)
    (answer,) = wire.fetch([wanted], max_bytes=50 << 20).result(30)
    assert answer.error is None
    batches = scan_batches(answer.records)
    check_crcs(batches)
    return batches, list(answer.aborted)


def produce(wire: Wire, topic: str, chunks: list[Batches]) -> int:
    sent = 0
    for ready in regroup(chunks, range=ALL, max_batch_bytes=1_000_000, target_bytes=20_000):
        stamp(ready.body, -1, -1, -1)
        answer = wire.produce({(topic, 0): ready.body}).result(30)[topic, 0]
        assert (answer.error_code, answer.base_offset) == (0, sent)
        sent += ready.records
    return sent


def consume(services: DevStatus, topic: str, count: int) -> list[Record]:
    consumer = Consumer(
        {"bootstrap.servers": services.bootstrap_servers, "group.id": topic, "check.crcs": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[Record] = []
    while len(seen) < count:
        messages = consumer.consume(count, timeout=WAIT)
        assert messages, f"only {len(seen)} of {count} records came"
        for message in messages:
            assert message.error() is None
            headers = [(key.encode(), value) for key, value in message.headers() or []]
            time = message.timestamp()[1]
            seen.append(Record(message.offset(), time, message.key(), message.value(), headers))
    consumer.close()
    return seen


def to_records(table: pa.RecordBatch) -> list[Record]:
    return [
        Record(row["offset"], row["timestamp"], row["key"], row["value"],
               [(header["key"], header["value"]) for header in row["headers"]])
        for row in table.to_pylist()
    ]  # fmt: skip


@pytest.mark.parametrize("codec", list(Codec))
def test_regrouped_batches_are_taken_by_the_broker_and_read_by_librdkafka(
    services: DevStatus, wire: Wire, topic_name: str, codec: Codec
) -> None:
    create(services, topic_name)
    kind = TimestampType.LOG_APPEND
    stored = [
        build_batch(RECORDS[:100], codec=codec),
        *(build_batch([record], codec=codec) for record in RECORDS[100:150]),
        build_batch(RECORDS[150:200:2] + RECORDS[200:299], codec=codec),
        build_batch(RECORDS[299:], codec=codec, timestamp_type=kind, max_timestamp=42),
    ]
    source = scan_batches(b"".join(stored))
    sent = produce(wire, topic_name, [source])
    wanted = [r._replace(offset=i) for i, r in enumerate(to_records(decode(source)))]
    assert sent == len(wanted)
    assert consume(services, topic_name, sent) == wanted
    assert to_records(decode(fetch(wire, topic_name)[0])) == wanted


@pytest.mark.parametrize("codec", list(Codec))
def test_times_of_any_size_survive_the_broker(
    services: DevStatus, wire: Wire, topic_name: str, codec: Codec
) -> None:
    create(services, topic_name)
    times = [0, -1, -5, 1_700_000_000_000_000_000, 2**63 - 1, 3]
    records = [Record(i, time, b"k", b"v") for i, time in enumerate(times)]
    produce(wire, topic_name, [scan_batches(build_batch(records, codec=codec))])
    batches, _ = fetch(wire, topic_name)
    assert decode(batches)["timestamp"].to_pylist() == times
    assert min_timestamps(batches).tolist() == [-5]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_produces_is_decoded_as_it_consumes_it(
    services: DevStatus, wire: Wire, topic_name: str, codec: str
) -> None:
    create(services, topic_name)
    producer = Producer(
        {"bootstrap.servers": services.bootstrap_servers, "compression.type": codec}
    )
    for record in RECORDS:
        headers = [(key.decode(), value) for key, value in record.headers]
        producer.produce(topic_name, record.value, record.key, 0, timestamp=record.timestamp,
                         headers=headers)  # fmt: skip
    assert producer.flush(30) == 0
    table = decode(fetch(wire, topic_name)[0])
    assert to_records(table) == consume(services, topic_name, len(RECORDS))
    assert table["timestamp"].to_pylist() == [record.timestamp for record in RECORDS]


def test_aborted_transactions_are_distinguished_from_committed_ones(
    services: DevStatus, wire: Wire, topic_name: str
) -> None:
    create(services, topic_name)
    cluster = Cluster(services.bootstrap_servers)
    producer = Producer(
        {"bootstrap.servers": services.bootstrap_servers, "transactional.id": topic_name}
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic_name, b"%d" % number, partition=0)
        producer.flush(30)
        cluster.end_transaction(producer, topic_name, commit=number % 2 == 0)
    batches, aborted = fetch(wire, topic_name)
    verdict = drop_aborted(batches, aborted)
    kept = decode(batches.select(verdict.keep))
    assert kept["value"].to_pylist() == [b"0", b"2", b"4"]
    dropped = decode(batches.select(verdict.aborted))
    assert dropped["value"].to_pylist() == [b"1", b"3", b"5"]
    starts = [stretch.start for stretch in verdict.stretches]
    assert starts == dropped["offset"].to_pylist()
