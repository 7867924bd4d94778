"""What an independent client sees: records of a topic, and whether two topics hold the same.

confluent-kafka shares no code with kafkeep. It reads; what is compared is what any consumer of the
restored topic would get.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from tests.support.waiting import PATIENCE_S, until

READ_SECONDS = PATIENCE_S


class Seen(NamedTuple):
    """One record as a consumer gets it."""

    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def content(self) -> tuple[object, ...]:
        """All that a restore promises to keep."""
        return self.timestamp, self.key, self.value, self.headers


Dump = Mapping[int, Sequence[Seen]]


def dump(
    bootstrap: str, topic: str, *, config: Mapping[str, str] | None = None, committed: bool = True
) -> dict[int, list[Seen]]:
    """Read every partition of ``topic`` to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 64 << 20,
            "fetch.max.bytes": 128 << 20,
            "receive.message.max.bytes": 256 << 20,
            "fetch.wait.max.ms": 10,  # the broker holds a fetch at the end of a partition so long
            **(config or {}),
        }
    )
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str) -> dict[int, list[Seen]]:
    def partitions() -> list[int]:
        """None of a topic that the broker that answers does not know yet."""
        return sorted(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)

    until(partitions, f"{topic} is there")
    numbers = partitions()
    seen: dict[int, list[Seen]] = {number: [] for number in numbers}
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    waiting, deadline = set(numbers), time.monotonic() + READ_SECONDS
    while waiting:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: partitions {sorted(waiting)} have no end")
        for message in consumer.consume(10_000, timeout=0.02):
            error = message.error()
            if error is None:
                seen[message.partition()].append(_seen(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
            else:
                raise RuntimeError(f"{topic}: {error}")
    return seen


def _seen(message: object) -> Seen:
    kind, timestamp = message.timestamp()  # type: ignore[attr-defined]
    headers = message.headers()  # type: ignore[attr-defined]
    return Seen(
        message.offset(),  # type: ignore[attr-defined]
        kind,
        timestamp,
        message.key(),  # type: ignore[attr-defined]
        message.value(),  # type: ignore[attr-defined]
        tuple(headers) if headers is not None else (),
    )


def assert_same(original: Dump, restored: Dump) -> None:
    """Fail with the first difference: partition by partition, record by record, in order."""
    assert sorted(original) == sorted(restored), "the partitions differ"
    for number in sorted(original):
        before, after = original[number], restored[number]
        for place, (left, right) in enumerate(zip(before, after, strict=False)):
            if left.content != right.content:
                raise AssertionError(
                    f"partition {number}, record {place} differs:\n{_short(left)}\n{_short(right)}"
                )
        assert len(before) == len(after), (
            f"partition {number}: {len(before)} records before, {len(after)} after"
        )


def count(seen: Dump) -> int:
    """Count the records of all partitions."""
    return sum(len(records) for records in seen.values())


def _short(record: Seen) -> str:
    text = repr(record)
    return text if len(text) < 400 else f"{text[:200]} … {text[-100:]}"
