"""Topics to measure with, made by a client that is not ours."""

from __future__ import annotations

import os

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

VALUE = (
    b'{"orderId":"order-%d","customerId":"cust-%d","amount":%d.99,"product":"Laptop",'
    b'"timestamp":"2024-12-03T10:00:00Z","note":"%s"}'
)
WORDS = [
    b"express",
    b"gift wrapped",
    b"leave at the door",
    b"call before",
    b"fragile",
    b"second try",
]
HOUR_MS = 3_600_000
WEEK_MS = 1_733_097_600_000
"""When the week of late records begins."""


def give_back_soon(bootstrap: str) -> None:
    """Let the broker remove the files of deleted topics after a second, not after a minute.

    Else half a gigabyte is given back in the midst of another run. A topic cannot ask for this.
    """
    broker = ConfigResource(ResourceType.BROKER, "1")
    delay = ConfigEntry(
        "log.segment.delete.delay.ms", "1000", incremental_operation=AlterConfigOpType.SET
    )
    broker.add_incremental_config(delay)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([broker])[broker].result()


def create(bootstrap: str, topic: str, partitions: int, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()


def fill(
    bootstrap: str,
    topic: str,
    records: int,
    partitions: int,
    *,
    is_late: bool = False,
    is_spread: bool = True,
    is_varied: bool = False,
    **producer: object,
) -> None:
    """Produce ``records`` JSON records of about 170 bytes, as many to each partition.

    Late ones are of any hour of a week, each of another than the one before. Unless they are
    spread, one partition is filled after the other: batches are large in any number of them. Varied
    ones have a note of their own, which does not compress well.
    """
    client = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            **producer,
        }
    )
    for i in range(records):
        note = os.urandom(32).hex().encode() if is_varied else WORDS[i * 31 % 6]
        value = VALUE % (i, i % 9973, (i * 7919) % 1000, note)
        time_ms = WEEK_MS + i * 61 % 168 * HOUR_MS if is_late else 0  # 0 is now
        partition = i % partitions if is_spread else i * partitions // records
        while True:
            try:
                client.produce(topic, value, b"order-%d" % i, partition, timestamp=time_ms)
                break
            except BufferError:
                client.poll(0.05)
        if i % 5000 == 0:
            client.poll(0)
    client.flush()


def transactions(bootstrap: str, topic: str, count: int, partitions: int) -> None:
    """Produce ``count`` transactions of two records in each partition."""
    client = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    client.init_transactions()
    for number in range(count):
        client.begin_transaction()
        for i in range(2 * partitions):
            client.produce(topic, b"%d %d" % (number, i), partition=i % partitions)
        client.commit_transaction()
