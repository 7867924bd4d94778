"""A standalone Spark cluster of two workers, and all that uses it.

``make test-cluster`` runs the long ones too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.cluster import Cluster
from tests.support.connect.serve_processes import World
from tests.support.independent_client import assert_same, count, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Driver
from tests.support.spark_cluster import EXECUTORS, SparkCluster, spark_cluster, spark_conf
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev import DevStatus
from kafkeep.dev.process import Ports
from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = pytest.mark.integration
PARTITIONS, BATCHES, ROWS = 4, 12, 500
RECORDS = PARTITIONS * BATCHES * ROWS
LONGEST_S = 500.0
"""The JVMs of a driver and of two executors start in each run, one after the other."""
HELD = "object.after:hold@1;request.after:hold@1"
"""Each worker stops in its first task of each run: an object is stored, or a batch is written."""
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.executor.cores": "1",
}


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

    @property
    def bring_back(self) -> tuple[str, str]:
        """The flags of a restore beside the topic."""
        return "--topics", f"{self.topic}:{self.back}"

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

    def check(self, records: int = RECORDS) -> None:
        """The topic came back as an independent client sees it."""
        before = dump(self.cluster.bootstrap, self.topic)
        assert count(before) == records
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


@dataclass(frozen=True)
class StatusApi:
    """What Spark's pages show of one application, as JSON."""

    port: int

    @classmethod
    def on_free_port(cls) -> StatusApi:
        with Ports() as ports:
            return cls(ports.take())

    @property
    def conf(self) -> dict[str, str]:
        """The settings of an application that has these pages."""
        return {"spark.ui.enabled": "true", "spark.ui.port": str(self.port)}

    def jobs(self, begins: str) -> dict[str, int]:
        """Return the descriptions of jobs that begin so, each with its number of tasks."""
        return {
            said: job["numTasks"]
            for job in self._get("jobs")
            if (said := job.get("description", "")).startswith(begins)
        }

    def executors(self) -> int:
        return sum(one["isActive"] and one["id"] != "driver" for one in self._get("executors"))

    def _get(self, what: str) -> list[dict[str, Any]]:
        api = f"http://127.0.0.1:{self.port}/api/v1/applications"
        try:
            known = httpx.get(api, timeout=PATIENCE_S)
            if not known.headers.get("Content-Type", "").startswith("application/json"):
                return []  # Spark starts
            [application] = known.json()
            found = httpx.get(f"{api}/{application['id']}/{what}", timeout=PATIENCE_S)
        except httpx.ConnectError:  # nor has it begun to
            return []
        return list(found.json())


def test_a_worker_killed_in_a_backup_and_one_in_a_restore_lose_and_double_nothing(
    trial: ClusterTrial,
) -> None:
    one, two = trial.spark.add_workers([trial.env, trial.env])
    pages = StatusApi.on_free_port()
    for verb, asked, lost, told in (
        ("backup", (trial.topic, "--tasks", "2"), one, "backup backup, cycle 1: 4 partitions, "),
        ("restore", (f"{trial.topic}:{trial.back}", "--tasks", "2"), two, "restore backup, commit"),
    ):
        run = trial.begin(verb, "--topics", *asked, conf=pages.conf)
        until(lambda run=run: run.runs() and trial.held() == 2, f"both workers are in the {verb}")
        [(said, tasks)] = pages.jobs(told).items()
        assert said.endswith("MiB") and tasks == 2
        trial.spark.kill_worker(lost)
        trial.open_gate()
        run.wait(LONGEST_S).expect(0)
        if verb == "backup":
            trial.spark.add_workers([trial.env])
    trial.check()


@pytest.mark.slow
def test_a_following_backup_uses_executors_that_come_later(trial: ClusterTrial) -> None:
    trial.spark.add_workers([{}])
    pages = StatusApi.on_free_port()
    flags = ("--topics", trial.topic, "--follow", "--interval", "1s", "--segment-age", "1s")
    run = trial.begin("backup", *flags, conf=pages.conf)

    def most_tasks() -> int:
        assert run.runs()
        return max(pages.jobs("backup backup, cycle").values(), default=0)

    try:
        until(lambda: most_tasks() == 1, "one executor does all", seconds=LONGEST_S)
        trial.spark.add_workers([{}])
        until(lambda: pages.executors() == 2, "Spark has started another one")
        trial.fill()
        until(lambda: most_tasks() == 2, "a cycle uses both")
        run.signal(signal.SIGTERM)
        run.wait().expect(0)
    finally:
        run.kill()
    trial.begin("backup", "--topics", trial.topic, conf={}).wait(LONGEST_S).expect(0)
    trial.begin("restore", *trial.bring_back, conf={}).wait(LONGEST_S).expect(0)
    trial.check(2 * RECORDS)


