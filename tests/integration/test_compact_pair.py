"""Two connectors that take turns at a compacted topic, on real Kafka, S3 and Spark."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import fastavro
import pytest
from confluent_kafka import TopicPartition
from tests.support.cluster import WAIT, Cluster, until
from tests.support.connect.jobs import Worker
from tests.support.run_kafkeep import kafkeep
from tests.support.sink_runs import Bucket

from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus
from kafkeep.errors import NoSuchArchiveError
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.tasks import TaskRunner
from kafkeep.store.open import open_store

pytestmark = pytest.mark.integration

CH_TBD = "ch.tbd.kafka.backuprestore."
PAIR = CH_TBD + "backup.kafkaconnect.compact.CompactBackupSinkConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
SECONDS = 3
"""How long a turn lasts."""


@pytest.fixture
def bucket(services: DevStatus) -> Bucket:
    return Bucket(services)


@pytest.fixture
def worker(services: DevStatus, open_spark: TaskRunner, bucket: Bucket, tmp_path: Path) -> Worker:
    return Worker(services, open_spark, str(tmp_path / "state"), bucket.name)


def config(worker: Worker, topic: str, status: str) -> dict[str, str]:
    """Return one of the pair, as the seed has it."""
    return {
        **worker.config(PAIR, topics=topic, flush_size=3, tasks_max=1),
        "key.converter": BYTES,
        "value.converter": BYTES,
        "compacted.log.backup.initial.status": status,
        "compacted.log.backup.length.hours": str(SECONDS / 3600),
        "compacted.log.backup.interval.offsets": "10000",
    }


def produce(cluster: Cluster, topic: str, values: dict[str, int]) -> None:
    cluster.produce(
        topic, [{"key": k.encode(), "value": b"%d" % v, "partition": 0} for k, v in values.items()]
    )


def snapshot(bucket: Bucket, instance: str) -> dict[str, int]:
    """Return the newest value of each key in an instance's objects, read by another library."""
    rows = []
    for key in bucket.list_keys():
        if key.split("/")[1] == instance:
            with suppress(bucket.client.exceptions.NoSuchKey):  # deleted since it was listed
                rows += fastavro.reader(io.BytesIO(bucket.read(key)))
    rows.sort(key=lambda row: row["offset"])
    return {row["key"].decode(): int(row["value"]) for row in rows}


def folders(bucket: Bucket) -> set[str]:
    return {key.rsplit("/", 1)[0] for key in bucket.list_keys()}


@contextmanager
def always_whole(worker: Worker, bucket: Bucket, records: int) -> Iterator[list[str]]:
    """Look again and again whether one log counts so many offsets, all its objects there.

    From when the first does: a log counts what is in the bucket a while after it is there.
    """
    s3 = worker.services.s3
    options = StorageOptions(
        endpoint=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, region=s3.region
    )
    store = open_store(f"s3://{bucket.name}", options)
    stop, wrong, whole = threading.Event(), [], []

    def holds(name: str) -> bool:
        try:
            view = load_view(store, name)
        except NoSuchArchiveError:
            return False
        entries = list(view.entries())
        there = bucket.list_keys()
        held = max((entry.range.end for entry in entries), default=0)
        return held >= records and all(entry.key in there for entry in entries)

    def is_whole() -> list[str]:
        # Both are asked: while one is asked the other may become the one that holds.
        return [name for name in ("one", "two", "one") if holds(name)]

    def look() -> None:
        while not stop.wait(0.1):
            found = is_whole()
            (whole if found else wrong).append(str(found))

    until(is_whole, "a log counts the first snapshot")
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield whole
    finally:
        stop.set()
        thread.join(30)
    assert not wrong, f"{len(wrong)} times of {len(wrong) + len(whole)} no snapshot was whole"


