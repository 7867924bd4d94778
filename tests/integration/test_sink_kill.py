"""A sink that rotates by the clock, killed -9 at any moment: each record in one object, no other.

``KAFKEEP_SEED`` repeats a run; the seed is printed. ``make test-kill`` runs the long ones too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cluster import WAIT, Cluster, until
from kafkeep.archive.check import check_log
from kafkeep.archive.entry import Entry
from kafkeep.archive.reader import load_view
from kafkeep.archive.store import ObjectStore
from kafkeep.config.storage import StorageOptions
from kafkeep.dev import DevStatus
from kafkeep.errors import NoSuchArchiveError
from kafkeep.store.open import open_store
from oracle import Seen, dump
from runs import Driver, python_workers

pytestmark = pytest.mark.integration
PARTITIONS = 3
NAME = "s3-sink"
CONFIG = {
    "name": NAME,
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "3",
    "s3.bucket.name": "named-by-archive",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "flush.size": "150",
    "rotate.schedule.interval.ms": "1200",
    "timezone": "Europe/Berlin",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
    "partition.field.name": "kind",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "store.kafka.keys": "true",
    "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "store.kafka.headers": "true",
    "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}
FAILPOINTS = [
    "intent.before:exit@2",
    "intent.after:exit@1",
    "intent.after:exit@2",
    "commit.before:exit@2",
    "commit.after:exit@2",
    "commit.before:exit@3",
    "commit.after:exit@3",
    "object.before:exit@2",
    "object.after:exit@1",
    "object.after:exit@5",
    "object.after:drop@p=0.3",
    "task.start:raise@1",
]


class Writer(threading.Thread):
    """An application that keeps on writing; each record knows its number."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 30})
        self._topic = topic
        self._ended = threading.Event()
        self._number = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            n = self._number = self._number + 1
            value = {"n": n, "kind": "abc"[n % 7 % 3], "text": f"änd\n{n}"}
            key = None if n % 11 == 0 else f"key {n}"
            headers: list[Any] = [("n", str(n)), ("n", None if n % 2 else "twice")]
            self._producer.produce(
                self._topic,
                json.dumps(value, ensure_ascii=bool(n % 2)),
                key,
                partition=n % 5 % PARTITIONS,
                headers=headers if n % 3 else [],
            )

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


@dataclass
class Trial:
    """One sink, run by drivers that die."""

    cluster: Cluster
    archive: str
    topic: str
    folder: Path
    chances: random.Random
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    runs: int = 0

    @cached_property
    def store(self) -> ObjectStore:
        return open_store(self.archive, StorageOptions.from_env())

    @property
    def trace(self) -> Path:
        """Where a run says which failpoints it passed."""
        return self.folder / "failpoints"

    def passed(self, failpoint: str) -> bool:
        name = failpoint.partition(":")[0]
        return self.trace.exists() and name in self.trace.read_text().split()

    def start(self, failpoint: str = "") -> Driver:
        self.runs += 1
        file = self.folder / "connector.json"
        file.write_text(json.dumps({**CONFIG, "topics": self.topic}))
        env = {
            "KAFKEEP_FAILPOINT": failpoint,
            "KAFKEEP_FAILPOINT_TRACE": str(self.trace),
            "KAFKEEP_SEED": str(self.chances.randrange(10**6)),
        }
        return Driver(
            self.folder / f"run-{self.runs}",
            *("backup", "--follow", "--interval", "200ms", "--connector-config", file),
            *("--bootstrap-servers", self.cluster.bootstrap, "--archive", self.archive),
            *("--output", "json"),
            env=env,
        )

    def commit(self) -> int:
        """Return the number of the last commit, -1 before the first. Not asked too often."""
        time.sleep(0.4)
        try:
            return load_view(self.store, NAME).commit
        except NoSuchArchiveError:
            return -1

    def kill(self, *, at_work: bool, worker: bool) -> None:
        """Run a driver and kill it: while it starts, or while it writes; a worker before it."""
        before = self.commit()
        driver = self.start()
        try:
            if at_work:
                until(lambda: self.commit() >= before + 2, "it commits", seconds=60)
            time.sleep(self.chances.uniform(0, 2.5))
            workers = python_workers(driver.group) if worker else []
            if workers:
                os.kill(self.chances.choice(workers), signal.SIGKILL)
                time.sleep(self.chances.uniform(0.3, 2))
        finally:
            driver.kill()
        self.check_objects()

    def finish(self, driver: Driver | None = None) -> None:
        """Run until everything is archived, by the clock alone; end it as an operator does."""
        driver = driver or self.start()
        try:
            ends = [self.cluster.end(self.topic, n) for n in range(PARTITIONS)]
            until(lambda: self.positions() == ends, f"all of {ends} is archived", seconds=60)
            driver.signal(signal.SIGTERM)
            driver.wait(60).expect(0)
            driver.wait_for_group()
        except BaseException:
            driver.kill()
            print(driver.said()[-4000:])
            raise

    def positions(self) -> list[int]:
        """Return the position of each partition. Not asked too often."""
        time.sleep(0.4)
        found = load_view(self.store, NAME).positions
        return [position for _, position in sorted(found.items())]

    def check_objects(self) -> None:
        """No object that was ever there has changed or gone."""
        now = {info.key: (info.size_bytes, info.modified_ms) for info in self.store.list("")}
        changed = [key for key, what in self.seen.items() if now.get(key) != what]
        assert not changed, f"replaced or removed: {changed}"
        self.seen = now

    def check(self) -> None:
        """Hold the archive against what an independent client reads from Kafka."""
        self.check_objects()
        assert check_log(self.store, NAME) == []
        view = load_view(self.store, NAME)
        assert view.intent is None
        entries = list(view.entries())
        assert len({entry.key for entry in entries}) == len(entries)
        data = {key for key in self.seen if key.startswith("topics/")}
        assert data == {entry.key for entry in entries}, "objects that belong to nobody"
        there = dump(self.cluster.bootstrap, self.topic)
        for partition, records in there.items():
            mine = [e for e in entries if e.partition_id.partition == partition]
            check_partition(self.store, mine, records)


