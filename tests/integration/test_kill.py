"""Kill -9 at any moment, run again: nothing is lost, doubled or replaced, nothing leaks.

``KAFKEEP_SEED`` repeats a run; the seed is printed. ``make test-kill`` runs the long ones too.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cluster import Cluster
from kafkeep.archive.check import check_log
from kafkeep.archive.checkpoint import DEFAULT_EVERY
from kafkeep.archive.commit import Changes
from kafkeep.archive.log import CommitLog
from kafkeep.archive.reader import list_logs, load_view
from kafkeep.archive.store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.config.storage import StorageOptions
from kafkeep.dev import DevStatus
from kafkeep.kafka.build import Record, build_batch
from kafkeep.store.open import open_store
from oracle import assert_same, dump
from runs import Driver, Outcome, python_workers

pytestmark = pytest.mark.integration
PARTITIONS = 3
BATCHES = 12
LONGEST_SECONDS = 9.0
"""Spark's start and the work itself: later there is nothing left to kill."""

BACKUP_FAILPOINTS = [
    "open.after:exit",
    "intent.before:exit",
    "intent.after:exit@1",
    "intent.after:exit@2",
    "commit.before:exit@1",
    "commit.after:exit@1",
    "commit.before:exit@2",
    "commit.after:exit@2",
    "object.before:exit@2",
    "object.after:exit@1",
    "object.after:drop@p=0.3",
    "task.start:raise@1",
    "checkpoint.before:exit",
    "checkpoint.after:exit",
]
RESTORE_FAILPOINTS = [
    "restore.prepared:exit",
    "restore.created:exit",
    "restore.documented:exit",
    "request.before:exit@4",
    "request.before:raise@p=0.2",
    "restore.written:exit",
    "restore.settled:exit",
]


@dataclass
class Trial:
    """One archive that is being written or read by drivers that die."""

    cluster: Cluster
    archive: str
    topic: str
    folder: Path
    chances: random.Random
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    runs: int = 0

    @property
    def trace(self) -> Path:
        """Where a run says which failpoints it passed."""
        return self.folder / "failpoints"

    def check_passed(self, failpoint: str) -> None:
        """The place was there, and what it was armed with happened."""
        name, _, chance = failpoint.partition(":")
        if "@p=" not in chance:
            assert self.trace.exists(), f"{failpoint} was never reached"
            assert name in self.trace.read_text().split()

    def lengthen_log(self, commits: int) -> None:
        """Append commits that say nothing, so that the next ones make a checkpoint."""
        log = CommitLog.open(self.store, "backup", writer="test", now_ms=now_ms)
        for number in range(commits):
            log.append(Changes(note=f"nothing, {number}"))

    @property
    def store(self) -> ObjectStore:
        return open_store(self.archive, StorageOptions.from_env())

    def start(self, verb: str, *arguments: object, failpoint: str = "") -> Driver:
        self.runs += 1
        where = ("--bootstrap-servers", self.cluster.bootstrap, "--archive", self.archive)
        folder = self.folder / f"run-{self.runs}"
        env = {
            "KAFKEEP_FAILPOINT": failpoint,
            "KAFKEEP_FAILPOINT_TRACE": str(self.trace),
            "KAFKEEP_SEED": str(self.chances.randrange(10**6)),
        }
        self.trace.unlink(missing_ok=True)
        return Driver(folder, verb, *where, "--output", "json", *arguments, env=env)

    def backup(self, failpoint: str = "") -> Driver:
        return self.start(
            "backup",
            *("--topics", self.topic, "--segment-bytes", "1MiB"),
            *("--cycle-bytes", "8MiB", "--cycle-time", "1s"),
            failpoint=failpoint,
        )

    def restore(self, failpoint: str = "") -> Driver:
        rate = () if failpoint else ("--rate", "8MiB")
        chosen = ("--topics", f"{self.topic}:{self.topic}-back")
        return self.start("restore", *chosen, *rate, failpoint=failpoint)

    def kill_somewhen(self, driver: Driver, *, worker: bool) -> None:
        """Kill the driver's group, or one of its Python workers, at a random moment."""
        time.sleep(self.chances.uniform(0.5, LONGEST_SECONDS))
        if not worker:
            driver.kill()
            return
        workers = python_workers(driver.group)
        if workers:
            os.kill(self.chances.choice(workers), signal.SIGKILL)
        driver.wait()
        driver.wait_for_group()

    def check_objects(self) -> None:
        """No object that was ever there has changed or gone."""
        now = {info.key: (info.size_bytes, info.modified_ms) for info in self.store.list("")}
        changed = [key for key, what in self.seen.items() if now.get(key) != what]
        assert not changed, f"replaced or removed: {changed}"
        self.seen = now

    def check_archive(self) -> None:
        """The log is whole, entries tile, and few objects belong to nobody."""
        self.check_objects()
        assert list_logs(self.store) == ["backup"]
        assert check_log(self.store, "backup") == []
        view = load_view(self.store, "backup")
        assert view.intent is None
        ends: dict[object, int] = {}
        for entry in view.entries():
            assert entry.range.start == ends.get(entry.partition_id, 0)
            ends[entry.partition_id] = entry.range.end
            assert self.store.head(entry.key).size_bytes == entry.size_bytes
        known = {entry.key for entry in view.entries()}
        orphans = [k for k in self.seen if k.startswith("topics/") and k not in known]
        assert len(orphans) <= 2 * self.runs, orphans

    def finish(self, verb: str) -> Outcome:
        """Run until it is done; a second run then has nothing to do."""
        for _ in range(3):
            done = (self.backup() if verb == "backup" else self.restore()).wait()
            if done.code in (0, 3):
                return done
        raise AssertionError(f"{verb} does not end\n{done.stderr}")

    def check_restored(self) -> None:
        before = dump(self.cluster.bootstrap, self.topic)
        assert_same(before, dump(self.cluster.bootstrap, f"{self.topic}-back"))
        assert sum(len(records) for records in before.values()) == PARTITIONS * BATCHES * 500


