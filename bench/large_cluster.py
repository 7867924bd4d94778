"""A cluster with many topics, and an archive of it with many entries.

The archive is what a backup of these topics would have written over a day: its log, checkpoints and
tables are written by the code that backups use. Only its data objects are missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafkeep.archive.commit import Changes, LogSpan, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.kafka.admin.admin import Admin, TopicDescription
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

TOPICS = 1_000
PARTITIONS = 20
RECORDS = 10
"""In each partition; each is an entry of the archive."""
DAY_MS = 86_400_000
_TOPICS_AT_ONCE = 50
_PATIENCE_S = 180.0
_VALUE = b'{"number": %d, "note": "express"}'


def names() -> list[str]:
    """Return the names of the topics, in the order of the pages."""
    return [f"shop-{number:04d}" for number in range(TOPICS)]


def create(bootstrap: str) -> None:
    """Create the topics and fill them with records of the last day."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = names()
    for first in range(0, TOPICS, _TOPICS_AT_ONCE):
        some = [NewTopic(name, PARTITIONS, 1) for name in topics[first : first + _TOPICS_AT_ONCE]]
        for made in admin.create_topics(some).values():
            made.result(120)
    _wait_for_leaders(admin)
    _fill(bootstrap)


def _wait_for_leaders(admin: AdminClient) -> None:
    """Wait until a producer that asks a broker knows all partitions."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        known = admin.list_topics(timeout=60).topics
        counts = [len(known[name].partitions) if name in known else 0 for name in names()]
        if min(counts) == PARTITIONS:
            return
        if time.monotonic() > deadline:
            raise SystemExit("the brokers do not know all topics")
        time.sleep(0.5)


def _fill(bootstrap: str) -> None:
    failed: list[str] = []
    client = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "on_delivery": lambda error, _: failed.append(str(error)) if error else None,
        }
    )
    for topic, time_ms in zip(names(), _times(), strict=True):
        for partition in range(PARTITIONS):
            for number in range(RECORDS):
                value = _VALUE % number
                client.produce(topic, value, b"key", partition, timestamp=time_ms + number)
        client.poll(0)
    client.flush()
    if failed:
        raise SystemExit(f"{len(failed)} records were not sent: {failed[0]}")


def write_log(store: ObjectStore, options: KafkaOptions, name: str) -> int:
    """Write the log of a backup of all records, a commit for each topic; return its entries."""
    with Wire(options) as wire:
        topics = Admin(wire).topics(names())
    clock = _times()
    log = CommitLog.open(store, name, writer="bench", now_ms=lambda: next(clock, now_ms()))
    entries = 0
    for topic, time_ms in zip(names(), _times(), strict=True):
        changes = _changes(topics[topic], time_ms)
        log.append(changes)
        log.checkpoint_if_due()
        entries += len(changes.entries)
    return entries


def _times() -> Iterator[int]:
    first = now_ms() - DAY_MS
    return iter(range(first, first + DAY_MS, DAY_MS // TOPICS))


def _changes(topic: TopicDescription, time_ms: int) -> Changes:
    ids = [PartitionId(topic.name, 1, number) for number in range(topic.partition_count)]
    info = TopicInfo(
        topic=topic.name,
        incarnation=1,
        topic_id=topic.topic_id,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs={},
    )
    return Changes(
        entries=tuple(_entry(pid, topic, at, time_ms) for pid in ids for at in range(RECORDS)),
        positions=dict.fromkeys(ids, RECORDS),
        topics=(info,),
        spans=dict.fromkeys(ids, LogSpan(0, RECORDS)),
    )


def _entry(pid: PartitionId, topic: TopicDescription, offset: int, time_ms: int) -> Entry:
    return Entry(
        key=data_key(pid, offset, ".log.zst"),
        partition_id=pid,
        topic_id=topic.topic_id,
        range=OffsetRange(offset, offset + 1),
        records=1,
        min_timestamp=time_ms + offset,
        max_timestamp=time_ms + offset,
        size_bytes=150,
        raw_bytes=100,
        format="segment",
        codec="zstd",
        sha256="0" * 64,
    )
