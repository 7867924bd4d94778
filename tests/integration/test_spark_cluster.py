"""A standalone Spark cluster of two workers: a lost worker costs nothing but time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import assert_same, count, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Driver
from tests.support.spark_cluster import EXECUTORS, FAILPOINTS, SparkCluster, spark_conf
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev import DevStatus
from kafkeep.dev.process import Ports
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = pytest.mark.integration
PARTITIONS, BATCHES, ROWS = 4, 12, 500
RECORDS = PARTITIONS * BATCHES * ROWS
HELD = "object.after:hold@1;request.after:hold@1"
"""Each worker stops in its first task of each run: an object is stored, or a batch is written."""


@dataclass
class ClusterTrial(Trial):
    """A topic, its archive and runs whose tasks are on a cluster."""

    spark: SparkCluster = field(kw_only=True)

    @property
    def env(self) -> dict[str, str]:
        """The environment of a worker whose tasks stop at ``HELD``."""
        return {
            "KAFKEEP_FAILPOINT": HELD,
            "KAFKEEP_FAILPOINT_TRACE": str(self._trace),
            "KAFKEEP_FAILPOINT_GATE": str(self._gate),
        }

    @property
    def conf(self) -> dict[str, str]:
        """The settings of an application on this cluster."""
        return {"spark.master": self.spark.address, **EXECUTORS}

    @property
    def back(self) -> str:
        return f"{self.topic}-back"

    def begin(self, verb: str, *arguments: object, conf: Mapping[str, str]) -> Driver:
        """Start a run on the cluster."""
        return self.start(verb, *arguments, *spark_conf({**self.conf, **conf}))

    def fill(self) -> None:
        """Send as much that the work is shared."""
        pad = random.Random(1).randbytes(1000)
        now = time.time_ns() // 1_000_000
        for partition in range(PARTITIONS):
            batches = [
                build_batch([Record(i, now + n, b"%d" % n, pad) for i in range(ROWS)])
                for n in range(BATCHES)
            ]
            self.cluster.raw(self.topic, batches, partition)

    def held(self) -> int:
        """Return how many tasks have come to a failpoint."""
        return len(self._trace.read_text().split()) if self._trace.exists() else 0

    def check(self) -> None:
        """The topic came back as an independent client sees it."""
        before = dump(self.cluster.bootstrap, self.topic)
        assert count(before) == RECORDS
        assert_same(before, dump(self.cluster.bootstrap, self.back))
        self.check_objects()


@pytest.fixture
def trial(
    services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path
) -> Iterator[ClusterTrial]:
    """A cluster without workers, and a topic to back up."""
    spark = SparkCluster(tmp_path / "spark")
    cluster = Cluster(services.bootstrap_servers)
    try:
        trial = ClusterTrial(cluster, archive_address, topic_name, tmp_path, spark=spark)
        cluster.create(topic_name, PARTITIONS)
        trial.fill()
        yield trial
    finally:
        spark.stop()


def descriptions(port: int) -> list[str]:
    """Ask Spark's status API what its jobs do."""
    api = f"http://127.0.0.1:{port}/api/v1/applications"
    [application] = httpx.get(api, timeout=PATIENCE_S).json()
    jobs = httpx.get(f"{api}/{application['id']}/jobs", timeout=PATIENCE_S).json()
    return [job.get("description", "") for job in jobs]


def test_a_worker_killed_in_a_backup_and_one_in_a_restore_lose_and_double_nothing(
    trial: ClusterTrial,
) -> None:
    one, two = trial.spark.add_workers([trial.env, trial.env])
    with Ports() as ports:
        port = ports.take()
    pages = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    for verb, asked, lost, told in (
        ("backup", (trial.topic, "--tasks", "2"), one, "backup backup, cycle 1: 4 partitions, "),
        ("restore", (f"{trial.topic}:{trial.back}", "--tasks", "2"), two, "restore backup, commit"),
    ):
        run = trial.begin(verb, "--topics", *asked, conf={**FAILPOINTS, **pages})
        until(lambda run=run: run.runs() and trial.held() == 2, f"both workers are in the {verb}")
        assert [one for one in descriptions(port) if one.startswith(told) and "MiB" in one]
        trial.spark.kill_worker(lost)
        trial.open_gate()
        run.wait().expect(0)
        if verb == "backup":
            trial.spark.add_workers([trial.env])
    trial.check()