@pytest.mark.slow
def test_dynamic_allocation_starts_the_executors_that_the_tasks_need_from_none(
    trial: ClusterTrial,
) -> None:
    trial.spark.add_workers([{}, {}])
    events = trial.folder / "events"
    events.mkdir()
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(events),
    }
    flags = ("--topics", trial.topic)
    backup = trial.begin("backup", *flags, conf={**DYNAMIC, **logged}).wait(LONGEST_S)
    assert backup.expect(0).json["records"] == RECORDS
    restore = trial.begin("restore", *trial.bring_back, conf={**DYNAMIC, **logged})
    assert restore.wait(LONGEST_S).expect(0).json["records"] == RECORDS
    trial.check()
    lines = [
        json.loads(line)
        for path in events.rglob("*")
        if path.is_file() and path.suffix != ".crc"
        for line in path.read_text().splitlines()
    ]
    assert sum(line["Event"] == "SparkListenerExecutorAdded" for line in lines) >= 4
    jobs = [line for line in lines if line["Event"] == "SparkListenerJobStart"]
    of_backup = [j for j in jobs if j["Properties"]["spark.job.description"].startswith("backup ")]
    assert [job["Stage Infos"][0]["Number of Tasks"] for job in of_backup] == [2]


DAEMON = """
import json, os, sys
from pathlib import Path
from kafkeep import preload
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.session import start_session
from kafkeep.spark.tasks import TaskRunner

def find_daemon(_bundle):
    daemon = Path(f"/proc/{os.getppid()}")
    executor = Path("/proc") / (daemon / "stat").read_text().rpartition(")")[2].split()[1]
    command = (daemon / "cmdline").read_text().split("\\0")
    yield "daemon", {
        "module": command[command.index("-m") + 1],
        "preloaded": "kafkeep.backup.task" in sys.modules,
        "optimises": "-XX:TieredStopAtLevel=1" not in (executor / "cmdline").read_text(),
    }

options = SparkOptions.load(sys.argv[1:], preload=preload.BACKUP)
rows = TaskRunner(start_session(options)).run_tasks([1, 2], find_daemon, label="test")
print(json.dumps([row.body for row in rows]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("given", ["nothing", "a flag", "spark-defaults.conf", "Python files"])
def test_executors_preload_what_tasks_import_unless_the_user_has_another_daemon(
    given: str, tmp_path: Path
) -> None:
    others, mine = "spark.python.daemon.module", "pyspark.daemon"
    environ, conf = {**os.environ, "PYSPARK_PYTHON": sys.executable}, dict(EXECUTORS)
    if given == "a flag":
        conf[others] = mine
    elif given == "Python files":
        (tmp_path / "more.py").touch()
        conf["spark.submit.pyFiles"] = str(tmp_path / "more.py")
    elif given == "spark-defaults.conf":
        (tmp_path / given).write_text(f"{others} {mine}\n")
        environ["SPARK_CONF_DIR"] = str(tmp_path)
    with spark_cluster(tmp_path / "spark", [{}]) as cluster:
        conf["spark.master"] = cluster.address
        pairs = [f"{key}={value}" for key, value in conf.items()]
        program = [sys.executable, "-c", DAEMON, *pairs]
        run = subprocess.run(
            program, capture_output=True, text=True, timeout=LONGEST_S, check=False, env=environ
        )
    assert run.returncode == 0, run.stderr[-5000:]
    expected = {"module": mine, "preloaded": False, "optimises": given == "Python files"}
    if given == "nothing":
        expected |= {"module": "kafkeep.spark.worker_daemon", "preloaded": True}
    assert json.loads(run.stdout) == [expected] * 2


PROGRAM = """
import json, sys
import kafkeep
from kafkeep.spark.datasource.source import register
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceRegistration

