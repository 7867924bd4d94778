"""A task that runs twice, after its worker died or beside itself: one object for each range."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, until
from tests.support.independent_client import assert_same, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Outcome, kafkeep
from tests.support.spark_cluster import EXECUTORS, spark_cluster, spark_conf

from kafkeep.dev import DevStatus

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
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


@pytest.mark.slow
def test_of_two_attempts_at_once_one_is_committed(trial: Trial, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    slow = [{"KAFKEEP_FAILPOINT": f"object.before:sleep={ms}"} for ms in (1500, 2000)]
    with spark_cluster(tmp_path / "spark", slow, cores=2) as fleet:
        conf = {
            **EAGER,
            **EXECUTORS,
            "spark.master": fleet.address,
            "spark.executor.cores": "2",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(events),
        }
        done = trial.start("backup", "--topics", trial.topic, *spark_conf(conf)).wait()
        until(lambda: not fleet.has_executors(), "the attempts that lost are done as well")
    told = "".join(path.read_text() for path in events.rglob("*") if path.suffix != ".crc")
    begun = [json.loads(line) for line in told.splitlines() if '"SparkListenerTaskStart"' in line]
    assert any(one["Task Info"]["Speculative"] for one in begun), "no task ran twice at once"
    assert_once(trial, done)
