"""Connectors as jobs: sinks and sources on real Kafka, S3 and Spark."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import Cluster, until
from tests.support.connect.jobs import Worker, group_offsets, produce_json, read_values
from tests.support.connect.run_source import run_source
from tests.support.sink_runs import Bucket
from tests.support.waiting import PATIENCE_S

from kafkeep.archive.names import connector_log
from kafkeep.archive.view import load_view
from kafkeep.connect.jobs.make import make_job
from kafkeep.connect.jobs.offsets import alter_offsets, read_offsets, reset_offsets
from kafkeep.connect.model import RestError
from kafkeep.dev import DevStatus
from kafkeep.errors import NoSuchArchiveError, RecordError
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.tasks import TaskRunner
from kafkeep.store.open import open_store

pytestmark = pytest.mark.integration


@pytest.fixture
def bucket(services: DevStatus) -> Iterator[Bucket]:
    made = Bucket(services)
    yield made
    made.remove()


@pytest.fixture
def worker(services: DevStatus, open_spark: TaskRunner, bucket: Bucket, tmp_path: Path) -> Worker:
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


@pytest.mark.core(suite="service")
def test_a_sink_archives_commits_its_group_and_continues_after_a_restart(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    produce_json(cluster, topic, *range(7))
    config = worker.json_sink(topic)
    folder = f"topics/{topic}/partition=0/{topic}+0+000000000"
    with worker.running("one", config) as job:
        until(lambda: job.progress.records == 6, "six records are archived")
        until(
            lambda: group_offsets(cluster, "connect-one", topic) == {(topic, 0): 6},
            "the group is told",
        )
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
        until(
            lambda: group_offsets(cluster, "connect-one", topic) == {(topic, 0): 9},
            "the group is told",
        )
    assert stored(bucket) == {**expected, f"{folder}6.json": [6, 7, 8]}
    assert set(worker.spark_jobs) == {"one"}


def test_a_group_that_was_not_committed_is_committed_at_the_next_start(
    worker: Worker, cluster: Cluster, topic: str
) -> None:
    produce_json(cluster, topic, *range(3))
    config = worker.json_sink(topic)
    with worker.running("mended", config) as job:
        until(lambda: job.progress.records == 3, "all is archived")
    cluster.commit_offset("connect-mended", topic, 1)
    with worker.running("mended", config):
        until(
            lambda: group_offsets(cluster, "connect-mended", topic) == {(topic, 0): 3},
            "it is mended",
        )
    assert worker.spark_jobs == ["mended"]


@pytest.mark.parametrize("name", ["moved", "moved: größer"])
def test_a_connector_that_ran_elsewhere_is_taken_over_at_its_groups_offsets(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str, name: str
) -> None:
    group = f"connect-{name}"
    cluster.grow(topic, 2)
    produce_json(cluster, topic, *range(6))
    produce_json(cluster, topic, *range(3), partition=1)
    cluster.commit_offset(group, topic, 3)
    with worker.running(name, worker.json_sink(topic)) as job:
        until(lambda: job.progress.records == 6, "what the group had not is archived")
        told = {(topic, 0): 6, (topic, 1): 3}
        until(lambda: group_offsets(cluster, group, topic) == told, "the group is told")
    assert sorted(stored(bucket).values()) == [[0, 1, 2], [3, 4, 5]]
    assert f"taken over from group {group}" in _notes(bucket, connector_log(name))
    # The log says where to go on from now on, whatever becomes of the group.
    cluster.commit_offset(group, topic, 0)
    with worker.running(name, worker.json_sink(topic)) as job:
        until(lambda: job.progress.positions == told, "it knows")
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
        until(lambda: job.progress.lag_records == {(topic, 0): 1}, "the tail waits")
        spent = [spent_idle(worker)]
        while min(spent) >= 0.15 and len(spent) < 5:  # others slow this process down, too
            spent.append(spent_idle(worker))
        assert min(spent) < 0.15, f"{spent} s of CPU in 5 s: 50 of them would keep two cores busy"


def spent_idle(worker: Worker) -> float:
    """Return the CPU seconds of this process in five; those that ran a Spark job do not count."""
    worker.spark_jobs.clear()
    began = time.process_time()
    time.sleep(5)
    return math.inf if worker.spark_jobs else time.process_time() - began


def test_a_bad_record_stops_a_sink_when_it_comes_not_when_its_file_is_due(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    produce_json(cluster, topic, 0, 1)
    cluster.transaction(topic, ["{never committed"], commit=False)
    config = worker.json_sink(topic, flush_size=1000)
    with worker.running("early", config) as job:
        until(lambda: job.progress.lag_records.get((topic, 0), 0) > 1, "records wait")
        produce_json(cluster, topic, 2)
        end = cluster.end(topic)
        until(
            lambda: job.progress.lag_records == {(topic, 0): end}, "an aborted record harms nobody"
        )
    bad = cluster.end(topic)
    cluster.produce(topic, [{"value": b"{not json", "partition": 0}])
    with pytest.raises(RecordError, match=f"{topic}-0 offset {bad}: "):
        run_until_it_fails(worker, "early", config)
    assert worker.spark_jobs == []
    assert bucket.list_keys() == set()
    with worker.running("early", {**config, "errors.tolerance": "all", "flush.size": "3"}):
        until(lambda: sorted(stored(bucket).values()) == [[0, 1, 2]], "the good ones are stored")


def run_until_it_fails(worker: Worker, name: str, config: dict[str, str]) -> None:
    """Run a connector in this thread; one that does not fail is stopped, and returns."""
    stop = threading.Event()
    timer = threading.Timer(PATIENCE_S, stop.set)
    timer.start()
    try:
        make_job(name, config, worker.context).run(stop)
    finally:
        timer.cancel()


def test_segments_of_our_own_connector_are_closed_by_age(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    produce_json(cluster, topic, *range(4))
    config = worker.config("kafkeep.Backup", topics=topic, segment_age="1s", nonsense="x")
    with worker.running("plain", config) as job:
        until(lambda: job.progress.records == 4, "a segment is written")
    assert [key.rpartition(".log.")[2] for key in bucket.list_keys()] == ["zst"]


def value(n: int) -> bytes:
    return b'{"n":%d}' % n


def archive(worker: Worker, cluster: Cluster, topic: str, total: int, name: str = "sink") -> None:
    """Run a sink until it has archived ``total`` records of partition 0."""
    with worker.running(name, worker.json_sink(topic)) as job:
        until(lambda: job.progress.positions.get((topic, 0)) == total, f"{total} are archived")


@pytest.mark.core(suite="service")
def test_a_source_restores_then_brings_what_is_new_and_doubles_nothing_over_restarts(
    worker: Worker, cluster: Cluster, topic: str, topic_name: str
) -> None:
    target = f"{topic_name}-back"
    produce_json(cluster, topic, *range(6))
    archive(worker, cluster, topic, 6)
    config = worker.config(
        "io.confluent.connect.s3.source.S3SourceConnector",
        topics=f"{topic}:{target}",
        s3_poll_interval_ms=200,
    )
    with worker.running("back", config) as job:
        until(lambda: job.progress.records == 6, "what there is comes back")
        assert (job.type, job.progress.topics) == ("source", {target})
        assert job.progress.positions == {(topic, 0): 6}
        produce_json(cluster, topic, *range(6, 9))
        archive(worker, cluster, topic, 9)
        until(lambda: job.progress.records == 9, "what is new comes too")
    with worker.running("back", config) as job:  # what came while it was away
        until(lambda: job.progress.lag_records == {(topic, 0): 0}, "it has read the log")
        assert job.progress.records == 0
        produce_json(cluster, topic, *range(9, 12))
        archive(worker, cluster, topic, 12)
        until(lambda: job.progress.records == 3, "and goes on")
        until(lambda: job.progress.lag_records == {(topic, 0): 0}, "nothing waits")
    assert read_values(cluster, target, 12) == [value(n) for n in range(12)]


def test_what_others_write_between_two_rounds_is_left_alone(
    worker: Worker, cluster: Cluster, topic: str, topic_name: str
) -> None:
    target = f"{topic_name}-live"
    produce_json(cluster, topic, *range(3))
    archive(worker, cluster, topic, 3)
    config = worker.config(
        "ch.tbd.kafka.backuprestore.restore.kafkaconnect.RestoreSourceConnector",
        topics=f"{topic}:{target}",
        instance_name_restore="sink",
    )
    with worker.running("live", config) as job:
        until(lambda: job.progress.records == 3, "it is restored")
    produce_json(cluster, target, 100)
    produce_json(cluster, topic, *range(3, 6))
    archive(worker, cluster, topic, 6)
    with worker.running("live", config) as job:
        until(lambda: job.progress.records == 3, "the rest is appended")
    assert read_values(cluster, target, 7) == [value(n) for n in (0, 1, 2, 100, 3, 4, 5)]


def test_a_generic_source_brings_objects_of_any_name_to_the_topics_of_its_expressions(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    other = cluster.create(f"{topic}-other", 2)
    first = {
        "inbox/2024/b.json": b'{"n":3}\n{"n":4}\n',
        "inbox/2024/a.json": b'{"n":1}\n{"n":2}\n',
        "inbox/2024/empty.json": b"",
        "inbox/other/x.json": b'{"n":9}\n',
        "inbox/readme.txt": b"not for us",
        "elsewhere/z.json": b'{"n":99}\n',
    }
    put_objects(bucket, first)
    config = worker.config(
        "io.confluent.connect.s3.source.S3SourceConnector",
        mode="GENERIC",
        topic_regex_list=f"{other}:.*/other/.*,{topic}:.*",
        topics_dir="inbox",
        format_class="io.confluent.connect.s3.format.json.JsonFormat",
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        value_converter_schemas_enable="false",
        s3_poll_interval_ms=500,
    )

    def numbers(name: str, count: int) -> list[int]:
        return [json.loads(value)["n"] for value in read_values(cluster, name, count)]

    with worker.running("generic", config) as job:
        assert numbers(topic, 4) == [1, 2, 3, 4]
        assert numbers(other, 1) == [9]
        put_objects(bucket, {"inbox/2024/f.json": b'{"n":5}\n', "inbox/new/a.json": b'{"n":6}\n'})
        assert numbers(topic, 6) == [1, 2, 3, 4, 5, 6]
        until(lambda: job.progress.records == 7, "all of it is counted")
    put_objects(bucket, {"inbox/2024/g.json": b'{"n":7}\n'})
    around = worker.context
    with worker.running("generic", config):
        assert numbers(topic, 7) == [1, 2, 3, 4, 5, 6, 7]
    assert {
        one["partition"]["folder"]: one["offset"]["lastFileRead"]
        for one in read_offsets("generic", config, around)
    } == {
        "inbox/2024/": "inbox/2024/g.json",
        "inbox/new/": "inbox/new/a.json",
        "inbox/other/": "inbox/other/x.json",
    }
    moved = {
        "partition": {"folder": "inbox/2024/"},
        "offset": {"lastFileRead": "inbox/2024/b.json"},
    }
    alter_offsets("generic", config, around, [moved])
    with worker.running("generic", config):
        assert numbers(topic, 9) == [1, 2, 3, 4, 5, 6, 7, 5, 7]


def put_objects(bucket: Bucket, objects: dict[str, bytes]) -> None:
    for key, body in objects.items():
        bucket.client.put_object(Bucket=bucket.name, Key=key, Body=body)


@pytest.mark.parametrize("poll", [{}, {"poll_interval_ms": 200}], ids=["once", "follows"])
def test_a_source_that_is_there_before_its_archive_waits_and_then_restores(
    worker: Worker,
    cluster: Cluster,
    topic: str,
    poll: dict[str, object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = f"{topic}-back"
    config = worker.config("kafkeep.Restore", topics=f"{topic}:{target}", **poll)
    with worker.running("early", config) as job:
        until(lambda: "no log of kafkeep's yet" in caplog.text, "it says that it waits")
        time.sleep(1)  # it looks again meanwhile, and does not say so again
        produce_json(cluster, topic, *range(3))
        archive(worker, cluster, topic, 3)
        until(lambda: job.progress.records == 3, "what is there by now comes back")
    assert caplog.text.count("no log of kafkeep's yet") == 1
    assert read_values(cluster, target, 3) == [value(n) for n in range(3)]


def test_a_source_that_is_there_before_confluents_objects_waits_and_then_restores(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = worker.config(
        "io.confluent.connect.s3.source.S3SourceConnector",
        topics=topic,
        format_class="io.confluent.connect.s3.format.json.JsonFormat",
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        value_converter_schemas_enable="false",
        s3_poll_interval_ms=200,
    )
    with worker.running("early", config) as job:
        until(lambda: "no object of Confluent's sink" in caplog.text, "it says that it waits")
        put_objects(bucket, {f"topics/{topic}/partition=0/{topic}+0+0000000000.json": value(1)})
        until(lambda: job.progress.records == 1, "the object comes back")
    assert read_values(cluster, topic, 1) == [value(1)]


@pytest.mark.parametrize("mode", [{}, {"mode": "GENERIC", "topic_regex_list": "t:.*"}])
def test_a_source_whose_bucket_does_not_exist_fails_in_a_sentence(
    worker: Worker, mode: dict[str, object]
) -> None:
    given = {"format_class": "json", "s3_bucket_name": "no-such-bucket", **mode}
    config = worker.config("io.confluent.connect.s3.source.S3SourceConnector", **given)
    with pytest.raises(NoSuchArchiveError, match="there is no bucket no-such-bucket"):
        run_until_it_fails(worker, "nowhere", config)


def offset_of(topic: str, at: int | None) -> dict[str, Any]:
    """Return Connect's shape of partition 0's offset."""
    return {
        "partition": {"kafka_topic": topic, "kafka_partition": 0},
        "offset": None if at is None else {"kafka_offset": at},
    }


def test_offsets_of_a_sink_are_shown_moved_and_reset_and_its_group_follows(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str
) -> None:
    produce_json(cluster, topic, *range(6))
    config, around = worker.json_sink(topic), worker.context
    assert read_offsets("moves", config, around) == []
    archive(worker, cluster, topic, 6, name="moves")
    assert read_offsets("moves", config, around) == [offset_of(topic, 6)]
    answer = alter_offsets("moves", config, around, [offset_of(topic, 3)])
    assert "altered successfully" in answer
    assert read_offsets("moves", config, around) == [offset_of(topic, 3)]
    assert group_offsets(cluster, "connect-moves", topic) == {(topic, 0): 3}
    archive(worker, cluster, topic, 6, name="moves")
    assert sorted(stored(bucket).values()) == [[0, 1, 2], [3, 4, 5], [3, 4, 5]]
    with pytest.raises(RestError, match=f"{topic}-0 ends at offset 6; 7 is past it") as refused:
        alter_offsets("moves", config, around, [offset_of(topic, 7)])
    assert refused.value.status == 400
    for nowhere in (f"{topic}-2", "no topic", "../up"):
        for at in (3, None) if " " in nowhere else (3,):
            with pytest.raises(RestError) as refused:
                alter_offsets("moves", config, around, [offset_of(nowhere, at)])
            assert refused.value.status == 400
    assert read_offsets("moves", config, around) == [offset_of(topic, 6)]
    alter_offsets("moves", config, around, [offset_of(topic, 6)])
    assert "reset successfully" in reset_offsets("moves", config, around)
    assert read_offsets("moves", config, around) == []
    assert group_offsets(cluster, "connect-moves", topic) == {}
    archive(worker, cluster, topic, 6, name="moves")
    assert sorted(stored(bucket).values()) == sorted([*[[0, 1, 2]] * 2, *[[3, 4, 5]] * 3])
    view = load_view(open_store(f"s3://{bucket.name}", read_storage(worker)), "moves")
    assert [(e.range.start, e.range.end) for e in view.entries()] == [(0, 3), (3, 6)]


def read_storage(worker: Worker) -> StorageOptions:
    s3 = worker.services.s3
    return StorageOptions(
        endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key
    )


def test_offsets_of_a_source_are_objects_and_after_a_reset_all_comes_back_again(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic: str, topic_name: str
) -> None:
    produce_json(cluster, topic, *range(6))
    archive(worker, cluster, topic, 6)
    target = f"{topic_name}-again"
    config = worker.config(
        "ch.tbd.kafka.backuprestore.restore.kafkaconnect.RestoreSourceConnector",
        topics=f"{topic}:{target}",
    )
    around = worker.context
    assert read_offsets("again", config, around) == []
    with worker.running("again", config) as job:
        until(lambda: job.progress.records == 6, "it is restored")
    folder = f"topics/{topic}/partition=0/"
    first, last = (f"{folder}{topic}+0+000000000{n}.json" for n in (0, 3))
    shown = {"lastFileRead": last, "fileOffset": "3", "eof": "true"}
    assert read_offsets("again", config, around) == [
        {"partition": {"folder": folder}, "offset": shown}
    ]
    back = {"partition": {"folder": folder}, "offset": {**shown, "lastFileRead": first}}
    alter_offsets("again", config, around, [back])
    assert read_offsets("again", config, around) == [back]
    with worker.running("again", config) as job:
        until(lambda: job.progress.records == 3, "one object comes back again")
    reset_offsets("again", config, around)
    assert read_offsets("again", config, around) == []
    with worker.running("again", config) as job:
        until(lambda: job.progress.records == 6, "all comes back again")
    numbers = [*range(6), 3, 4, 5, *range(6)]
    assert read_values(cluster, target, 15) == [value(n) for n in numbers]


PLACES = (
    "follow.planned",
    "follow.opened",
    "restore.prepared",
    "restore.created",
    "restore.documented",
    "request.before",
    "restore.written",
    "restore.reset",
    "follow.written",
    "follow.finished",
)


def test_a_source_killed_at_every_place_doubles_and_loses_nothing(
    worker: Worker, cluster: Cluster, topic: str, topic_name: str, tmp_path: Path
) -> None:
    """It is killed once at each place in its first rounds, and then left to finish."""
    target = f"{topic_name}-killed"
    produce_json(cluster, topic, *range(12))
    archive(worker, cluster, topic, 12)
    config = worker.config("kafkeep.Restore", topics=f"{topic}:{target}")
    trace = tmp_path / "trace"
    for place in PLACES:
        code = run_source("killed", config, worker.context, f"{place}:exit@1", trace)
        assert code == 137, place
    assert trace.read_text().split() == list(PLACES)
    assert run_source("killed", config, worker.context, "", trace) == 0
    assert read_values(cluster, target, 12) == [value(n) for n in range(12)]


def test_offsets_that_kafka_deleted_are_warned_of_and_shown_after_a_restart_too(
    worker: Worker, cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    produce_json(cluster, topic, *range(3))
    config = worker.json_sink(topic)
    with worker.running("gap", config) as job:
        until(lambda: job.progress.records == 3, "three records are archived")
        assert job.progress.lost.count == 0
    produce_json(cluster, topic, *range(3, 10))
    cluster.delete_records(topic, before=7)
    with worker.running("gap", config) as job:
        until(lambda: job.progress.records == 3, "what is left is archived")
        until(lambda: job.progress.lost.count == 1, "the gap is known")
    line = (
        f"connector gap: gap in {topic}-0: offsets 3 to 6 inclusive (4 in all): deleted from Kafka"
    )
    assert [r.levelname for r in caplog.records if line in r.getMessage()] == ["WARNING"]
    with worker.running("gap", config) as job:
        until(lambda: job.progress.measured_ms is not None, "it has looked")
        lost = job.progress.lost
    assert (lost.count, lost.offsets) == (1, 4)
    assert [(one.topic, one.partition, one.start, one.end) for one in lost.newest] == [
        (topic, 0, 3, 7)
    ]
