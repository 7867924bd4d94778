"""kafkeep on a Spark Connect server: the session is there, and so are the tasks."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tests.support.cluster import Cluster
from tests.support.releases import TEST_SPARK
from tests.support.run_kafkeep import (
    Driver,
    command_of,
    kafkeep,
    members,
    parent_of,
    signal_group,
)
from tests.support.spark_cluster import spark_cluster
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev import DevStatus, downloads
from kafkeep.dev.process import Ports
from kafkeep.spark.frame_tasks import Reported, collect_frame, frame_of_tasks
from kafkeep.spark.server_slots import one_task_per_row
from kafkeep.spark.slots import running_slots, task_slots
from kafkeep.spark.tasks import TaskRunner

pytestmark = [
    pytest.mark.integration,
    pytest.mark.core(suite="connect"),
    pytest.mark.filterwarnings("ignore:distutils Version classes are deprecated"),  # Spark 3.5
]
SUBMIT = Path(sys.executable).parent / "spark-submit"


@dataclass(frozen=True)
class Server:
    """A Spark Connect server; its processes are a group."""

    address: str
    group: int

    def workers(self) -> set[int]:
        """Return the Python workers that it has forked for tasks."""
        daemons = {pid for pid in members(self.group) if "pyspark.daemon" in command_of(pid)}
        return {pid for pid in daemons if parent_of(pid) in daemons}


@pytest.fixture
def server(running_server: Server) -> str:
    """The address of a real server."""
    return running_server.address


@pytest.fixture
def running_server(tmp_path: Path) -> Iterator[Server]:
    with connect_server(tmp_path) as running:
        yield running


@contextmanager
def connect_server(
    folder: Path, *, master: str = "local[1]", conf: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start a real server, as sbin/start-connect-server.sh does."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        **(conf or {}),
    }
    with Ports() as ports:
        port = ports.take()
        settings["spark.connect.grpc.binding.port"] = str(port)
        command = [str(SUBMIT), "--master", master]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        if TEST_SPARK < (4, 0):  # whose package on PyPI does not contain the server
            command += ["--jars", str(connect_jar())]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        log = folder / "server.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "spark-internal"],
                stdout=output,
                stderr=output,
                cwd=folder,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                start_new_session=True,
            )
        try:
            until(lambda: _listens(port, process, log), "the server listens")
            yield Server(f"sc://127.0.0.1:{port}", process.pid)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)


def connect_jar() -> Path:
    """Return the jar of the newest server of Spark 3.5, downloaded once per machine."""

    def fill(folder: Path) -> None:
        wanted = ("org.apache.spark", "spark-connect_2.12", "[3.5,3.6[")
        dependency = downloads._DEPENDENCY.format(*wanted)
        dependency = dependency.replace('conf="default"', 'conf="default->master"')
        downloads._resolve("spark-connect", dependency, folder / "libs", types=("jar",))

    home = downloads.cached("spark-connect-3.5", fill, lambda _: None, "downloading it")
    (jar,) = (home / "libs").glob("spark-connect_2.12-*.jar")
    return jar


@contextmanager
def connected(address: str) -> Iterator[SparkSession]:
    """Open a session on a server, beside any that this process has."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session = ConnectSession(address)
    try:
        yield cast(SparkSession, session)
    finally:
        session.client.close()


