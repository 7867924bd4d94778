"""A cluster with many topics, and an archive of it with many entries.

The archive is what a backup of these topics would have written over a day: its log, checkpoints and
tables are written by the code that backups use. Only its data objects are missing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.beside import Numbers
from bench.runs import kafka_options
from kafkeep.archive.commit import Changes, LogSpan, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.dev import DevOptions, DevStatus, start, stop
from kafkeep.dev import status as status_of
from kafkeep.kafka.admin.admin import Admin, TopicDescription
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

TOPICS = 1_000
PARTITIONS = 20
RECORDS = 10
"""In each partition; each is an entry of the archive."""
DAY_MS = 86_400_000
_TOPICS_AT_ONCE = 50
_PATIENCE_S = 180.0
_VALUE = b'{"number": %d, "note": "express"}'


LAKE = "lake"
"""The connector that archives all topics, and its log."""
FILLED_BEFORE = "KAFKEEP_BENCH_CLUSTER"
"""Names the folder of a cluster that ``python -m bench.large_cluster`` has filled."""


@contextmanager
def running(parent: Path) -> Iterator[tuple[DevStatus, Numbers]]:
    """Run a cluster that is filled, and return what was put into it; or use one filled before."""
    if FILLED_BEFORE in os.environ:
        yield status_of(Path(os.environ[FILLED_BEFORE])), _sizes()
        return
    folder = Path(tempfile.mkdtemp(prefix="pages-", dir=parent))
    try:
        began = time.monotonic()
        own = fill(folder)
        yield own, {**_sizes(), "seconds to make them": time.monotonic() - began}
    finally:
        stop(folder, purge=True)


def _sizes() -> Numbers:
    partitions = TOPICS * PARTITIONS
    return {"topics": TOPICS, "partitions": partitions, "entries": partitions * RECORDS}


def fill(folder: Path) -> DevStatus:
    """Start a cluster in a folder; create the topics, their records and the archive."""
    # Two brokers: one process may not open the files of 20,000 partitions everywhere.
    status = start(DevOptions(folder=folder, brokers=2, registry=True))
    create(status.bootstrap_servers)
    s3 = status.s3
    storage = StorageOptions(
        endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key
    )
    write_log(open_store(archive_of(status), storage), kafka_options(status), LAKE)
    return status


def archive_of(status: DevStatus) -> str:
    """Return the address of the archive."""
    return f"s3://{status.s3.bucket}/console"


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


if __name__ == "__main__":
    fill(Path(sys.argv[1]).absolute())
    print(f"filled; use it with {FILLED_BEFORE}={sys.argv[1]}")
