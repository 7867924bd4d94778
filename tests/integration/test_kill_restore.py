"""One restore killed -9 again and again, some of its last requests arriving late: each record once.

``KAFKEEP_SEED`` repeats a run; the seed is printed. ``make test-kill`` runs the long ones too.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from tests.support.cluster import LEADER_NOT_READY, WAIT, Cluster, until
from tests.support.faults.kafka_proxy import HoldingProxy
from tests.support.independent_client import Dump, assert_same, count, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Driver

from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
PARTITIONS = 3
ROWS = 150
"""Records of a kilobyte in a batch: just too many to be merged with others."""
KEYS = 40
PATIENCE = 150.0
DEALT = 2


@dataclass
class RestoreTrial(Trial):
    """A topic with holes, its archive, and the target one restore is filling."""

    proxy: HoldingProxy = field(kw_only=True)
    asked: tuple[object, ...] = field(kw_only=True)
    rate: str = field(kw_only=True)
    late: int = 0
    """Requests that came after their sender had died."""
    _timer: threading.Timer | None = None

    @property
    def target(self) -> str:
        return f"{self.topic}-back"

    @property
    def restore(self) -> tuple[object, ...]:
        return ("restore", "--topics", f"{self.topic}:{self.target}", *self.asked)

    def ends(self, topic: str) -> list[int]:
        """Return where the partitions of a topic end; nothing while it is being made."""
        partitions = self.cluster.partitions(topic)
        wanted = {TopicPartition(topic, n): OffsetSpec.latest() for n in sorted(partitions)}
        found = self.cluster.admin.list_offsets(wanted) if wanted else {}
        try:
            return [found[place].result(WAIT).offset for place in wanted]
        except KafkaException as error:
            if error.args[0].code() not in LEADER_NOT_READY:
                raise
            return []

    def size(self) -> int:
        """Return how far the target has grown."""
        return sum(self.ends(self.target))

    def kill(self, number: int, goal: int) -> None:
        """Kill one attempt: at a random moment, or while it writes, or with requests on the way."""
        before = self.size()
        driver = self.start(*self.restore, "--rate", self.rate, bootstrap=self.proxy.address)
        try:
            if number % 3 == 2:
                self.pause(0.5, 8)
            else:
                self._await_growth(driver, before)
                if number % 3 == 1:
                    self._hold(driver)
                else:
                    self.pause(0, 0.4)
            if number % 4 == 3 and self.kill_worker(driver):
                self.pause(0.1, 1.5)
        finally:
            driver.kill()
            self.proxy.pass_on()
        self._deliver()
        assert self.size() < goal, "it was over before it could be killed"

    def _await_growth(self, driver: Driver, before: int) -> None:
        def grown() -> bool:
            assert driver.process.poll() is None, driver.said()
            return self.size() > before

        until(grown, "it writes", seconds=PATIENCE)

    def _hold(self, driver: Driver) -> None:
        kept = self.proxy.kept
        self.proxy.hold()
        until(lambda: self.proxy.kept > kept, "a request is on the way", seconds=PATIENCE)
        assert driver.process.poll() is None, driver.said()

    def _deliver(self) -> None:
        """Let what was kept arrive now, while the next attempt is at work, or after it."""
        if not self.proxy.kept:
            return
        when = self.chances.choice(["now", "soon", "next time"])
        if when == "now":
            self.release()
        elif when == "soon":
            self._timer = threading.Timer(self.chances.uniform(1, 10), self.release)
            self._timer.start()

    def release(self) -> None:
        self.late += self.proxy.release()

    def finish(self) -> None:
        """Let the restore end; the last late requests come when all is there."""
        if self._timer is not None:
            self._timer.join()
        done = self.run(*self.restore).expect(0, 3)
        self.release()
        print(f"{self.runs} kills, {self.late} late requests, {done.json['records']} left to write")
        again = self.run(*self.restore).expect(0, 3)
        assert again.json["records"] == 0


def check_same(before: Dump, trial: RestoreTrial) -> None:
    assert_same(before, dump(trial.cluster.bootstrap, trial.target))


def check_exact(before: Dump, trial: RestoreTrial) -> None:
    after = dump(trial.cluster.bootstrap, trial.target)
    assert_same(before, after)
    for number, records in before.items():
        assert [r.offset for r in records] == [r.offset for r in after[number]]
    assert trial.ends(trial.target) == trial.ends(trial.topic)


def check_dealt(before: Dump, trial: RestoreTrial) -> None:
    """Each record once; a key where librdkafka puts it, its records in the order they had."""
    after = dump(trial.cluster.bootstrap, trial.target)
    everything = [r.content for records in before.values() for r in records]
    assert Counter(everything) == Counter(r.content for rs in after.values() for r in rs)
    judge = place_keys(trial.cluster, f"{trial.topic}-judge")
    wanted, found = defaultdict(list), defaultdict(list)
    for records in before.values():
        for record in records:
            wanted[record.key].append(record.content)
    for number, records in after.items():
        for record in records:
            found[record.key].append(record.content)
            assert record.key is None or judge[record.key] == number
    del wanted[None], found[None]  # those without a key go around
    assert wanted == found


def place_keys(cluster: Cluster, topic: str) -> dict[bytes | None, int]:
    """Let an independent client place every key."""
    if not cluster.partitions(topic):
        cluster.create(topic, DEALT)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for number in range(PARTITIONS * KEYS):
        producer.produce(topic, key=b"key %d" % number, value=b"")
    assert producer.flush(WAIT) == 0
    return {r.key: n for n, records in dump(cluster.bootstrap, topic).items() for r in records}


def fill(cluster: Cluster, topic: str, batches: int, chances: random.Random) -> None:
    """Fill a topic whose partitions begin behind 0, with a hole now and then."""
    cluster.create(topic, PARTITIONS)
    now = time.time_ns() // 1_000_000
    for partition in range(PARTITIONS):
        for first in range(0, batches, 10):
            cluster.raw(
                topic,
                [_batch(partition, n, now, chances) for n in range(first, first + 10)],
                partition,
            )
            values = [f"{partition} {first} {i}" for i in range(3)]
            cluster.transaction(
                topic,
                values,
                commit=first % 20 == 0,
                partition=partition,
                producer_id=f"key {partition * KEYS}",  # which is the key of its records, too
            )
    cluster.delete_records(topic, 70, partition=1)


def _batch(partition: int, number: int, now: int, chances: random.Random) -> bytes:
    pad = chances.randbytes(950)
    records = []
    for i in range(ROWS):
        mine = partition * KEYS + (number * 7 + i) % KEYS
        key = None if i % 10 == 0 else b"key %d" % mine
        records.append(Record(i, now + number, key, b"%d/%d/%d " % (partition, number, i) + pad))
    return bytes(build_batch(records))


SHAPES: dict[str, tuple[tuple[object, ...], str, int, Any]] = {
    "plain": ((), "640KiB", 60, check_same),
    "exact": (("--exact-offsets",), "640KiB", 60, check_exact),
    "repartitioned": (("--partition-count", DEALT), "1MiB", 150, check_dealt),
}


PLACES = {
    "exact": (
        "task.start:exit@1",
        "exact.begun:exit@1",
        "exact.trim:exit@1",
        "exact.trimmed:exit@1",
        "request.before:exit@2",
        "request.after:exit@2",
        "exact.mark:exit@1",
        "exact.marked:exit@2",
        "restore.written:exit",
    ),
    "repartitioned": (
        "task.start:exit@1",
        "request.before:exit@1",
        "request.before:exit@2",
        "request.after:exit@1",
        "request.after:drop@p=0.3",
        "restore.written:exit",
    ),
}


@pytest.fixture
def proxy(services: DevStatus) -> Iterator[HoldingProxy]:
    with HoldingProxy(services.bootstrap_servers) as made:
        yield made


@pytest.fixture
def place(
    services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path
) -> tuple[Cluster, str, str, Path]:
    return Cluster(services.bootstrap_servers), archive_address, topic_name, tmp_path


def begin(
    place: tuple[Cluster, str, str, Path], proxy: HoldingProxy, shape: str, batches: int
) -> tuple[RestoreTrial, Dump]:
    """Fill a topic and back it up; return what an independent client saw of it, too."""
    asked, rate, _, _ = SHAPES[shape]
    trial = RestoreTrial(*place, proxy=proxy, asked=asked, rate=rate)
    fill(trial.cluster, trial.topic, batches, random.Random(1))
    trial.run("backup", "--topics", trial.topic, "--segment-bytes", "2MiB").expect(0)
    return trial, dump(trial.cluster.bootstrap, trial.topic)


def kill_one_restore(trial: RestoreTrial, before: Dump, shape: str, kills: int) -> None:
    goal = sum(trial.ends(trial.topic)) if shape == "exact" else count(before)
    for number in range(kills):
        trial.kill(number, goal)
    trial.finish()
    SHAPES[shape][3](before, trial)


@pytest.mark.core(suite="kill")
def test_a_killed_restore_whose_last_request_comes_late_writes_each_record_once(
    place: tuple[Cluster, str, str, Path], proxy: HoldingProxy
) -> None:
    trial, before = begin(place, proxy, "plain", 20)
    kill_one_restore(trial, before, "plain", 2)
    assert trial.late > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_restore_killed_twenty_times_writes_each_record_once(
    place: tuple[Cluster, str, str, Path], proxy: HoldingProxy, shape: str
) -> None:
    trial, before = begin(place, proxy, shape, SHAPES[shape][2])
    kill_one_restore(trial, before, shape, 20)
    assert trial.late >= 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shape", PLACES)
def test_a_restore_that_dies_at_a_named_place_is_finished_by_the_next(
    place: tuple[Cluster, str, str, Path], proxy: HoldingProxy, shape: str
) -> None:
    trial, before = begin(place, proxy, shape, 20)
    for failpoint in PLACES[shape]:
        trial.die(trial.start(*trial.restore, failpoint=failpoint), failpoint)
        trial.run(*trial.restore).expect(0, 3)
        SHAPES[shape][3](before, trial)
        trial.cluster.delete(trial.target)
