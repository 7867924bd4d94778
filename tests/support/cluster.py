"""A test's own hands on Kafka: make topics and fill them, with clients kafkeep does not use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.support.releases import TEST_KAFKA
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev.kafka_version import KafkaVersion
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

WAIT = PATIENCE_S
COORDINATOR_NOT_READY = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
LEADER_NOT_READY = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)
"""What a broker answers that has not yet heard of a partition, or that it leads it."""
ANY_TIME = {"retention.ms": "-1"} | (
    {"message.timestamp.difference.max.ms": str(2**63 - 1)}
    if TEST_KAFKA is not None and KafkaVersion.parse(TEST_KAFKA).numbers < (3, 6, 0)
    else {
        "message.timestamp.after.max.ms": str(2**63 - 1),
        "message.timestamp.before.max.ms": str(2**63 - 1),
    }
)
"""Settings of a topic that takes records of any time, and keeps those that are old."""


class Cluster:
    """One cluster, as a test uses it. Raw batches go over kafkeep's wire: nothing else takes a
    timestamp of -1, or sends a batch of one record a hundred thousand times in a second."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Make a topic and wait until every partition has a leader."""

        def made() -> bool:
            new = NewTopic(topic, partitions, 1, config=dict(config or {}))
            try:
                self.admin.create_topics([new])[topic].result(WAIT)
            except KafkaException as error:
                # With ZooKeeper, a deleted topic lasts longer than brokers describe it.
                gone = not self.partitions(topic)
                if gone and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
                raise
            return True

        until(made, f"{topic} is no longer being deleted")
        until(lambda: len(self.partitions(topic)) == partitions, f"{topic} has its partitions")
        return topic

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions that have a leader; none when the topic is not there."""
        found = self.admin.list_topics(timeout=WAIT).topics.get(topic)
        return [] if found is None else [n for n, p in found.partitions.items() if p.leader > 0]

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT)
        until(lambda: len(self.partitions(topic)) == partitions, f"{topic} has grown")

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until it is gone."""
        self.admin.delete_topics([topic])[topic].result(WAIT)
        until(lambda: not self.partitions(topic), f"{topic} is gone")

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Move a partition's log start, as retention does."""
        wanted = TopicPartition(topic, partition, before)
        self.admin.delete_records([wanted])[wanted].result(WAIT)

    def alter(self, kind: ResourceType, name: str, config: Mapping[str, str]) -> None:
        """Change settings of a topic or a broker; the others stay."""
        resource = ConfigResource(kind, name)
        for key, value in config.items():
            resource.add_incremental_config(
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            )
        self.admin.incremental_alter_configs([resource])[resource].result(WAIT)

    def config(self, topic: str) -> dict[str, str]:
        """Return a topic's settings, defaults included."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource].result(WAIT)
        return {name: entry.value for name, entry in found.items()}

    def end(self, topic: str, partition: int = 0, *, start: bool = False) -> int:
        """Return a partition's end offset, or with ``start`` its first.

        A partition just made is waited for: brokers learn of their leadership one by one.
        """

        def told(consumer: Consumer) -> tuple[int, int] | None:
            wanted = TopicPartition(topic, partition)
            try:
                low, high = consumer.get_watermark_offsets(wanted, timeout=WAIT)
            except KafkaException as error:
                if error.args[0].code() not in LEADER_NOT_READY:
                    raise
                return None
            return low, high

        with self.consumer("ends") as consumer:
            found = until(lambda: told(consumer), f"{topic}-{partition} has a leader that knows it")
        assert found is not None
        return found[0] if start else found[1]

    @contextmanager
    def consumer(self, group: str) -> Iterator[Consumer]:
        """Open a consumer of ``group``."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            yield consumer
        finally:
            consumer.close()

    def commit_offset(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        """Commit an offset for a group, as soon as its coordinator is ready."""
        position = TopicPartition(topic, partition, offset)

        def committed(consumer: Consumer) -> bool:
            try:
                consumer.commit(offsets=[position], asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() not in COORDINATOR_NOT_READY:
                    raise
                return False
            return True

        with self.consumer(group) as consumer:
            until(lambda: committed(consumer), f"{group} has a coordinator")

    def produce(self, topic: str, messages: Iterable[Mapping[str, Any]], **config: object) -> None:
        """Send messages (arguments of ``Producer.produce``) and wait for all of them."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "message.max.bytes": 64 << 20,
                "queue.buffering.max.messages": 0,
                "linger.ms": 20,
                **{name.replace("_", "."): value for name, value in config.items()},
            }
        )
        for message in messages:
            producer.produce(topic, **message)
        assert producer.flush(WAIT) == 0

    def fill(
        self, topic: str, count: int, partition: int = 0, *, first: int = 0, size: int = 40
    ) -> None:
        """Send ``count`` numbered records."""
        pad = "x" * size
        self.produce(
            topic,
            (
                {"key": f"k{i}", "value": f"{i:012d} {pad}", "partition": partition}
                for i in range(first, first + count)
            ),
        )

    def raw(self, topic: str, batches: Sequence[bytes], partition: int = 0) -> None:
        """Send record batches as they are, in order.

        The first is sent again until the leader takes it: brokers learn of their leadership one by
        one. The others follow without waiting for answers.
        """
        place = topic, partition
        with Wire(KafkaOptions(self.bootstrap)) as wire:

            def is_taken() -> bool:
                code = wire.produce({place: batches[0]}).result(WAIT)[place].error_code
                assert code in {0, *LEADER_NOT_READY}, f"{place}: Kafka answers {code}"
                return code == 0

            if batches:
                until(is_taken, f"{place} has a leader that knows it")
            pending = [wire.produce({place: batch}) for batch in batches[1:]]
            codes = [answer.result(WAIT)[place].error_code for answer in pending]
            assert not any(codes), f"{place}: Kafka answers {codes}"

    def records(
        self, topic: str, records: Sequence[Record], partition: int = 0, codec: Codec = Codec.NONE
    ) -> None:
        """Send records in one raw batch; offsets are numbered anew."""
        numbered = [record._replace(offset=i) for i, record in enumerate(records)]
        self.raw(topic, [build_batch(numbered, codec=codec)], partition)

    def transaction(
        self,
        topic: str,
        values: Sequence[str],
        *,
        commit: bool,
        partition: int = 0,
        producer_id: str = "tx",
    ) -> None:
        """Send values in one transaction, and commit or abort it."""
        producer = self.open_transaction(topic, values, partition=partition, name=producer_id)
        self.end_transaction(producer, topic, commit=commit, partition=partition)

    def end_transaction(
        self, producer: Producer, topic: str, *, commit: bool, partition: int = 0
    ) -> None:
        """Commit or abort a transaction, and wait for its marker: Kafka answers before it is there.

        Until then records are held back from those who read what is committed.
        """
        before = self._written(topic, partition)
        if commit:
            producer.commit_transaction(WAIT)
        else:
            producer.abort_transaction(WAIT)
        until(lambda: self._written(topic, partition) > before, f"{topic}-{partition} has a marker")

    def _written(self, topic: str, partition: int) -> int:
        """Return the end of a partition, what open transactions have written included."""
        wanted = TopicPartition(topic, partition)
        found = self.admin.list_offsets(
            {wanted: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED
        )
        return int(found[wanted].result(WAIT).offset)

    def open_transaction(
        self, topic: str, values: Sequence[str], *, partition: int = 0, name: str = "tx"
    ) -> Producer:
        """Send values in a transaction and leave it open."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": f"{topic}-{name}"}
        )
        producer.init_transactions(WAIT)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=value, key=name, partition=partition)
        assert producer.flush(WAIT) == 0
        return producer
