"""Connectors run as jobs in a test: in threads, over one Spark session whose jobs are counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from tests.support.cluster import COORDINATOR_NOT_READY, WAIT, Cluster, until

from kafkeep.connect.jobs.job import ConnectorJob, JobContext
from kafkeep.connect.jobs.make import make_job
from kafkeep.dev import DevStatus
from kafkeep.options.kafka import KafkaOptions
from kafkeep.spark.tasks import TaskRow, TaskRunner

CONFLUENT = "io.confluent.connect.s3.S3SinkConnector"


class Worker:
    """What a worker shares, and the connectors a test runs on it."""

    def __init__(self, services: DevStatus, spark: TaskRunner, state: str, bucket: str) -> None:
        self._spark = spark
        self.services = services
        self.spark_jobs: list[str] = []
        self.bucket = bucket
        self.context = JobContext(
            kafka=KafkaOptions(services.bootstrap_servers),
            run_tasks=self.run_tasks,
            slots=spark.slots,
            state_address=state,
        )

    def run_tasks(self, bundles: Sequence[Any], task: Any, **more: Any) -> list[TaskRow]:
        """Count a Spark job, and run it."""
        self.spark_jobs.append(str(more.get("pool")))
        return self._spark.run_tasks(bundles, task, **more)

    def config(self, connector: str, **keys: object) -> dict[str, str]:
        """Return a configuration on this worker's bucket; ``_`` in keys stands for a dot."""
        s3 = self.services.s3
        return {
            "connector.class": connector,
            "s3.bucket.name": self.bucket,
            "s3.region": s3.region,
            "store.url": s3.endpoint,
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
            **{key.replace("_", "."): str(value) for key, value in keys.items()},
        }

    def json_sink(self, topic: str, **keys: object) -> dict[str, str]:
        """Return Confluent's sink of one topic, three records to an object."""
        given = {"topics": topic, "flush_size": 3, "format_class": "json", "tasks_max": 2, **keys}
        return self.config(
            CONFLUENT,
            value_converter="org.apache.kafka.connect.json.JsonConverter",
            value_converter_schemas_enable="false",
            **given,
        )

    @contextmanager
    def running(self, name: str, config: Mapping[str, str]) -> Iterator[ConnectorJob]:
        """Run a connector for as long as the body lasts; what it failed with is raised."""
        job = make_job(name, config, self.context)
        stop, failed = threading.Event(), []

        def run() -> None:
            try:
                job.run(stop)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield job
        finally:
            stop.set()
            thread.join(WAIT)
            if failed:
                raise failed[0]
            assert not thread.is_alive(), "the job does not stop"


def group_offsets(cluster: Cluster, group: str, topic: str) -> dict[tuple[str, int], int]:
    """Return what a group has committed on a topic, as a client that is not kafkeep's sees it."""
    answers: list[Any] = []

    def is_answered() -> bool:
        asked = cluster.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        try:
            answers.append(asked[group].result(WAIT))
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_NOT_READY:
                raise
        return bool(answers)

    until(is_answered, f"{group} has a coordinator")
    return {
        (p.topic, p.partition): p.offset
        for p in answers[0].topic_partitions
        if p.offset >= 0 and p.topic == topic
    }


def read_values(cluster: Cluster, topic: str, count: int, partition: int = 0) -> list[bytes]:
    """Return a partition's values from its first record on; ``count`` is how many there must be."""
    until(lambda: cluster.end(topic, partition) >= count, f"{topic} has {count} records")
    values: list[bytes] = []
    with cluster.consumer("reader") as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while len(values) < cluster.end(topic, partition):
            message = consumer.poll(WAIT)
            assert message is not None and message.error() is None
            values.append(message.value())
    return values


def produce_json(cluster: Cluster, topic: str, *numbers: int, partition: int = 0) -> None:
    """Send ``{"n": number}`` for each."""
    cluster.produce(
        topic, [{"value": b'{"n":%d}' % n, "key": b"k", "partition": partition} for n in numbers]
    )
