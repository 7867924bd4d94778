"""Put the records of the stored cases into a real Kafka: same offsets, times, headers, holes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from tests.support.cluster import ANY_TIME, WAIT, Cluster, until
from tests.support.golden.cases import GoldenCase, GoldenRecord


def produce_cases(
    cluster: Cluster, cases: Sequence[GoldenCase]
) -> dict[str, tuple[GoldenRecord, ...]]:
    """Make every topic of the cases anew and fill it; return by number what is in Kafka now.

    That is what the case says, except for times that the broker sets.
    """
    topics = {name: topic for case in cases for name, topic in case.topics.items()}
    remove_topics(cluster, topics)
    new = [
        NewTopic(name, topic.partitions, 1, config={**ANY_TIME, **topic.configs})
        for name, topic in topics.items()
    ]
    for made in cluster.admin.create_topics(new).values():
        made.result(WAIT)
    plain = [r for case in cases if not _has_transactions(case) for r in case.records]
    _send(Producer(_settings(cluster)), plain)
    for case in cases:
        if _has_transactions(case):
            _produce_transactions(cluster, case)
    with cluster.consumer("golden-ends") as consumer:
        for case in cases:
            _check_ends(consumer, case)
        return {case.number: _as_stored(consumer, case) for case in cases}


def remove_topics(cluster: Cluster, topics: Iterable[str]) -> None:
    """Delete topics that are there, and wait until they are gone."""
    there = sorted(set(topics) & set(cluster.admin.list_topics(timeout=WAIT).topics))
    if there:
        for gone in cluster.admin.delete_topics(there).values():
            gone.result(WAIT)
        until(
            lambda: not set(there) & set(cluster.admin.list_topics(timeout=WAIT).topics),
            "topics of an earlier run are gone",
        )


def _settings(cluster: Cluster) -> dict[str, object]:
    return {"bootstrap.servers": cluster.bootstrap, "linger.ms": 5}


def _has_transactions(case: GoldenCase) -> bool:
    return any(record.transaction for record in case.records)


def _send(producer: Producer, records: Iterable[GoldenRecord]) -> None:
    for record in records:
        producer.produce(
            record.topic,
            key=record.key,
            value=record.value,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
    assert producer.flush(WAIT) == 0


def _produce_transactions(cluster: Cluster, case: GoldenCase) -> None:
    """Play transactions one after another, with the plain records that stand between theirs.

    Each ends with one marker in each partition it touched. A transaction's end is answered before
    its markers are written, so what follows waits for them: offsets must come out as they were.
    """
    plain = Producer(_settings(cluster))
    (topic,) = case.topics
    transactional = Producer({**_settings(cluster), "transactional.id": f"{topic}-golden"})
    transactional.init_transactions(WAIT)
    numbers = sorted({r.transaction[0] for r in case.records if r.transaction})
    with cluster.consumer("golden-markers") as consumer:
        for number in numbers:
            begins = _markers(case, number - 1)
            ends = _markers(case, number)
            transactional.begin_transaction()
            for partition, end in ends.items():
                for record in _between(case, partition, begins.get(partition, -1), end):
                    _send(transactional if record.transaction else plain, [record])
            if _outcome(case, number) == "commit":
                transactional.commit_transaction(WAIT)
            else:
                transactional.abort_transaction(WAIT)
            for partition, end in ends.items():
                until(
                    lambda p=partition, e=end: _end(consumer, topic, p) > e,  # type: ignore[misc]
                    f"the marker of transaction {number} is at {topic}-{partition}:{end}",
                )


def _outcome(case: GoldenCase, number: int) -> str:
    return next(
        r.transaction[1] for r in case.records if r.transaction and r.transaction[0] == number
    )


def _markers(case: GoldenCase, number: int) -> dict[int, int]:
    """Return by partition the offset of the marker that ended a transaction: the n-th hole."""
    if number < 0:
        return {}
    ((_, topic),) = case.topics.items()
    holes: dict[int, int] = {}
    for partition, end in topic.ends.items():
        taken = {r.offset for r in case.records if r.partition == partition}
        holes[partition] = [offset for offset in range(end) if offset not in taken][number]
    return holes


def _between(case: GoldenCase, partition: int, after: int, before: int) -> list[GoldenRecord]:
    mine = [r for r in case.records if r.partition == partition and after < r.offset < before]
    return sorted(mine, key=lambda record: record.offset)


def _end(consumer: Consumer, topic: str, partition: int) -> int:
    wanted = TopicPartition(topic, partition)
    return int(consumer.get_watermark_offsets(wanted, timeout=WAIT)[1])


def _check_ends(consumer: Consumer, case: GoldenCase) -> None:
    for name, topic in case.topics.items():
        found = {partition: _end(consumer, name, partition) for partition in topic.ends}
        assert found == topic.ends, f"{case.name}: {name} ends at {found}, not at {topic.ends}"


def _as_stored(consumer: Consumer, case: GoldenCase) -> tuple[GoldenRecord, ...]:
    """Return the records with the times the broker gave them, where it gives them."""
    ((name, topic),) = list(case.topics.items())[:1]
    if topic.configs.get("message.timestamp.type") != "LogAppendTime":
        return case.records
    consumer.assign([TopicPartition(name, n, 0) for n in range(topic.partitions)])
    times: dict[tuple[int, int], int] = {}
    until(
        lambda: _take_times(consumer, times) == len(case.records),
        f"all of {name} is read back",
    )
    return tuple(
        replace(record, timestamp=times[record.partition, record.offset]) for record in case.records
    )


def _take_times(consumer: Consumer, times: dict[tuple[int, int], int]) -> int:
    for message in consumer.consume(500, timeout=0.05):
        assert message.error() is None
        times[message.partition(), message.offset()] = message.timestamp()[1]
    return len(times)
