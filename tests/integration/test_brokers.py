"""Three brokers, of which one dies or hangs while a run is at work: the run continues.

Or the leader's log is lost, and one takes over that never had the last records: its log is not
mixed with the archive's. The short form is for every day; ``make test-kill`` runs the long one too.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from tests.support.cluster import WAIT, Cluster, until
from tests.support.independent_client import assert_same, count, dump
from tests.support.run_kafkeep import Driver, kafkeep

from kafkeep.archive.log_check import check_log
from kafkeep.archive.view import load_view
from kafkeep.dev import (
    DevStatus,
    kill_broker,
    pause_broker,
    resume_broker,
    start_broker,
    stop_broker,
)
from kafkeep.errors import NoSuchArchiveError
from kafkeep.options.storage import StorageOptions
from kafkeep.store.local.store import LocalStore
from kafkeep.store.open import open_store

pytestmark = pytest.mark.integration
PARTITIONS = 3
REPLICAS = 3


@dataclass
class Load:
    """A producer at work, each of whose records is stored once, whatever the brokers do."""

    bootstrap: str
    topic: str
    stored: int = 0
    failed: list[str] = field(default_factory=list)
    _enough: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Load:
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(WAIT)

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": int(WAIT * 1000),
                "log_level": 0,
            }
        )
        number = 0
        while not self._enough.wait(0.01):
            for _ in range(20):
                value, place = f"{number:08d}".ljust(500, "."), number % PARTITIONS
                producer.produce(self.topic, value, f"{number}", place, on_delivery=self._delivered)
                number += 1
            producer.poll(0)
        producer.flush(WAIT)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.stored += 1
        else:
            self.failed.append(str(error))


@dataclass(frozen=True)
class Shaken:
    """A topic with three replicas, its archive, and what is done to its leaders."""

    brokers: DevStatus
    cluster: Cluster
    topic: str
    archive: Path
    folder: Path

    def create(self, topic: str, *, replicas: int = REPLICAS, needed: int = 2) -> None:
        """Make a topic of which so many replicas must have each record."""
        new = NewTopic(topic, PARTITIONS, replicas, config={"min.insync.replicas": str(needed)})
        self.cluster.admin.create_topics([new])[topic].result(WAIT)
        until(lambda: self.in_sync(topic, replicas), "every replica follows")

    def start(self, verb: str, *arguments: object) -> Driver:
        where = ("--bootstrap-servers", self.cluster.bootstrap, "--archive", self.archive)
        return Driver(self.folder / verb, verb, *where, *arguments, "--output", "json")

    def archived(self) -> int:
        """Return how many records the log has."""
        try:
            view = load_view(open_store(str(self.archive), StorageOptions()), "backup")
        except NoSuchArchiveError:
            return 0
        return sum(entry.records for entry in view.entries())

    def size(self, topic: str) -> int:
        """Return how far a topic has grown."""
        return sum(self.cluster.end(topic, n) for n in self.cluster.partitions(topic))

    def _leader(self, topic: str, other: int = -1) -> int:
        """Wait until a broker other than ``other`` leads the first partition; return it."""

        def leader() -> int:
            found = self.cluster.admin.list_topics(topic, timeout=WAIT).topics[topic].partitions
            led = int(found[0].leader) if found else -1
            return 0 if led in (other, -1) else led

        return until(leader, f"a broker leads {topic}-0, not {other}")

    def in_sync(self, topic: str, replicas: int = REPLICAS) -> bool:
        """Whether so many replicas of each partition are in sync."""
        found = self.cluster.admin.list_topics(topic, timeout=WAIT).topics[topic].partitions
        whole = [len(p.isrs) == replicas and p.leader > 0 for p in found.values()]
        return len(whole) == PARTITIONS and all(whole)

    def kill_leader(self, topic: str) -> None:
        """End the leader of the first partition at once; it comes back when another leads."""
        leader, folder = self._leader(topic), Path(self.brokers.folder)
        kill_broker(folder, leader)
        try:
            self._leader(topic, other=leader)
        finally:
            start_broker(folder, leader)
        until(lambda: self.in_sync(topic), "every replica follows again")

    def stop_leader(self, topic: str, seconds: float) -> None:
        """Let the leader of the first partition hang for some time."""
        leader, folder = self._leader(topic), Path(self.brokers.folder)
        pause_broker(folder, leader)
        try:
            time.sleep(seconds)
        finally:
            resume_broker(folder, leader)
        until(lambda: self.in_sync(topic), "every replica follows again")


@pytest.fixture
def shaken(three: DevStatus, topic_name: str, local_archive: Path, tmp_path: Path) -> Shaken:
    cluster = Cluster(three.bootstrap_servers)
    made = Shaken(three, cluster, topic_name, local_archive, tmp_path)
    made.create(topic_name)
    return made


def follow_through(shaken: Shaken, kills: int, stop_seconds: float) -> int:
    """Follow a producer while leaders die and hang; return how many records were stored."""
    asked = ("--topics", shaken.topic, "--follow", "--interval", "200ms", "--segment-age", "500ms")
    driver = shaken.start("backup", *asked)

    def grows() -> None:
        before = shaken.archived()
        until(lambda: driver.runs() and shaken.archived() > before, "the archive grows")

    try:
        with Load(shaken.cluster.bootstrap, shaken.topic) as load:
            grows()
            for _ in range(kills):
                shaken.kill_leader(shaken.topic)
                grows()
            shaken.stop_leader(shaken.topic, stop_seconds)
            grows()
        assert load.failed == []
        until(lambda: driver.runs() and shaken.archived() >= load.stored, "all of it is archived")
        driver.signal(signal.SIGTERM)
        assert driver.wait().expect(0).json["gaps"] == []
    finally:
        driver.kill()
    assert check_log(open_store(str(shaken.archive), StorageOptions()), "backup") == []
    return load.stored


def restore_through(shaken: Shaken, target: str, kills: int, seconds: float) -> None:
    """Restore while leaders of the target die; each time records come afterwards."""
    rate = int(shaken.size(shaken.topic) * 500 / seconds)
    driver = shaken.start("restore", "--topics", f"{shaken.topic}:{target}", "--rate", rate)

    def writes() -> None:
        before = shaken.size(target)
        until(lambda: driver.runs() and shaken.size(target) > before, "it writes")

    try:
        for _ in range(kills):
            writes()
            shaken.kill_leader(target)
        driver.wait().expect(0)
    finally:
        driver.kill()


def shake(shaken: Shaken, *, kills: int, stop_seconds: float, restore_seconds: float) -> None:
    stored = follow_through(shaken, kills, stop_seconds)
    before = dump(shaken.cluster.bootstrap, shaken.topic)
    assert count(before) == stored
    target = f"{shaken.topic}-back"
    restore_through(shaken, target, kills, restore_seconds)
    assert_same(before, dump(shaken.cluster.bootstrap, target))


def test_runs_continue_when_a_leader_dies_or_hangs(shaken: Shaken) -> None:
    shake(shaken, kills=1, stop_seconds=3, restore_seconds=8)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_runs_continue_when_leaders_die_again_and_again(shaken: Shaken) -> None:
    shake(shaken, kills=5, stop_seconds=30, restore_seconds=90)


@pytest.mark.usefixtures("spark")
def test_a_target_with_too_few_replicas_in_sync_is_refused_and_untouched(shaken: Shaken) -> None:
    shaken.cluster.fill(shaken.topic, 300)
    where = ("--bootstrap-servers", shaken.cluster.bootstrap, "--archive", shaken.archive)
    kafkeep("backup", *where, "--topics", shaken.topic).expect(0)
    target, alone = f"{shaken.topic}-all", f"{shaken.topic}-alone"
    shaken.create(target, needed=3)
    stop_broker(Path(shaken.brokers.folder), 3)
    try:
        until(lambda: shaken.in_sync(target, 2), "a replica is missing")
        refused = kafkeep("restore", *where, "--topics", f"{shaken.topic}:{target}").expect(14)
        assert f"{target}: partition 0 has 2 replicas in sync" in refused.stderr
        assert "min.insync.replicas requires 3" in refused.stderr
        assert shaken.size(target) == 0
    finally:
        start_broker(Path(shaken.brokers.folder), 3)
    until(lambda: shaken.in_sync(target), "every replica follows again")
    shaken.create(alone, replicas=1, needed=2)  # more than there are: Kafka takes what there is
    for name in (target, alone):
        kafkeep("restore", *where, "--topics", f"{shaken.topic}:{name}").expect(0)
        before = dump(shaken.cluster.bootstrap, shaken.topic)
        assert_same(before, dump(shaken.cluster.bootstrap, name))


# --- a truncated log; this comes last, because one of the brokers stays dead

UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
FIRST, SECOND = 2, 3
"""The brokers with the topic's replicas; the third only votes."""


