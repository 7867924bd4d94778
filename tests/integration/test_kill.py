"""Kill -9 at any moment, run again: nothing is lost, doubled or replaced, nothing leaks.

``KAFKEEP_SEED`` repeats a run; the seed is printed. ``make test-kill`` runs the long ones too.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, until
from tests.support.independent_client import assert_same, count, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Driver

from kafkeep.archive.checkpoint import DEFAULT_EVERY
from kafkeep.archive.commit import Changes
from kafkeep.archive.log import CommitLog
from kafkeep.archive.log_check import check_log
from kafkeep.archive.view import list_logs, load_view
from kafkeep.clock import now_ms
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
PARTITIONS = 3
BATCHES = 12
LONGEST_SECONDS = 9.0
"""Spark's start and the work itself: later there is nothing left to kill."""
WORK_SECONDS = 1.5
"""So long after its first object a run is still at work: it is held, or its rate is low."""
HELD = [
    "object.after:hold@1",
    "object.before:hold@2",
    "object.after:hold@2",
    "object.before:hold@3",
    "object.after:hold@3",
]
"""Where a worker waits to be killed, after its first object. It may be killed before that."""

BACKUP_FAILPOINTS = [
    "snapshot.after:exit@1",
    "open.before:exit",
    "open.after:exit",
    "open.after:drop@1",
    "intent.before:exit@1",
    "intent.after:exit@1",
    "intent.after:exit@2",
    "intent.after:drop@1",
    "commit.before:exit@1",
    "commit.after:exit@1",
    "commit.after:drop@1",
    "commit.before:exit@2",
    "commit.after:exit@2",
    "task.start:exit@1",
    "task.start:raise@1",
    "object.before:exit@2",
    "object.after:exit@1",
    "object.after:drop@p=0.3",
    "checkpoint.before:exit",
    "checkpoint.tables:exit",
    "checkpoint.after:exit",
]
RESTORE_FAILPOINTS = [
    "restore.prepared:exit",
    "restore.created:exit",
    "restore.documented:exit",
    "task.start:exit@1",
    "request.before:exit@4",
    "request.before:raise@p=0.2",
    "request.after:exit@3",
    "request.after:drop@p=0.3",
    "restore.written:exit",
    "restore.reset:exit",
    "restore.done:exit",
]


@dataclass
class TopicTrial(Trial):
    """Segments of one topic, and the topic they are restored to."""

    batches: int = 0
    hits: int = 0
    """Runs that were alive when they, or a worker of theirs, were killed."""
    at_work: int = 0
    """Those of them that were moving records."""

    @property
    def target(self) -> str:
        return f"{self.topic}-back"

    def fill(self, batches: int) -> None:
        """Send batches to every partition."""
        pad = random.Random(1).randbytes(1000)
        now = time.time_ns() // 1_000_000  # older records would expire while the trial runs
        numbers = range(self.batches, self.batches + batches)
        made = [
            build_batch([Record(i, now + n, b"%d" % n, pad) for i in range(500)]) for n in numbers
        ]
        for partition in range(PARTITIONS):
            self.cluster.raw(self.topic, made, partition)
        self.batches += batches

    def lengthen_log(self, commits: int) -> None:
        """Append commits that say nothing, so that the next ones make a checkpoint."""
        log = CommitLog.open(self.store, "backup", writer="test", now_ms=now_ms)
        for number in range(commits):
            log.append(Changes(note=f"nothing, {number}"))

    @property
    def backup(self) -> tuple[object, ...]:
        """Small segments and short cycles: much can be cut off."""
        chosen = ("backup", "--topics", self.topic, "--segment-bytes", "1MiB")
        return (*chosen, "--cycle-bytes", "8MiB", "--cycle-time", "1s")

    @property
    def restore(self) -> tuple[object, ...]:
        return ("restore", "--topics", f"{self.topic}:{self.target}")

    def objects(self) -> int:
        """Return how many objects there are: a backup at work makes more."""
        return sum(1 for _ in self.store.list("topics/"))

    def restored(self) -> int:
        """Return how many offsets the target has: a restore at work makes more."""
        return sum(self.cluster.end(self.target, n) for n in self.cluster.partitions(self.target))

    def kill_somewhen(self, driver: Driver, number: int, size: Callable[[], int]) -> bool:
        """Kill a run: while it works, then a worker of one that works, then at any moment.

        Whether it hit: a run that is over cannot be killed. ``size`` grows while a run works.
        """
        before = size()
        most = LONGEST_SECONDS
        if number % 3 != 2:
            until(lambda: driver.process.poll() is not None or size() > before, "it works or ends")
            most = WORK_SECONDS
        due = time.monotonic() + self.chances.uniform(0, most)
        until(lambda: driver.process.poll() is not None or time.monotonic() > due, "its moment")
        if number % 3 == 1:
            hit = driver.process.poll() is None and self.kill_worker(driver)
            self.open_gate()
            driver.wait().expect(0, 3)  # Spark runs the task again
            driver.wait_for_group()
        else:
            driver.kill()
            hit = driver.process.returncode == -signal.SIGKILL
        self.hits += hit
        self.at_work += hit and size() > before
        return hit

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

    def check_restored(self) -> None:
        before = dump(self.cluster.bootstrap, self.topic)
        assert_same(before, dump(self.cluster.bootstrap, self.target))
        assert count(before) == PARTITIONS * self.batches * 500


