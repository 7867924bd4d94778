"""Spark's JVM: start it, stop it, and read its memory and threads.

``spark-submit`` starts a first JVM only to work out how to start the second one. A local master or
a standalone cluster needs no such work, so this module starts the gateway directly. That saves one
JVM, keeps its output in a file of its own, and keeps the class path the same, as the class-data
archive requires.

This module does not import pyspark: the JVM starts while Python imports the rest.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import SparkOptions, require_java
from kafkeep.spark.class_archive import ClassArchive
from kafkeep.spark.daemon_handover import SOCKET_VARIABLE
from kafkeep.spark.failure import KEEP_LOG_HINT, SparkLog, find_cause, named_log
from kafkeep.spark.forked_daemon import ForkedDaemon, can_fork, fork_daemon, socket_of
from kafkeep.spark.internals.gateway import (
    GATEWAY_CLASS,
    GATEWAY_PORT,
    gateway_environment,
    read_gateway,
)

PRELOAD_VARIABLE = "KAFKEEP_PRELOAD"
LOG4J = Path(__file__).with_name("log4j2.properties")
_START_SECONDS = 600.0
_STOP_SECONDS = 10.0
_ENDING_SECONDS = 2.0

# What Spark's own launcher opens for it (JavaModuleOptions), the incubator module left out:
# it prints a warning, and kafkeep does no vector arithmetic in the JVM.
_OPENED = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util"
    " java.util.concurrent java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs"
    " sun.security.action sun.util.calendar"
)
_JVM_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED.split()),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    # The JVM only schedules: start-up is what it spends its time on.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Xlog:disable",
)
_IPV4 = "-Djava.net.preferIPv4Stack=true"
# Workers take and free buffers of some megabytes all the time. Left to itself, glibc hands each
# back to the kernel, and every page of the next one costs a fault: a tenth of a worker's time.
# Kafka's answers are received by a thread of their own. With an arena of its own, one answer takes
# the place of another; among what other threads keep it finds none, and touches twice the pages.
WORKER_MEMORY = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(128 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    # To clear huge pages takes longer than it saves: a fifth of a backup's processor time.
    "NUMPY_MADVISE_HUGEPAGE": "0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
# fmt: off
_BESIDE_CORE = (
    "JTransforms", "algebra_", "antlr", "arpack", "arrow-", "breeze", "cats-kernel",
    "curator-", "datanucleus-", "datasketches-", "derby", "hive-", "icu4j", "jakarta.xml",
    "janino", "jaxb-", "jline-", "kubernetes-", "orc-", "parquet-", "rocksdbjni",
    "scala-compiler", "spark-catalyst", "spark-connect", "spark-graphx", "spark-hive",
    "spark-kubernetes", "spark-mllib", "spark-pipelines", "spark-repl", "spark-sql",
    "spark-streaming", "spark-yarn", "spire", "vertx-", "volcano-", "zookeeper",
)
# fmt: on
"""Jars of Spark SQL, of Hive, of machine learning, of other masters: half of all that there is."""
_NEEDS_SUBMIT = ("spark.jars", "spark.driver.extra", "spark.submit.", "spark.kubernetes.")
_NEEDS_SUBMIT_ENV = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", GATEWAY_PORT)
_OF_CLUSTERS = ("spark.files", "spark.archives", "spark.kerberos.", "spark.driver.default")
_OF_CLUSTERS_ENV = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS")


def can_start_lean(options: SparkOptions) -> bool:
    """Whether tasks run here, and nothing was asked for that only ``spark-submit`` can arrange."""
    return options.is_local and _needs_no_submit(options)


def can_launch(options: SparkOptions) -> bool:
    """Whether ``launch_jvm`` can start the driver: of a local master, or of a standalone cluster.

    A cluster's driver may need more from files and the environment, which ``spark-submit`` reads.
    """
    if options.is_local:
        return can_start_lean(options)
    if options.remote is not None or not options.master.startswith("spark://"):
        return False
    asked = any(key.startswith(_OF_CLUSTERS) for key in options.conf)
    asked = asked or any(os.environ.get(name) for name in _OF_CLUSTERS_ENV)
    return not asked and _needs_no_submit(options) and not (spark_home() / "conf").exists()


def _needs_no_submit(options: SparkOptions) -> bool:
    asked = any(key.startswith(_NEEDS_SUBMIT) for key in options.conf)
    asked = asked or any(os.environ.get(name) for name in _NEEDS_SUBMIT_ENV)
    return os.name == "posix" and not asked


@dataclass(slots=True)
class Jvm:
    """A gateway process of ours, its folder for temporary files, and how to reach it."""

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    archive: ClassArchive | None
    may_be_killed: bool = True
    """Whether it has nothing to do when it ends."""
    stop_seconds: float = _STOP_SECONDS
    kept_log: SparkLog | None = None
    """The log of a cluster's driver, which messages name."""
    launched_at: float = field(default_factory=time.monotonic)
    daemon: ForkedDaemon | None = None
    """The daemon of its workers, if it was forked from this process."""

    def wait_ready(self) -> tuple[int, str]:
        """Return the gateway's port and secret as soon as it listens."""
        info = self.folder / "gateway"
        deadline = time.monotonic() + _START_SECONDS
        while not info.is_file():
            if self.process.poll() is not None:
                raise EnvironmentFault(
                    f"Spark's JVM did not start: {find_cause(self.log)}", hint=KEEP_LOG_HINT
                )
            if time.monotonic() > deadline:
                raise EnvironmentFault(
                    f"Spark's JVM was started but not ready within {_START_SECONDS:.0f} s",
                    hint=f"The machine may be too busy. {KEEP_LOG_HINT}",
                )
            time.sleep(0.01)
        return read_gateway(info)

    def has_ended(self) -> bool:
        """Tell whether the process is gone, or goes in this moment."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING_SECONDS)
        return self.process.poll() is not None

    def stop(self) -> None:
        """End the process and remove its folder; safe to call twice."""
        if self.daemon is not None:
            self.daemon.stop()
        if self.may_be_killed:
            self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()  # the gateway ends when its input does
        try:
            self.process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.daemon is not None:
            self.daemon.reap()
        shutil.rmtree(self.folder, ignore_errors=True)


def launch_jvm(options: SparkOptions, *, write_to: Path | None = None) -> Jvm:
    """Start the gateway in the background and return at once.

    It ends with this process, however that ends. ``write_to`` is where it writes a class archive
    when it ends.
    """
    java = require_java(quick=True)
    home = spark_home()
    kept = None if options.is_local else SparkLog.create()
    named = named_log()
    folder = _make_folder()
    log = kept.path if kept is not None else named or folder / "spark.log"
    core_only = options.is_local and not options.sql and not options.conf
    jars = _class_path(home, core_only=core_only)
    archive = ClassArchive.for_runtime(java, home, jars, _JVM_FLAGS, core_only=core_only)
    command = [java, "-cp", os.pathsep.join(jars), *_JVM_FLAGS, *archive.jvm_flags(write_to)]
    command += [f"-Xmx{options.conf.get('spark.driver.memory', '1g')}"]
    command += [f"-Dlog4j2.configurationFile={LOG4J}", f"-Djava.io.tmpdir={folder}"]
    command += [_IPV4] if options.is_local else []
    command += [GATEWAY_CLASS]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_environment(options, home, folder),
            process_group=0,  # Ctrl-C is for the driver: it cancels the job, then ends the JVM
        )
    # A cluster's driver takes leave of its master.
    may_be_killed = write_to is None and options.is_local
    jvm = Jvm(process, folder, log, archive, may_be_killed=may_be_killed, kept_log=kept)
    atexit.register(jvm.stop)
    return jvm


_prelaunched: list[tuple[SparkOptions, Jvm]] = []


def prelaunch_jvm(options: SparkOptions) -> None:
    """Start a JVM for the next session with the same options; at most one waits.

    Python imports pyspark and the rest meanwhile, which saves about a second. Does nothing when
    pyspark is loaded already: a session may exist, and there is nothing to save.
    """
    if not _prelaunched and "pyspark" not in sys.modules and can_launch(options):
        _prelaunched.append((options, launch_jvm(options)))


def fork_workers(names: Iterable[str]) -> None:
    """Load what the command is about to load, and fork the daemon of its workers.

    ``names`` are modules and functions as in ``SparkOptions.preload``. Does nothing without a JVM
    that waits, or where a fork is not safe. Spark starts the daemon of its workers with the first
    task then, as it always does.
    """
    for options, jvm in _prelaunched:
        if not can_fork(options):
            continue
        for name, text in WORKER_MEMORY.items():
            os.environ.setdefault(name, text)  # libraries read them when they are imported
        from kafkeep.spark.worker_daemon import preload  # noqa: PLC0415 - it loads Kafka's client

        for name in names:
            preload(name)
        if can_fork(options):
            with suppress(OSError):
                jvm.daemon = fork_daemon(jvm.folder, options.preload, WORKER_MEMORY)


def is_jvm_waiting() -> bool:
    """Whether a JVM was started for the next session."""
    return bool(_prelaunched)


def take_prelaunched(options: SparkOptions) -> Jvm | None:
    """Return the JVM that waits for these options, once; stop one that waits for others."""
    while _prelaunched:
        expected, jvm = _prelaunched.pop()
        if expected == options:
            return jvm
        jvm.stop()
    return None


def _class_path(home: Path, *, core_only: bool) -> list[str]:
    """Return Spark's jars. A JVM opens all of them: whatever looks for a resource asks each."""
    jars = sorted((home / "jars").glob("*.jar"))
    wanted = [jar for jar in jars if not core_only or not jar.name.startswith(_BESIDE_CORE)]
    return [str(jar) for jar in wanted]


