"""Ctrl-C, as a terminal sends it: exit code 130, one line, and the same command again ends it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, until
from tests.support.independent_client import assert_same, count, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Driver, signal_group

from kafkeep.archive.log_check import check_log
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
PARTITIONS, BATCHES, ROWS = 2, 10, 500


@pytest.fixture
def trial(services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path) -> Trial:
    cluster = Cluster(services.bootstrap_servers)
    cluster.create(topic_name, PARTITIONS)
    now = time.time_ns() // 1_000_000
    rows = [Record(i, now, b"%d" % i, bytes(1000)) for i in range(ROWS)]
    for partition in range(PARTITIONS):
        cluster.raw(topic_name, [build_batch(rows)] * BATCHES, partition)
    return Trial(cluster, archive_address, topic_name, tmp_path)


def interrupt(driver: Driver) -> None:
    """Press Ctrl-C: every process in the foreground gets it. Nothing is left, all is said."""
    try:
        driver.runs()
        signal_group(driver.group, signal.SIGINT)
        ended = driver.wait().expect(130)
        driver.wait_for_group()
    finally:
        driver.kill()
    assert "Traceback" not in ended.stderr, ended.stderr
    assert [line for line in ended.stderr.splitlines() if "interrupted" in line], ended.stderr


def objects(trial: Trial) -> int:
    return sum(1 for _ in trial.store.list("topics/"))


def check(trial: Trial) -> None:
    """The archive is sound, and what comes back of it is what was there."""
    assert check_log(trial.store, "backup") == []
    target = f"{trial.topic}-back"
    trial.run("restore", "--topics", f"{trial.topic}:{target}").expect(0)
    before = dump(trial.cluster.bootstrap, trial.topic)
    assert count(before) >= PARTITIONS * BATCHES * ROWS
    assert_same(before, dump(trial.cluster.bootstrap, target))


@pytest.mark.parametrize("follow", [(), ("--follow", "--interval", "200ms")])
def test_an_interrupted_backup_is_finished_by_the_next(
    trial: Trial, follow: tuple[object, ...]
) -> None:
    backup = ("backup", "--topics", trial.topic, "--segment-bytes", "1MiB")
    held = "" if follow else "object.after:hold@1"
    driver = trial.start(*backup, *follow, failpoint=held)
    until(lambda: driver.runs() and objects(trial) > 0, "records are on their way")
    interrupt(driver)
    trial.cluster.fill(trial.topic, 100)
    trial.run(*backup).expect(0)
    check(trial)


def test_an_interrupted_restore_is_finished_by_the_same_command(trial: Trial) -> None:
    trial.run("backup", "--topics", trial.topic).expect(0)
    target = f"{trial.topic}-back"
    asked = ("restore", "--topics", f"{trial.topic}:{target}")
    driver = trial.start(*asked, "--rate", "1MiB")

    def written() -> int:
        found = trial.cluster.partitions(target)
        return sum(trial.cluster.end(target, number) for number in found)

    until(lambda: driver.runs() and written() > 0, "records are on their way")
    interrupt(driver)
    assert 0 < written() < PARTITIONS * BATCHES * ROWS
    check(trial)
