"""Topics that hold everything a topic may hold: each scene makes one and says what is in it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from confluent_kafka.admin import ResourceType
from tests.support.cluster import ANY_TIME, Cluster, until
from tests.support.independent_client import count, dump

from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.layout import Record, TimestampType, build_batch

Scene = Callable[[Cluster, str], None]
NOW = time.time_ns() // 1_000_000
DAY = 86_400_000
NANOSECONDS = NOW * 1_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def nulls(cluster: Cluster, topic: str) -> None:
    """Null, empty and filled keys and values, each with each; headers of every kind."""
    cluster.create(topic)
    values = (None, b"", b"filled")
    headers = [
        [],
        [(b"h", None)],
        [(b"h", b"")],
        [(b"h", b"1"), (b"h", b"2"), (b"g", b"3"), (b"h", b"1")],
        [(b"", b"empty key")],
        [(b"raw", bytes(range(256)))],
        [("ключ".encode(), b"\xff\xfe\x00")],
        [(b"n%d" % i, b"%d" % i) for i in range(1000)],
    ]
    records = [Record(0, NOW, key, value) for key in values for value in values]
    records += [Record(0, NOW, b"k", b"v", h) for h in headers]
    cluster.records(topic, records)
    for record in records:  # and each in a batch of its own
        cluster.records(topic, [record])


def times(cluster: Cluster, topic: str) -> None:
    """Every timestamp Kafka takes: none, negative, zero, past, nanoseconds, the end of time."""
    cluster.create(topic, config=ANY_TIME)
    odd = [-5, -1, 0, 1, 1000, NOW - 40_000 * DAY, NOW, NOW + 400 * DAY, NANOSECONDS, 2**62]
    odd += [2**63 - 1]
    records = [Record(0, at, b"k", b"%d" % at) for at in odd]
    for record in records:
        cluster.records(topic, [record])
    cluster.records(topic, records)
    cluster.records(topic, records[::-1], codec=Codec.ZSTD)


def append_time(cluster: Cluster, topic: str) -> None:
    """The broker sets the time: one for a whole batch, whatever the records say."""
    cluster.create(topic, config={"message.timestamp.type": "LogAppendTime"})
    for start in (0, 50, 51):
        cluster.fill(topic, 50, first=start)
        time.sleep(0.02)


def codec(cluster: Cluster, topic: str, name: str) -> None:
    """Batches as one codec packs them: librdkafka's, and ours."""
    cluster.create(topic, 2)
    messages = [
        {"key": f"k{i}", "value": "abc" * (i % 50), "partition": i % 2, "timestamp": NOW + i}
        for i in range(2000)
    ]
    cluster.produce(topic, messages, compression_type=name)
    records = [Record(0, NOW + i, b"%d" % i, b"xyz" * i, [(b"h", b"%d" % i)]) for i in range(200)]
    cluster.records(topic, records, codec=Codec[name.upper()])


def broker_packs(cluster: Cluster, topic: str) -> None:
    """The topic has a codec of its own, which the broker applies."""
    cluster.create(topic, config={"compression.type": "gzip"})
    cluster.fill(topic, 500)


def transactions(cluster: Cluster, topic: str) -> None:
    """Committed and aborted, one after another and interleaved, plain records between them."""
    cluster.create(topic, 3)
    cluster.transaction(topic, [f"c{i}" for i in range(30)], commit=True)
    cluster.transaction(topic, [f"a{i}" for i in range(30)], commit=False)
    cluster.fill(topic, 10)
    first = cluster.open_transaction(topic, ["one-1", "one-2"], name="one")
    second = cluster.open_transaction(topic, ["two-1", "two-2"], name="two")
    cluster.fill(topic, 5, first=10)
    for i in range(20):
        for producer, name in ((first, "one"), (second, "two")):
            producer.produce(topic, value=f"{name} {i}", partition=0)
            producer.flush(30)
    cluster.end_transaction(second, topic, commit=False)
    cluster.fill(topic, 5, first=20)
    cluster.end_transaction(first, topic, commit=True)
    cluster.transaction(topic, ["all of partition 1 is aborted"] * 7, commit=False, partition=1)
    cluster.fill(topic, 3, partition=2)
    cluster.transaction(topic, ["the tail is aborted"] * 5, commit=False, partition=2)


