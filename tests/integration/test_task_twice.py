"""A task that runs twice, after its worker died or beside itself: one object for each range."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from tests.support.cluster import Cluster, until
from tests.support.independent_client import assert_same, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Outcome, kafkeep

from kafkeep.dev import DevStatus

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PARTITIONS, RECORDS = 4, 100
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "300ms",
}


@pytest.fixture
def trial(services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path) -> Trial:
    cluster = Cluster(services.bootstrap_servers)
    cluster.create(topic_name, PARTITIONS)
    for partition in range(PARTITIONS):
        cluster.fill(topic_name, RECORDS, partition)
    return Trial(cluster, archive_address, topic_name, tmp_path)


def assert_once(trial: Trial, done: Outcome) -> None:
    """Every record is archived by this run, in one object for each range, and comes back."""
    assert done.expect(0).json["records"] == PARTITIONS * RECORDS
    found = kafkeep("verify", "--archive", trial.archive, "--deep", "--output", "json").expect(0)
    assert (found.json["records"], found.json["findings"]) == (PARTITIONS * RECORDS, [])
    target = f"{trial.topic}-back"
    trial.run("restore", "--topics", f"{trial.topic}:{target}").expect(0)
    assert_same(dump(trial.cluster.bootstrap, trial.topic), dump(trial.cluster.bootstrap, target))


def test_a_task_whose_worker_is_killed_runs_again_and_takes_what_is_there(trial: Trial) -> None:
    driver = trial.start("backup", "--topics", trial.topic, failpoint="object.after:hold@1")
    until(
        lambda: driver.runs() and trial.passed("object.after:hold"),
        "an object is there and its task is not done",
    )
    assert trial.kill_worker(driver)
    trial.open_gate()
    assert_once(trial, driver.wait())


def is_inside(process: Path, folder: Path) -> bool:
    """Whether the folder in which a process works is one below ``folder``."""
    try:
        return folder in (process / "cwd").readlink().parents
    except OSError:  # it has ended, or is somebody else's
        return False


class Fleet:
    """Spark's own cluster: a master and two executors, one slower than the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._launch("master", "Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.address = self._said("master", r"Starting Spark master at (spark://\S+)")
        for number, failpoint in ((2, "object.before:sleep=1500"), (3, "object.before:sleep=2000")):
            flags = ("--host", f"127.0.0.{number}", "--cores", "2", "--memory", "600m")
            name = f"worker-{number}"
            flags += ("--webui-port", "0", "--work-dir", str(folder / name))
            env = {"KAFKEEP_FAILPOINT": failpoint}
            self._launch(name, "Worker", *flags, self.address, env=env)
            self._said(name, r"Successfully registered with master (\S+)")

    def _launch(self, name: str, kind: str, *flags: str, env: dict[str, str] | None = None) -> None:
        folder = kind.lower()
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{folder}.{kind}", *flags]
        with (self.folder / f"{name}.log").open("w") as log:
            self.processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(env or {})})
            )

    def _said(self, name: str, pattern: str) -> str:
        log = self.folder / f"{name}.log"
        until(lambda: re.search(pattern, log.read_text()) is not None, f"{name} says {pattern}")
        found = re.search(pattern, log.read_text())
        assert found is not None
        return found[1]

    def has_executors(self) -> bool:
        """Whether an executor or a Python worker of one runs: they do in the workers' folders."""
        return any(is_inside(process, self.folder) for process in Path("/proc").glob("[0-9]*"))

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(30)


@contextmanager
def fleet_in(folder: Path) -> Iterator[Fleet]:
    folder.mkdir()
    fleet = Fleet(folder)
    try:
        yield fleet
    finally:
        fleet.stop()


@pytest.mark.slow
def test_of_two_attempts_at_once_one_is_committed(trial: Trial, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    with fleet_in(tmp_path / "fleet") as fleet:
        conf = {
            **EAGER,
            "spark.master": fleet.address,
            "spark.executor.cores": "2",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(events),
        }
        flags = [part for pair in conf.items() for part in ("--spark-conf", "=".join(pair))]
        done = trial.start("backup", "--topics", trial.topic, *flags).wait()
        until(lambda: not fleet.has_executors(), "the attempts that lost are done as well")
    told = "".join(path.read_text() for path in events.rglob("*") if path.suffix != ".crc")
    begun = [json.loads(line) for line in told.splitlines() if '"SparkListenerTaskStart"' in line]
    assert any(one["Task Info"]["Speculative"] for one in begun), "no task ran twice at once"
    assert_once(trial, done)