def _listens(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    with socket.socket() as link:
        link.settimeout(1)
        return link.connect_ex(("127.0.0.1", port)) == 0


def test_spark_connect_starts_as_installed_and_runs_a_backup(
    server: str, services: DevStatus, cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    cluster.create(topic_name, 1)
    cluster.fill(topic_name, 100)
    archive = tmp_path / "archive"
    kafka = ("--bootstrap-servers", services.bootstrap_servers)
    run = Driver(
        tmp_path / "run",
        *("backup", *kafka, "--archive", archive, "--topics", topic_name, "--output", "json"),
        *("--spark-conf", f"spark.remote={server}"),
    )
    assert run.wait().expect(0).stderr == ""
    info = kafkeep("info", "--archive", archive, "--output", "json").expect()
    assert '"records":100' in info.stdout.replace(" ", "")
    again = Driver(
        tmp_path / "again",
        *("restore", *kafka, "--archive", archive, "--output", "json"),
        *("--topics", f"{topic_name}:{topic_name}-again"),
        env={"SPARK_REMOTE": server},
    )
    again.wait().expect(0)
    assert cluster.end(f"{topic_name}-again") == 100
    examined = Driver(
        tmp_path / "doctor",
        *("doctor", "--spark", *kafka, "--output", "json"),
        env={"SPARK_REMOTE": server},
    )
    checks = {check["subject"]: check for check in examined.wait().expect(0).json["checks"]}
    assert checks["spark"]["what"].endswith("; 1 task at a time"), "the cores of the server"
    assert checks["executor kafka"]["verdict"] == "pass"


def test_ctrl_c_cancels_the_tasks_on_the_server(
    running_server: Server,
    services: DevStatus,
    cluster: Cluster,
    topic_name: str,
    tmp_path: Path,
) -> None:
    cluster.create(topic_name, 1)
    for _ in range(20):
        cluster.fill(topic_name, 100)
    driver = Driver(
        tmp_path / "run",
        *("backup", "--bootstrap-servers", services.bootstrap_servers, "--topics", topic_name),
        *("--archive", tmp_path / "archive", "--rate", "1KiB"),
        *("--spark-conf", f"spark.remote={running_server.address}"),
    )
    at_work = until(lambda: driver.runs() and running_server.workers(), "a task runs")
    signal_group(driver.group, signal.SIGINT)
    driver.wait().expect(130)
    until(lambda: not at_work & running_server.workers(), "its worker has ended")


def test_spark_connect_without_its_packages_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "grpc_status.py").write_text("raise ModuleNotFoundError('No grpc_status')\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    wrong = ("--spark-conf", "spark.remote=sc://127.0.0.1:15002")
    ended = Driver(tmp_path, "doctor", "--output", "json", *wrong, env={"PYTHONPATH": path})
    (spark,) = [one for one in ended.wait().expect(1).json["checks"] if one["subject"] == "spark"]
    assert "Spark Connect needs packages that are not installed" in spark["what"], spark
    assert ("grpcio-status" if TEST_SPARK >= (4, 0) else "grpc_status") in spark["what"]
    assert "pip install 'kafkeep[connect]'" in spark["hint"]


def test_a_spark_connect_server_that_is_not_there_is_reported_at_once(tmp_path: Path) -> None:
    with Ports() as ports:
        wrong = ("--spark-conf", f"spark.remote=sc://127.0.0.1:{ports.take()}")
        ended = Driver(tmp_path, "doctor", "--output", "json", *wrong).wait().expect(1)
    (spark,) = [one for one in ended.json["checks"] if one["subject"] == "spark"]
    assert "cannot start a session on the Spark Connect server" in spark["what"], spark
    assert "no answer" in spark["what"]


LEAF_TASKS = "spark.sql.leafNodeDefaultParallelism"


def test_a_task_receives_its_own_bundle_only(server: str) -> None:
    def report(parts: Iterable[bytes]) -> Iterator[Reported]:
        task = TaskContext.get()
        assert task is not None
        for part in parts:
            yield task.partitionId(), "part", part

    def function_bytes(parts: list[bytes]) -> int:
        frame: Any = frame_of_tasks(session, parts, report)
        plan = frame._plan.to_proto(frame.sparkSession.client)
        return len(plan.root.map_partitions.func.python_udf.command)

    parts = [bytes([number]) * 50_000 for number in range(24)]
    with connected(server) as session:
        session.conf.set(LEAF_TASKS, "3")
        assert function_bytes(parts) == function_bytes(parts[:1]) < 10_000
        reported = collect_frame(session, parts, report)
        assert sorted(reported) == [(number, "part", part) for number, part in enumerate(parts)]
        assert session.conf.get(LEAF_TASKS) == "3", "what the caller set is back"


def test_slots_are_those_of_all_executors_that_a_server_may_start(tmp_path: Path) -> None:
    dynamic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.initialExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "5",
        "spark.executor.cores": "2",
    }
    with (
        spark_cluster(tmp_path / "cluster", envs=()) as cluster,
        connect_server(tmp_path, master=cluster.address, conf=dynamic) as running,
        connected(running.address) as session,
    ):
        assert task_slots(session) == 10
        with one_task_per_row(session, 70):
            assert task_slots(session) == 10
            assert running_slots(session) < 70, "rows of a job are not slots"


def test_a_tag_of_the_job_says_what_it_does(tmp_path: Path) -> None:
    def nothing(_bundle: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return iter(())

    events = tmp_path / "events"
    events.mkdir()
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    logged |= {"spark.eventLog.compress": "false"}

    def log() -> str:
        return "".join(file.read_text() for file in events.rglob("*") if file.is_file())

    with connect_server(tmp_path, conf=logged) as running, connected(running.address) as session:
        runner = TaskRunner(session)
        shown = "backup prod, cycle 3: 12 partitions, 582.0 MiB"
        runner.run_tasks(["hunter2"], nothing, label="backup", description=shown)
        until(lambda: "SparkListenerJobEnd" in log(), "the job is logged")
        found = set(re.findall(r'"spark.job.tags":"([^"]+)"', log()))
        assert any("backup prod; cycle 3: 12 partitions; 582.0 MiB" in tags for tags in found)
        assert "hunter2" not in log(), "what a task receives is not logged"
        assert not session.getTags()


def test_a_session_is_opened_in_the_public_way_when_the_client_has_other_classes(
    server: str,
) -> None:
    script = f"""
from pyspark.sql.connect import client, session
from kafkeep.spark.internals.connect import open_client
vars(client).pop("DefaultChannelBuilder", None)  # Spark 3.5 has another
opened = open_client("{server}/", user="me", options={{}}, retries=1)
print(opened.range(3).count())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "3\n", done.stderr