def compacted(cluster: Cluster, topic: str) -> None:
    """Batches with holes, and holes between batches: the cleaner made them, and makes no more."""
    cluster.alter(ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "300",
    }
    cluster.create(topic, 1, config)
    for turn in range(6):
        messages = [
            {"key": f"k{i}", "value": f"{turn} {i}", "partition": 0}
            for i in range(300)
            if turn == 0 or i % (turn + 1) == 0
        ]
        cluster.produce(topic, messages)
        time.sleep(0.3)
    until(
        lambda: (
            (cluster.fill(topic, 1, first=10**6), count(dump(cluster.bootstrap, topic)))[1]
            < cluster.end(topic) - 200
        ),
        "the cleaner has made holes",
    )
    ended = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(2**62)}
    cluster.alter(ResourceType.TOPIC, topic, ended)
    counts = [count(dump(cluster.bootstrap, topic))]

    def is_left_alone() -> bool:
        time.sleep(1)
        counts.append(count(dump(cluster.bootstrap, topic)))
        return counts[-2] == counts[-1]

    until(is_left_alone, "the cleaner has ended")


def cut_start(cluster: Cluster, topic: str) -> None:
    """The log begins inside a batch."""
    cluster.create(topic)
    for turn in range(3):
        cluster.records(topic, [Record(0, NOW, b"%d" % i, b"%d" % turn) for i in range(100)])
    cluster.delete_records(topic, 142)


def empty(cluster: Cluster, topic: str) -> None:
    """Eight partitions and no record."""
    cluster.create(topic, 8)


def mostly_empty(cluster: Cluster, topic: str) -> None:
    """Four partitions, records in one."""
    cluster.create(topic, 4)
    cluster.fill(topic, 25, partition=2)


def large(cluster: Cluster, topic: str) -> None:
    """Records of 10 and 20 MB that do not compress, small ones around them."""
    cluster.create(topic)
    chances = random.Random(7)
    for size in (10, 10_000_000, 10, 20_000_000, 10):
        cluster.produce(topic, [{"value": chances.randbytes(size)}])


def large_packed(cluster: Cluster, topic: str) -> None:
    """Records of 10 MB, by every codec: one that hardly compresses, one that all but vanishes."""
    cluster.create(topic, len(CODECS))
    half = random.Random(8).randbytes(5_000_000)
    for partition, name in enumerate(CODECS):
        for value in (half + bytes(5_000_000), bytes(10_000_000), b"small"):
            message = {"value": value, "partition": partition}
            cluster.produce(topic, [message], compression_type=name)


def single(cluster: Cluster, topic: str) -> None:
    """One batch per record, many of them."""
    cluster.create(topic, 2)
    messages = ({"key": f"{i}", "value": f"v{i}", "partition": i % 2} for i in range(20_000))
    cluster.produce(topic, messages, batch_num_messages=1, linger_ms=0)


def wide(cluster: Cluster, topic: str) -> None:
    """One partition large enough for several tasks."""
    cluster.create(topic)
    pad = b"p" * 1000
    batches = []
    for turn in range(100):
        records = [Record(i, NOW + turn, b"%d" % turn, b"%d %b" % (i, pad)) for i in range(1000)]
        batches.append(build_batch(records, timestamp_type=TimestampType.CREATE))
    cluster.raw(topic, batches)


def plain(cluster: Cluster, topic: str) -> None:
    """A hundred records: what is odd is the name."""
    cluster.create(topic, 2)
    cluster.fill(topic, 50)
    cluster.fill(topic, 50, partition=1)


def scenes(tag: str) -> dict[str, tuple[str, Scene]]:
    """Return every scene by its claim: the topic's name, and what makes it."""
    named: dict[str, tuple[str, Scene]] = {
        scene.__name__: (f"{scene.__name__}-{tag}", scene)
        for scene in (
            compacted,
            nulls,
            times,
            append_time,
            broker_packs,
            transactions,
            cut_start,
            empty,
            mostly_empty,
            large,
            large_packed,
            single,
            wide,
        )
    }
    for one in CODECS:
        named[one] = (f"{one}-{tag}", lambda cluster, topic, name=one: codec(cluster, topic, name))
    named["dotted"] = (f"a.b-{tag}", plain)
    named["underscored"] = (f"A_b-{tag}", plain)
    named["dashed"] = (f"-x-{tag}", plain)
    named["dots"] = ("...", plain)
    named["twin_upper"] = (f"Twin-{tag}", plain)
    named["twin_lower"] = (f"twin-{tag}", plain)
    named["longest"] = (f"{tag}-" + "x" * (248 - len(tag)), plain)
    return named