def check_partition(store: ObjectStore, entries: list[Entry], records: list[Seen]) -> None:
    """Every record is in one object of values, and its key and headers stand beside it."""
    known = {json.loads(record.value or b"")["n"]: record for record in records}
    assert len(known) == len(records)
    windows: dict[tuple[int, int], dict[tuple[str, str], list[Any]]] = {}
    for entry in entries:
        body = store.get(entry.key)
        folder, name = entry.key.rsplit("/", 1)
        assert int(name.split("+")[2].split(".")[0]) >= entry.range.start
        rows = [json.loads(line) for line in body.decode().splitlines()]
        files = windows.setdefault((entry.range.start, entry.range.end), {})
        assert (folder, entry.view) not in files, "two objects for one directory of a window"
        files[folder, entry.view] = rows
    position, times = 0, Counter[int]()
    for (start, end), files in sorted(windows.items()):
        assert start == position
        position = end
        found = [(folder, rows) for (folder, view), rows in files.items() if view == "value"]
        assert len(files) == 3 * len(found)
        for folder, rows in found:
            check_file(folder, (start, end), rows, files, known)
            times.update(row["n"] for row in rows)
    assert position == records[-1].offset + 1
    assert times == Counter(list(known))


def check_file(
    folder: str,
    window: tuple[int, int],
    rows: list[Any],
    files: dict[tuple[str, str], list[Any]],
    known: dict[int, Seen],
) -> None:
    own = [known[row["n"]] for row in rows]
    assert [json.loads(record.value or b"") for record in own] == rows
    assert {f"kind={row['kind']}" for row in rows} == {folder.rsplit("/", 1)[1]}
    offsets = [record.offset for record in own]
    assert offsets == sorted(offsets)
    assert window[0] <= offsets[0] and offsets[-1] < window[1]
    keys = [None if record.key is None else record.key.decode() for record in own]
    assert files[folder, "keys"] == keys
    headers = [
        [{"key": k, "value": None if v is None else v.decode()} for k, v in record.headers]
        for record in own
    ]
    assert [row["headers"] for row in files[folder, "headers"]] == headers


@pytest.fixture
def trial(
    services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path
) -> Iterator[Trial]:
    seed = int(os.environ.get("KAFKEEP_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KAFKEEP_SEED={seed}")
    cluster = Cluster(services.bootstrap_servers)
    cluster.create(topic_name, PARTITIONS)
    yield Trial(cluster, archive_address, topic_name, tmp_path, random.Random(seed))


@pytest.fixture
def writer(trial: Trial) -> Iterator[Writer]:
    writing = Writer(trial.cluster.bootstrap, trial.topic)
    writing.write(500)
    yield writing
    writing.stop()


def kill_and_finish(trial: Trial, writer: Writer, kills: int) -> None:
    writer.start()
    for number in range(kills):
        trial.kill(at_work=number % 4 != 3, worker=number % 3 == 1)
    last = trial.start()
    writer.stop()
    trial.finish(last)
    trial.check()


def test_a_sink_killed_while_it_rotates_by_the_clock_loses_and_doubles_nothing(
    trial: Trial, writer: Writer
) -> None:
    kill_and_finish(trial, writer, 3)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("_round", range(2))
def test_a_sink_killed_many_times_loses_and_doubles_nothing(
    trial: Trial, writer: Writer, _round: int
) -> None:
    kill_and_finish(trial, writer, 12)


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_sink_that_dies_at_a_named_place_is_finished_by_the_next(
    trial: Trial, writer: Writer, failpoint: str
) -> None:
    writer.start()
    driver = trial.start(failpoint)
    try:
        until(lambda: trial.passed(failpoint), f"{failpoint} is reached", seconds=90)
        time.sleep(2)
    finally:
        driver.kill()
    trial.check_objects()
    writer.stop()
    trial.finish()
    trial.check()