def leader_of(cluster: Cluster, topic: str) -> int | None:
    """Return the leader that the brokers know of by now."""
    known = cluster.admin.list_topics(topic, timeout=WAIT).topics[topic].partitions.get(0)
    return None if known is None else int(known.leader)


def in_sync_of(cluster: Cluster, topic: str) -> list[int]:
    known = cluster.admin.list_topics(topic, timeout=WAIT).topics[topic].partitions.get(0)
    return [] if known is None else sorted(known.isrs)


def let_the_second_take_over(cluster: Cluster, folder: Path, topic: str) -> None:
    """End the one broker that has all records and elect the one that has not."""
    kill_broker(folder, FIRST)
    start_broker(folder, SECOND)

    def elected() -> bool:
        wanted = [TopicPartition(topic, 0)]
        cluster.admin.elect_leaders(ElectionType.UNCLEAN, wanted).result(WAIT)
        return leader_of(cluster, topic) == SECOND

    until(elected, "the second broker leads")


@pytest.mark.usefixtures("spark")
def test_a_log_that_an_unclean_election_cut_back_is_refused_and_both_histories_stay(
    three: DevStatus, topic_name: str, local_archive: Path, tmp_path: Path
) -> None:
    cluster, folder = Cluster(three.bootstrap_servers), Path(three.folder)
    topic = NewTopic(topic_name, 1, replica_assignment=[[FIRST, SECOND]], config=UNCLEAN)
    cluster.admin.create_topics([topic])[topic_name].result(WAIT)
    until(lambda: in_sync_of(cluster, topic_name) == [FIRST, SECOND], "both have the topic")
    cluster.fill(topic_name, 100)
    kill_broker(folder, SECOND)
    until(lambda: in_sync_of(cluster, topic_name) == [FIRST], "one is left in sync")
    cluster.fill(topic_name, 100, first=100)
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", local_archive)
    backup = ("backup", "--topics", topic_name, *where)
    kafkeep(*backup).expect(0)
    cluster.fill(topic_name, 50, first=200)
    dies = {"KAFKEEP_FAILPOINT": "task.start:exit"}
    Driver(tmp_path / "dies", *backup, env=dies).wait().expect(1)
    old = load_view(LocalStore(local_archive), "backup")
    assert old.intent is not None

    let_the_second_take_over(cluster, folder, topic_name)
    cluster.fill(topic_name, 300, first=1000)
    assert cluster.end(topic_name) == 400

    for _ in range(2):
        refused = kafkeep(*backup).expect(1)
        assert "under the same topic id" in refused.stderr
        assert "--name" in refused.stderr
    now = load_view(LocalStore(local_archive), "backup")
    assert list(now.entries()) == list(old.entries()) and now.positions == old.positions
    kafkeep(*backup, "--name", "new-history").expect(0)
    assert check_log(LocalStore(local_archive), "new-history") == []
    back = f"{topic_name}-back"
    new = ("--name", "new-history", "--replication-factor", 1)
    kafkeep("restore", "--topics", f"{topic_name}:{back}", *new, *where).expect(0)
    assert_same(dump(cluster.bootstrap, topic_name), dump(cluster.bootstrap, back))