@pytest.fixture
def trial(services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path) -> TopicTrial:
    cluster = Cluster(services.bootstrap_servers)
    cluster.create(topic_name, PARTITIONS)
    trial = TopicTrial(cluster, archive_address, topic_name, tmp_path)
    trial.fill(BATCHES)
    return trial


def kill_until(trial: TopicTrial, kills: int, attempt: Callable[[int], bool]) -> None:
    """Try until so many runs were killed; most of them were at work then."""
    trial.hits = trial.at_work = 0
    for _ in range(4 * kills):
        if trial.hits == kills:
            break
        attempt(trial.hits)
    print(f"{trial.hits} runs were killed, {trial.at_work} of them at work")
    assert trial.hits == kills
    assert trial.at_work >= max(1, kills // 2)


def kill_backups(trial: TopicTrial, kills: int) -> None:
    def attempt(number: int) -> bool:
        driver = trial.start(*trial.backup, failpoint=trial.chances.choice(HELD))
        hit = trial.kill_somewhen(driver, number, trial.objects)
        trial.check_objects()
        if driver.process.returncode == 0:
            trial.fill(BATCHES // 2)  # nothing is left to do for the next
        return hit

    kill_until(trial, kills, attempt)
    trial.run(*trial.backup).expect(0)
    trial.check_archive()


def kill_restores(trial: TopicTrial, kills: int) -> None:
    def attempt(number: int) -> bool:
        driver = trial.start(*trial.restore, "--rate", "4MiB")
        hit = trial.kill_somewhen(driver, number, trial.restored)
        if driver.process.returncode in (0, 3):
            trial.check_restored()
            trial.cluster.delete(trial.target)  # the next begins anew
        return hit

    kill_until(trial, kills, attempt)
    trial.run(*trial.restore).expect(0, 3)
    trial.check_restored()


@pytest.mark.core(suite="kill")
def test_a_killed_backup_loses_and_doubles_nothing(trial: TopicTrial) -> None:
    kill_backups(trial, 1)  # at work; test_task_twice.py kills a worker
    trial.run(*trial.restore).expect(0, 3)
    trial.check_restored()


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("_round", range(2))
def test_many_kills_lose_and_double_nothing(trial: TopicTrial, _round: int) -> None:
    kill_backups(trial, 9)
    kill_restores(trial, 6)
    assert trial.run(*trial.restore).expect(0, 3).json["records"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", BACKUP_FAILPOINTS)
def test_a_backup_that_dies_at_a_named_place_is_finished_by_the_next(
    trial: TopicTrial, failpoint: str
) -> None:
    if failpoint.startswith("checkpoint."):
        trial.lengthen_log(DEFAULT_EVERY - 3)
    trial.die(trial.start(*trial.backup, failpoint=failpoint), failpoint)
    trial.check_objects()
    trial.run(*trial.backup).expect(0)
    trial.check_archive()
    trial.run(*trial.restore).expect(0, 3)
    trial.check_restored()


@pytest.mark.slow
def test_a_backup_that_dies_while_it_adopts_what_the_last_one_left(trial: TopicTrial) -> None:
    for failpoint in ("commit.before:exit@1", "object.adopted:exit@2", "object.adopted:exit@3"):
        trial.die(trial.start(*trial.backup, failpoint=failpoint), failpoint)
        trial.check_objects()
    trial.run(*trial.backup).expect(0)
    trial.check_archive()
    trial.run(*trial.restore).expect(0, 3)
    trial.check_restored()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_restore_that_dies_at_every_named_place_is_finished_by_the_next(
    trial: TopicTrial,
) -> None:
    trial.run(*trial.backup).expect(0)
    for failpoint in RESTORE_FAILPOINTS:
        trial.die(trial.start(*trial.restore, failpoint=failpoint), failpoint)
        trial.run(*trial.restore).expect(0, 3)
        trial.check_restored()
        trial.cluster.delete(trial.target)