@pytest.fixture
def trial(
    services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path
) -> Iterator[Trial]:
    seed = int(os.environ.get("KAFKEEP_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KAFKEEP_SEED={seed}")
    cluster = Cluster(services.bootstrap_servers)
    cluster.create(topic_name, PARTITIONS)
    pad = random.Random(1).randbytes(1000)
    now = time.time_ns() // 1_000_000  # older records would expire while the trial runs
    for partition in range(PARTITIONS):
        cluster.raw(
            topic_name,
            [
                build_batch([Record(i, now + n, b"%d" % n, pad) for i in range(500)])
                for n in range(BATCHES)
            ],
            partition,
        )
    yield Trial(cluster, archive_address, topic_name, tmp_path, random.Random(seed))


def kill_backups(trial: Trial, kills: int) -> None:
    for number in range(kills):
        trial.kill_somewhen(trial.backup(), worker=number % 3 == 1)
        trial.check_objects()
    trial.finish("backup")
    trial.check_archive()


def kill_restores(trial: Trial, kills: int) -> None:
    for number in range(kills):
        trial.kill_somewhen(trial.restore(), worker=number % 3 == 1)
    trial.finish("restore")
    trial.check_restored()
    assert trial.finish("restore").json["records"] == 0


def test_killed_backups_and_restores_lose_and_double_nothing(trial: Trial) -> None:
    kill_backups(trial, 3)
    kill_restores(trial, 2)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("_round", range(2))
def test_many_kills_lose_and_double_nothing(trial: Trial, _round: int) -> None:
    kill_backups(trial, 9)
    kill_restores(trial, 6)


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", BACKUP_FAILPOINTS)
def test_a_backup_that_dies_at_a_named_place_is_finished_by_the_next(
    trial: Trial, failpoint: str
) -> None:
    if failpoint.startswith("checkpoint."):
        trial.lengthen_log(DEFAULT_EVERY - 3)
    driver = trial.backup(failpoint)
    driver.wait()
    driver.wait_for_group()
    trial.check_passed(failpoint)
    trial.check_objects()
    trial.finish("backup")
    trial.check_archive()
    trial.finish("restore")
    trial.check_restored()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_restore_that_dies_at_every_named_place_is_finished_by_the_next(trial: Trial) -> None:
    trial.finish("backup")
    for failpoint in RESTORE_FAILPOINTS:
        driver = trial.restore(failpoint)
        driver.wait()
        driver.wait_for_group()
        trial.check_passed(failpoint)
        trial.finish("restore")
        trial.check_restored()
        trial.cluster.delete(f"{trial.topic}-back")