slots, add = [], DataSourceRegistration.register
DataSourceRegistration.register = lambda to, source: (slots.append(source.slots), add(to, source))
conf, servers, archive, topic = json.loads(sys.argv[1]), *sys.argv[2:]
spark = SparkSession.builder.config(map=conf).getOrCreate()
register(spark)
where = {"archive": archive, "bootstrap_servers": servers}
done = kafkeep.backup(topics=[topic], tasks=3, **where)
back = kafkeep.restore(topics={topic: f"{topic}-back"}, **where)
read = spark.read.format("kafkeep").load(archive).count()
print(done.records, back.records, read, *slots)
"""


@pytest.mark.slow
def test_a_program_with_a_session_of_its_own_uses_the_cluster(trial: ClusterTrial) -> None:
    trial.spark.add_workers([{}, {}])
    program = [sys.executable, "-c", PROGRAM, json.dumps(trial.conf), trial.cluster.bootstrap]
    run = subprocess.run(
        [*program, trial.archive, trial.topic],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
        cwd=trial.folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert run.returncode == 0, run.stderr[-5000:]
    *counts, slots = map(int, run.stdout.split())
    assert counts == [RECORDS] * 3
    assert slots == 2, "a reader plans for both executors, though they had only begun to start"
    trial.check()


@pytest.mark.slow
def test_a_service_runs_a_sink_and_a_source_on_the_cluster_and_outlives_a_worker(
    trial: ClusterTrial, services: DevStatus
) -> None:
    one, _ = trial.spark.add_workers([{}, {}])
    world = World(services, trial.cluster, trial.folder / "log", flags=spark_conf(trial.conf))
    service = world.start().wait_ready()
    try:
        topic = world.topic("clustered")
        kept = ("s3.region", "store.url", "aws.")
        both = {k: v for k, v in world.config(topic).items() if k.startswith(kept)}
        both["archive"] = f"s3://{services.s3.bucket}/{world.folder}-clustered"
        sink = {"connector.class": "kafkeep.Backup", "topics": topic.name, "segment.age": "500ms"}
        back = f"{topic.name}-back"
        source = {"connector.class": "kafkeep.Restore", "topics": f"{topic.name}:{back}"}
        source["poll.interval.ms"] = "300"
        topic.send(3)
        lines = world.config(topic)
        for name, config in (("keep", sink), ("bring", source), ("lines", lines)):
            service.call(
                "POST", "/connectors", {"name": name, "config": {**both, **config}}, expect=201
            )

        def returned() -> int:
            return sum(trial.cluster.end(back, n) for n in trial.cluster.partitions(back))

        until(lambda: returned() == topic.sent, "the topic comes back", seconds=LONGEST_S)
        trial.spark.kill_worker(one)
        topic.send(3)
        whole = "its new records come back too, by one worker"
        until(lambda: returned() == topic.sent, whole, seconds=LONGEST_S)
        assert_same(dump(world.cluster.bootstrap, topic.name), dump(world.cluster.bootstrap, back))
        topic.expect_all()
        assert service.states("keep") == ("RUNNING", ["RUNNING"])
        assert service.end() == 0
    finally:
        service.kill()
    assert "Running task" in trial.spark.logs_of_executors()


@pytest.mark.slow
def test_doctor_reports_what_the_executors_have_and_reach(trial: ClusterTrial) -> None:
    trial.spark.add_workers([{}, {}])

    def examine(**settings: str) -> tuple[int, dict[str, Any]]:
        conf = {**trial.conf, **settings}
        given = ("--spark", "--bootstrap-servers", trial.cluster.bootstrap, *spark_conf(conf))
        given += ("--archive", trial.archive, "--output", "json")
        folder = trial.folder / f"doctor-{len(settings)}"
        found = Driver(folder, "doctor", *given).wait(LONGEST_S)
        return found.code, {check["subject"]: check for check in found.json["checks"]}

    code, checks = examine(**{"spark.cores.max": "2"})
    subjects = ("python", "pyspark", "kafkeep", "kernels", "kafka", "store")
    assert {checks[f"executor {name}"]["verdict"] for name in subjects} == {"pass"}, checks
    assert (code, checks["spark"]["what"].endswith("2 tasks at a time")) == (0, True), checks

    bare = trial.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    python = {"spark.pyspark.python": str(bare / "bin" / "python")}
    code, checks = examine(**python, **{"spark.executorEnv.PYTHONPATH": ""})
    assert code == 1
    assert "kafkeep" in checks["spark"]["what"] and checks["spark"]["verdict"] == "fail", checks
    assert "spark-clusters" in checks["spark"]["hint"]
