"""A real Spark cluster of its own kind: a standalone master and workers, each as a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from tests.support.run_kafkeep import members, signal_group
from tests.support.waiting import PATIENCE_S, until

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
EXECUTORS = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
"""Settings of an application: small executors, and a driver that they reach."""

_DAEMONS = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it takes a fixed port
}


def spark_conf(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return settings as flags of ``kafkeep``."""
    return tuple(part for pair in settings.items() for part in ("--spark-conf", "=".join(pair)))


class SparkCluster:
    """A master and its workers. Each worker has a host address of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._master = self._launch(
            "master", "Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        self.address = self._found("master", r"Starting Spark master at (spark://\S+)")

    def add_workers(
        self, envs: Sequence[Mapping[str, str]], *, cores: int = 1, memory: str = "600m"
    ) -> list[str]:
        """Start a worker for each environment; return their names when all are registered."""
        first = len(self.workers) + 2
        names = [f"worker-{number}" for number in range(first, first + len(envs))]
        for number, (name, env) in enumerate(zip(names, envs, strict=True), first):
            flags = ("--host", f"127.0.0.{number}", "--cores", str(cores), "--memory", memory)
            flags += ("--webui-port", "0", "--work-dir", str(self.folder / name))
            self.workers[name] = self._launch(name, "Worker", *flags, self.address, env=env)
        for name in names:
            self._found(name, r"Successfully registered with master (\S+)")
        return names

    def kill_worker(self, name: str) -> None:
        """Kill -9 a worker, its executors and their Python processes, as a machine that is lost."""
        worker = self.workers[name]
        for pid in members(worker.pid):
            os.kill(pid, signal.SIGKILL)
        worker.wait(PATIENCE_S)
        until(lambda: not members(worker.pid), f"all of {name} are gone")

    def logs_of_executors(self) -> str:
        """Return what all executors said so far."""
        return "".join(log.read_text() for log in self.folder.glob("worker-*/*/*/std*"))

    def has_executors(self) -> bool:
        """Whether an executor or a Python worker of one runs: they do in the workers' folders."""
        return any(_is_inside(process, self.folder) for process in Path("/proc").glob("[0-9]*"))

    def stop(self) -> None:
        """End all processes; nothing is left of them."""
        everything = [*self.workers.values(), self._master]
        for process in everything:
            process.terminate()
        for process in everything:
            process.wait(PATIENCE_S)
            signal_group(process.pid, signal.SIGKILL)

    def _launch(
        self, name: str, kind: str, *flags: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *flags]
        environ = {**os.environ, **_DAEMONS, **(env or {})}
        with (self.folder / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=environ, start_new_session=True
            )

    def _found(self, name: str, pattern: str) -> str:
        log = self.folder / f"{name}.log"
        found = until(lambda: re.search(pattern, log.read_text()), f"{name} says {pattern}")
        return found[1]


@contextmanager
def spark_cluster(
    folder: Path,
    envs: Sequence[Mapping[str, str]] = ({}, {}),
    *,
    cores: int = 1,
    memory: str = "600m",
) -> Iterator[SparkCluster]:
    """Yield a cluster with a worker for each environment; stop it at the end."""
    cluster = SparkCluster(folder)
    try:
        cluster.add_workers(envs, cores=cores, memory=memory)
        yield cluster
    finally:
        cluster.stop()


def _is_inside(process: Path, folder: Path) -> bool:
    """Whether the folder in which a process works is one below ``folder``."""
    try:
        return folder in (process / "cwd").readlink().parents
    except OSError:  # it has ended, or is somebody else's
        return False
