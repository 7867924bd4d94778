"""A sink that rotates by the clock, killed -9 at any moment: each record in one object, no other.

What lies in the bucket is listed and read by clients kafkeep does not use: boto3, fastavro, DuckDB.
``KAFKEEP_SEED`` repeats a run; the seed is printed. ``make test-kill`` runs the long ones too.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.support.cluster import WAIT, Cluster, until
from tests.support.independent_client import dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Driver
from tests.support.sink_bucket import Bucket, check_partition

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration
PARTITIONS = 3
PATIENCE = 150.0
NAME = "s3-sink"
FORMATS = ("json", "avro", "parquet")
CONFLUENT = "io.confluent.connect.s3.format.{0}.{1}Format"
CONFIG = {
    "name": NAME,
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "3",
    "s3.bucket.name": "named-by-archive",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "flush.size": "150",
    "rotate.schedule.interval.ms": "1200",
    "timezone": "Europe/Berlin",
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "kind",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "store.kafka.keys": "true",
    "store.kafka.headers": "true",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}
FAILPOINTS = [
    "snapshot.after:exit@3",
    "open.before:exit",
    "open.after:exit",
    "intent.before:exit@2",
    "intent.after:exit@1",
    "intent.after:exit@2",
    "intent.after:drop@2",
    "commit.before:exit@2",
    "commit.after:exit@2",
    "commit.after:drop@2",
    "commit.before:exit@3",
    "commit.after:exit@3",
    "task.start:exit@1",
    "task.start:raise@1",
    "object.before:exit@2",
    "object.before:exit@4",
    "object.after:exit@1",
    "object.after:exit@5",
    "object.after:drop@p=0.3",
    "dead_letters.before:exit@1",
    "dead_letters.after:exit@1",
]
SCHEMA = {
    "type": "struct",
    "name": "Row",
    "fields": [
        {"field": "n", "type": "int64"},
        {"field": "kind", "type": "string"},
        {"field": "text", "type": "string", "optional": True},
    ],
}


class Writer(threading.Thread):
    """An application that keeps on writing; each record knows its number, some are no JSON."""

    def __init__(self, bootstrap: str, topic: str, *, with_schema: bool) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 30})
        self._topic = topic
        self._with_schema = with_schema
        self._ended = threading.Event()
        self._number = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            n = self._number = self._number + 1
            key = None if n % 11 == 0 else f"key {n}"
            headers: list[Any] = [("n", str(n)), ("n", None if n % 2 else "twice")]
            self._producer.produce(
                self._topic,
                self._value(n),
                key,
                partition=n % 5 % PARTITIONS,
                headers=headers if n % 3 else [],
            )

    def _value(self, n: int) -> str:
        if n % 47 == 0:
            return "{" + str(n)
        row = {"n": n, "kind": "abc"[n % 7 % 3], "text": None if n % 13 == 0 else f"änd\n{n}"}
        whole = {"schema": SCHEMA, "payload": row} if self._with_schema else row
        return json.dumps(whole, ensure_ascii=bool(n % 2))

    def run(self) -> None:
        while not self._ended.wait(0.1):
            self.write(12)
            self._producer.poll(0)

    def stop(self) -> None:
        """Return when everything is in Kafka."""
        if self.is_alive():
            self._ended.set()
            self.join()
        assert self._producer.flush(WAIT) == 0


class SinkTrial(Trial):
    """One sink, run by drivers that die, and the application that goes on writing meanwhile."""

    form = "json"

    def begin(self, form: str) -> Writer:
        """Say in which format it writes; return the application, which has written a little."""
        self.form = form
        self.bucket = Bucket(self.archive, NAME)
        names = {"json": "Json", "avro": "Avro", "parquet": "Parquet"}
        kind = CONFLUENT.format(form, names[form])
        config = {
            **CONFIG,
            "topics": self.topic,
            "value.converter.schemas.enable": str(form != "json").lower(),
            "format.class": kind,
            "keys.format.class": kind,
            "headers.format.class": kind,
            "errors.deadletterqueue.topic.name": self.letters,
        }
        self._file.write_text(json.dumps(config))
        writer = Writer(self.cluster.bootstrap, self.topic, with_schema=form != "json")
        writer.write(500)
        return writer

    @property
    def letters(self) -> str:
        return f"{self.topic}-letters"

    @property
    def _file(self) -> Path:
        return self.folder / "connector.json"

    def follow(self, failpoint: str = "") -> Driver:
        return self.start(
            *("backup", "--follow", "--interval", "200ms", "--connector-config", self._file),
            failpoint=failpoint,
        )

    def commits(self) -> int:
        """Return how many commits there are. Not asked too often."""
        time.sleep(0.4)
        return len(self.bucket.commits())

    def kill(self, *, at_work: bool, worker: bool) -> None:
        """Run a driver and kill it: while it starts, or while it writes; a worker before it."""
        before = self.commits()
        driver = self.follow()
        try:
            if at_work:
                until(lambda: self.commits() >= before + 2, "it commits", seconds=PATIENCE)
            self.pause(0, 2.5)
            if worker and self.kill_worker(driver):
                self.pause(0.3, 2)
        finally:
            driver.kill()
        self.check_objects()

    def finish(self, driver: Driver | None = None) -> None:
        """Run until everything is archived, by the clock alone; end it as an operator does."""
        driver = driver or self.follow()
        try:
            ends = {n: self.cluster.end(self.topic, n) for n in range(PARTITIONS)}
            until(lambda: self.positions() == ends, f"all of {ends} is archived", seconds=PATIENCE)
            driver.signal(signal.SIGTERM)
            driver.wait(60).expect(0, 3)
            driver.wait_for_group()
        except BaseException:
            driver.kill()
            print(driver.said()[-4000:])
            raise

    def positions(self) -> dict[int, int]:
        """Return the position of each partition. Not asked too often."""
        time.sleep(0.4)
        return self.bucket.positions(self.topic)

    def left_behind(self) -> set[str]:
        """Return the objects that no commit names."""
        data = {key for key in self.bucket.list() if key.startswith("topics/")}
        return data - {entry["key"] for entry in self.bucket.entries()}

    def check(self) -> None:
        """Hold what lies in the bucket against what an independent client reads from Kafka."""
        self.check_objects()
        self.bucket.check_log()
        entries = self.bucket.entries()
        keys = [entry["key"] for entry in entries]
        assert len(set(keys)) == len(keys), "an object is committed twice"
        assert not self.left_behind(), "objects that belong to nobody"
        assert set(keys) <= set(self.bucket.list()), "objects that are not there"
        bad: set[tuple[int, int]] = set()
        for partition, records in dump(self.cluster.bootstrap, self.topic).items():
            mine = [entry for entry in entries if entry["partition"] == partition]
            left_out = check_partition(self.bucket, mine, records)
            bad |= {(partition, offset) for offset in left_out}
        assert bad and self.reported() == bad

    def reported(self) -> set[tuple[int, int]]:
        """Return partition and offset of every letter; each comes at least once."""
        found = set()
        for letter in dump(self.cluster.bootstrap, self.letters)[0]:
            told = dict(letter.headers)
            place = [told[f"__connect.errors.{name}"] for name in ("partition", "offset")]
            found.add((int(place[0] or b""), int(place[1] or b"")))
        return found


@pytest.fixture
def trial(
    services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path
) -> Iterator[SinkTrial]:
    cluster = Cluster(services.bootstrap_servers)
    cluster.create(topic_name, PARTITIONS)
    yield SinkTrial(cluster, archive_address, topic_name, tmp_path)


def kill_and_finish(trial: SinkTrial, form: str, kills: int) -> None:
    writer = trial.begin(form)
    writer.start()
    try:
        for number in range(kills):
            trial.kill(at_work=number % 4 != 3, worker=number % 3 == 1)
        last = trial.follow()
    finally:
        writer.stop()
    trial.finish(last)
    trial.check()


def test_a_sink_killed_while_it_rotates_by_the_clock_loses_and_doubles_nothing(
    trial: SinkTrial,
) -> None:
    kill_and_finish(trial, trial.chances.choice(FORMATS), 2)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("form", FORMATS)
def test_a_sink_killed_many_times_loses_and_doubles_nothing(trial: SinkTrial, form: str) -> None:
    kill_and_finish(trial, form, 12)


def die(trial: SinkTrial, failpoint: str) -> None:
    driver = trial.follow(failpoint)
    try:
        until(partial(trial.passed, failpoint), f"{failpoint} is reached", seconds=PATIENCE)
        trial.pause(0.5, 2)
    finally:
        driver.kill()
    trial.check_objects()


@pytest.mark.slow
@pytest.mark.parametrize(("failpoint", "form"), list(zip(FAILPOINTS, cycle(FORMATS), strict=False)))
def test_a_sink_that_dies_at_a_named_place_is_finished_by_the_next(
    trial: SinkTrial, failpoint: str, form: str
) -> None:
    writer = trial.begin(form)
    writer.start()
    try:
        die(trial, failpoint)
    finally:
        writer.stop()
    trial.finish()
    trial.check()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
def test_a_sink_that_dies_while_it_adopts_what_the_last_one_left(
    trial: SinkTrial, form: str
) -> None:
    writer = trial.begin(form)
    writer.start()
    try:
        for _ in range(6):  # a commit may be of positions alone
            die(trial, "commit.before:exit@2")
            if trial.left_behind():
                break
        die(trial, "object.adopted:exit@1")
    finally:
        writer.stop()
    trial.finish()
    trial.check()