def _make_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="kafkeep-spark-"))
    except OSError as error:
        raise EnvironmentFault(
            f"cannot create a temporary folder: {error.strerror or error}",
            hint="Make room, or name a folder that can be written to in TMPDIR.",
        ) from error


def spark_home() -> Path:
    """Return where pyspark is installed, without importing it."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise EnvironmentFault("pyspark is not installed")
    return Path(found.origin).parent


def _environment(options: SparkOptions, home: Path, folder: Path) -> Mapping[str, str]:
    return {
        **WORKER_MEMORY,
        **os.environ,
        **gateway_environment(folder / "gateway"),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        "PYTHONHASHSEED": "0",
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": str(home),
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if options.is_local else {}),
        "SPARK_SCALA_VERSION": "2.13",
        PRELOAD_VARIABLE: ",".join(options.preload),
        SOCKET_VARIABLE: str(socket_of(folder)),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmFacts:
    """The JVM at one moment; ``collections`` has the number and seconds of each collector."""

    heap_bytes: int
    other_bytes: int
    threads: int
    collections: Mapping[str, tuple[int, float]]


def read_jvm() -> JvmFacts | None:
    """Ask the JVM of this process's Spark; None when there is none, or it does not answer.

    A process that has not needed Spark yet does not load it for this.
    """
    if "pyspark" not in sys.modules:
        return None
    from py4j.protocol import Py4JError  # noqa: PLC0415

    from kafkeep.spark.internals.classic import active_context, jvm_of  # noqa: PLC0415

    context = active_context()
    jvm = None if context is None else jvm_of(context)
    if jvm is None:
        return None
    try:
        return _beans_of(jvm).facts()
    except (Py4JError, OSError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beans:
    """Where a JVM counts. Each call crosses to Java, so what never changes is asked once."""

    memory: Any
    threads: Any
    collectors: Mapping[str, Any]

    def facts(self) -> JvmFacts:
        return JvmFacts(
            heap_bytes=self.memory.getHeapMemoryUsage().getUsed(),
            other_bytes=self.memory.getNonHeapMemoryUsage().getUsed(),
            threads=self.threads.getThreadCount(),
            collections={
                name: (bean.getCollectionCount(), bean.getCollectionTime() / 1000)
                for name, bean in self.collectors.items()
            },
        )


@lru_cache(maxsize=1)
def _beans_of(jvm: Any) -> _Beans:
    management = jvm.java.lang.management.ManagementFactory
    return _Beans(
        memory=management.getMemoryMXBean(),
        threads=management.getThreadMXBean(),
        collectors={bean.getName(): bean for bean in management.getGarbageCollectorMXBeans()},
    )