def test_roles_change_and_there_is_a_whole_snapshot_at_every_moment(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic_name: str
) -> None:
    topic = cluster.create(topic_name, config={"cleanup.policy": "compact"})
    first = {f"k{n}": n for n in range(10)}
    produce(cluster, topic, first)
    with (
        worker.running("one", config(worker, topic, "ACTIVATE")),
        worker.running("two", config(worker, topic, "PASSIVATE")),
    ):
        until(lambda: snapshot(bucket, "one") == first, "the active one has a snapshot")
        assert folders(bucket) == {f"{topic}/one/0"}
        with always_whole(worker, bucket, 10) as looks:
            newer = {**first, "k3": 33, "k10": 10}
            produce(cluster, topic, {"k3": 33, "k10": 10})
            until(lambda: snapshot(bucket, "two") == newer, "the passive one has taken over")
            until(lambda: snapshot(bucket, "one") == {}, "the old snapshot is deleted")
            newest = {**newer, "k0": 100}
            produce(cluster, topic, {"k0": 100})
            until(lambda: snapshot(bucket, "one") == newest, "and back, in the same folder")
            until(lambda: folders(bucket) == {f"{topic}/one/0"}, "the second one is deleted")
        assert len(looks) > 5
    target = f"{topic_name}-back"
    cluster.create(target)
    source = worker.config(
        CH_TBD + "restore.kafkaconnect.RestoreSourceConnector",
        topics=f"{topic}:{target}",
        instance_name_restore="one",
    )
    with worker.running("back", {**source, "key.converter": BYTES, "value.converter": BYTES}):
        until(lambda: restored(cluster, target) == newest, "the snapshot is restored")


def check_whole(bucket: Bucket) -> None:
    """Both logs are intact, every object read."""
    kafkeep("verify", "--archive", f"s3://{bucket.name}", "--deep").expect(0)


@pytest.mark.slow
@pytest.mark.usefixtures("module_s3")
def test_a_pair_whose_objects_lie_in_numbered_folders_continues_in_the_documented_ones(
    worker: Worker, cluster: Cluster, bucket: Bucket, topic_name: str
) -> None:
    topic = cluster.create(topic_name, config={"cleanup.policy": "compact"})
    values = {f"k{n}": n for n in range(4)}
    produce(cluster, topic, values)

    def new(status: str) -> dict[str, str]:
        quick = {"compacted.log.backup.length.hours": str(1 / 3600)}
        return {**config(worker, topic, status), **quick}

    def old(instance: str, status: str) -> dict[str, str]:
        """Return a configuration whose names are those of kafkeep 0.1: ``topic~2/one/0/…``."""
        name = "{{partition}}/{{topic}}-{{partition}}-{{start_offset}}{{extension}}"
        return {**new(status), "object.name.template": f"{{{{topic}}}}/{instance}/{name}"}

    with (
        worker.running("one", old("one", "ACTIVATE")),
        worker.running("two", old("two", "PASSIVATE")),
    ):
        until(lambda: f"{topic}~2/one/0" in folders(bucket), "the first one begins anew")
        until(lambda: snapshot(bucket, "one") == values, "and is whole")
    check_whole(bucket)
    with (
        worker.running("one", new("ACTIVATE")),
        worker.running("two", new("PASSIVATE")),
    ):
        until(
            lambda: not any("~" in folder for folder in folders(bucket)),
            "the snapshot in a numbered folder is retired and deleted",
        )
        produce(cluster, topic, {"k0": 7})
        newer = {**values, "k0": 7}
        until(
            lambda: newer in (snapshot(bucket, "one"), snapshot(bucket, "two")),
            "the pair goes on",
        )
        assert folders(bucket) <= {f"{topic}/one/0", f"{topic}/two/0"}
    check_whole(bucket)


def restored(cluster: Cluster, topic: str) -> dict[str, int]:
    """Return the newest value of each key in a topic."""
    found: dict[str, int] = {}
    end, position = cluster.end(topic), 0
    with cluster.consumer("reader") as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while position < end:
            message = consumer.poll(WAIT)
            assert message is not None and message.error() is None
            found[message.key().decode()] = int(message.value())
            position = message.offset() + 1
    return found
