"""Connectors as jobs: sinks and sources on real Kafka, S3 and Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster, until
from connect_jobs import Worker, group_offsets, produce_json
from kafkeep.config.spark import SparkOptions
from kafkeep.dev import DevStatus
from kafkeep.spark.door import OpenSpark, SparkDoor
from sink_runs import Bucket

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def open_spark() -> Iterator[OpenSpark]:
    with SparkDoor(SparkOptions(master="local[2,4]")) as door:
        yield door.session()


@pytest.fixture
def bucket(services: DevStatus) -> Bucket:
    return Bucket(services)


@pytest.fixture
def worker(services: DevStatus, open_spark: OpenSpark, bucket: Bucket, tmp_path: Path) -> Worker:
    return Worker(services, open_spark, str(tmp_path / "state"), bucket.name)


@pytest.fixture
def topic(cluster: Cluster, topic_name: str) -> str:
    return cluster.create(topic_name)


def stored(bucket: Bucket) -> dict[str, list[int]]:
    """Return every object and the numbers in it."""
    return {
        key: [json.loads(line)["n"] for line in bucket.read(key).splitlines()]
        for key in sorted(bucket.list_keys())
    }


def test_a_sink_archives_commits_its_group_and_goes_on_after_a_restart(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    produce_json(cluster, topic, *range(7))
    config = worker.json_sink(topic)
    folder = f"topics/{topic}/partition=0/{topic}+0+000000000"
    with worker.running("one", config) as job:
        until(lambda: job.progress.records == 6, "six records are archived")
        until(lambda: group_offsets(cluster, "connect-one") == {(topic, 0): 6}, "the group is told")
        progress = job.progress
        assert (progress.objects, progress.topics) == (2, {topic})
        assert progress.positions == {(topic, 0): 6}
        until(lambda: job.progress.lag_records == {(topic, 0): 1}, "one record waits")
        assert job.progress.lag_since_ms.keys() == {(topic, 0)}
        assert progress.last_commit_ms is not None and progress.bytes > 0
        assert (job.type, job.task_count) == ("sink", 1)
    expected = {f"{folder}0.json": [0, 1, 2], f"{folder}3.json": [3, 4, 5]}
    assert stored(bucket) == expected
    produce_json(cluster, topic, 7, 8)
    with worker.running("one", config) as job:
        until(lambda: job.progress.positions == {(topic, 0): 9}, "the rest is archived")
        until(lambda: job.progress.lag_records == {(topic, 0): 0}, "nothing waits")
        assert job.progress.lag_since_ms == {}
    assert stored(bucket) == {**expected, f"{folder}6.json": [6, 7, 8]}
    assert group_offsets(cluster, "connect-one") == {(topic, 0): 9}
    assert set(worker.spark_jobs) == {"one"}


def test_a_group_that_was_not_told_is_told_at_the_next_start(
    worker: Worker, cluster: Cluster, topic: str
) -> None:
    produce_json(cluster, topic, *range(3))
    config = worker.json_sink(topic)
    with worker.running("mended", config) as job:
        until(lambda: job.progress.records == 3, "all is archived")
    cluster.commit_offset("connect-mended", topic, 1)
    with worker.running("mended", config):
        until(lambda: group_offsets(cluster, "connect-mended") == {(topic, 0): 3}, "it is mended")
    assert worker.spark_jobs == ["mended"]


def test_a_connector_that_ran_elsewhere_is_taken_over_at_its_groups_offsets(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    cluster.grow(topic, 2)
    produce_json(cluster, topic, *range(6))
    produce_json(cluster, topic, *range(3), partition=1)
    cluster.commit_offset("connect-moved", topic, 3)
    with worker.running("moved", worker.json_sink(topic)) as job:
        until(lambda: job.progress.records == 6, "what the group had not is archived")
    assert sorted(stored(bucket).values()) == [[0, 1, 2], [3, 4, 5]]
    assert "taken over from group connect-moved" in _notes(bucket, "moved")
    # The log says where to go on from now on, whatever becomes of the group.
    cluster.commit_offset("connect-moved", topic, 0)
    with worker.running("moved", worker.json_sink(topic)) as job:
        until(lambda: job.progress.positions == {(topic, 0): 6, (topic, 1): 3}, "it knows")
    assert len(bucket.list_keys()) == 2


def _notes(bucket: Bucket, log: str) -> str:
    listed = bucket.client.list_objects_v2(Bucket=bucket.name, Prefix=f"_kafkeep/{log}/log/")
    return " ".join(bucket.read(entry["Key"]).decode() for entry in listed["Contents"])


def test_latest_leaves_out_what_was_there_and_takes_what_comes(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str, topic_name: str
) -> None:
    produce_json(cluster, topic, *range(5))
    late = f"{topic_name}-late"
    config = worker.json_sink(
        f"{topic},{late}", consumer_override_auto_offset_reset="latest", flush_size=2
    )
    with worker.running("latest", config) as job:
        until(lambda: job.progress.positions == {(topic, 0): 5}, "it begins at the end")
        cluster.create(late)  # a topic that comes later has nothing from before
        produce_json(cluster, late, 20, 21)
        produce_json(cluster, topic, 5, 6)
        until(lambda: job.progress.records == 4, "what came is archived")
    assert sorted(stored(bucket).values()) == [[5, 6], [20, 21]]


def test_an_idle_connector_runs_no_spark_job_and_asks_little(
    worker: Worker, cluster: Cluster, topic: str
) -> None:
    produce_json(cluster, topic, *range(4))
    with worker.running("idle", worker.json_sink(topic)) as job:
        until(lambda: job.progress.records == 3, "one object is written")
        time.sleep(1.5)  # the tail is read once, and then waits
        worker.spark_jobs.clear()
        cpu, began = time.thread_time_ns(), time.process_time()
        time.sleep(5)
        spent = time.process_time() - began
        assert worker.spark_jobs == []
        assert spent < 0.25, f"{spent:.3f} s of CPU in 5 s: 50 of them would fill two cores"
        del cpu


def test_segments_of_our_own_connector_are_closed_by_age(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    produce_json(cluster, topic, *range(4))
    config = worker.config("kafkeep.Backup", topics=topic, segment_age="1s", nonsense="x")
    with worker.running("plain", config) as job:
        until(lambda: job.progress.records == 4, "a segment is written")
    assert [key.rpartition(".log.")[2] for key in bucket.list_keys()] == ["zst"]
