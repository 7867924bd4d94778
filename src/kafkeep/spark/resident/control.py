"""Start, stop and describe the resident session of this user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.failure import KEEP_LOG_HINT, find_cause
from kafkeep.spark.jvm import WORKER_MEMORY, can_start_lean
from kafkeep.spark.resident.claim import claim_session, take_lock, why_not
from kafkeep.spark.resident.record import (
    Runtime,
    SessionRecord,
    is_running,
    make_private_folder,
    read_record,
    remove_record,
    resident_folder,
)

MIN_SPARK = 4
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05
_PACKAGES = ("grpc", "grpc_status", "pandas")
_ENVIRONMENT = (
    *("HOME", "JAVA_HOME", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYSPARK_PYTHON", "PYTHONPATH"),
    *("TMPDIR", "TZ", "USER", "VIRTUAL_ENV", "LANG", "LC_ALL", "LC_CTYPE"),
    *("KAFKEEP_CACHE", "KAFKEEP_CLASS_ARCHIVE", "KAFKEEP_SPARK_LOG", "NUMBA_CACHE_DIR"),
)
"""What the session inherits. Everything else, credentials above all, comes with each command."""


@dataclass(frozen=True, slots=True)
class ResidentStatus:
    """The resident session now; ``problem`` says why commands do not use it."""

    record: SessionRecord | None
    is_running: bool
    is_busy: bool = False
    problem: str | None = None

    @property
    def state(self) -> str:
        """Return ``ready``, ``busy``, ``outdated`` (no command fits it) or ``stopped``."""
        if not self.is_running:
            return "stopped"
        if self.problem is not None:
            return "outdated"
        return "busy" if self.is_busy else "ready"

    def to_json(self) -> dict[str, Any]:
        """Return the document that ``spark status --output json`` prints; it has no secrets."""
        document: dict[str, Any] = {"state": self.state, "problem": self.problem}
        if self.record is not None and self.is_running:
            runtime = self.record.runtime
            document |= {
                "address": self.record.address,
                "pid": self.record.pid,
                "started_ms": self.record.started_ms,
                "idle_timeout_ms": self.record.idle_timeout_ms,
                "master": self.record.master,
                "kafkeep": runtime.kafkeep,
                "spark": runtime.spark,
                "python": runtime.python,
            }
        return document


def describe_session(options: SparkOptions) -> ResidentStatus:
    """Return the state of the session, seen by a command with these options."""
    record = read_record()
    if record is None or not is_running(record.pid, record.pid_started):
        return ResidentStatus(None, False)
    lock = take_lock(looks=4)
    if lock is not None:
        lock.close()
    return ResidentStatus(record, True, lock is None, why_not(record, options))


def start_resident(options: SparkOptions, idle_timeout_ms: int) -> tuple[ResidentStatus, bool]:
    """Start a session unless a fitting one runs; return its state, and whether it is a new one.

    One that was started by another version, or with other properties, is stopped first.
    """
    _require(options)
    with _one_at_a_time():
        found = describe_session(options)
        if found.is_running and found.problem is None:
            return found, False
        stop_resident()
        record = _launch(options, idle_timeout_ms)
        try:
            _run_first_job(options)
        except BaseException:
            stop_resident()
            raise
        return ResidentStatus(record, True, False, why_not(record, options)), True


def stop_resident() -> bool:
    """Stop the session, whatever it runs; False if there is none."""
    record = read_record()
    if record is None:
        return False
    ran = is_running(record.pid, record.pid_started)
    if ran:
        os.kill(record.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while is_running(record.pid, record.pid_started):
            if time.monotonic() > deadline:
                os.kill(record.pid, signal.SIGKILL)  # its JVM ends with it
                break
            time.sleep(_POLL_SECONDS)
    remove_record(record.pid)
    return ran


def _require(options: SparkOptions) -> None:
    """Refuse by name what a resident session cannot be."""
    if options.remote is not None:
        raise UsageError(
            "a resident session runs on this machine; spark.remote (SPARK_REMOTE) names another",
            hint="Unset SPARK_REMOTE. With it, commands use the server that it names.",
        )
    if not options.is_local:
        raise UsageError(
            f"a resident session runs on this machine, not on {options.master}",
            hint="Leave out spark.master, or write local[4].",
        )
    if not can_start_lean(options):
        raise UsageError(
            "a resident session cannot be started through spark-submit",
            hint="Unset SPARK_HOME, SPARK_CONF_DIR and PYSPARK_SUBMIT_ARGS, and leave out"
            " spark.jars, spark.driver.extra… and spark.submit.….",
        )
    version = Runtime.current().spark
    if not version.partition(".")[0].isdigit() or int(version.partition(".")[0]) < MIN_SPARK:
        raise EnvironmentFault(
            f"a resident session needs Spark {MIN_SPARK}.0 or newer, not {version}",
            hint="Spark 3.5 has no token for Spark Connect: anybody on this machine could use it.",
        )
    for package in _PACKAGES:
        if find_spec(package) is None:
            raise EnvironmentFault(
                f"Spark Connect needs a package that is not installed: {package}",
                hint="Install it: pip install 'kafkeep[connect]'.",
            )


def _launch(options: SparkOptions, idle_timeout_ms: int) -> SessionRecord:
    """Start the process in a session of its own; return its record once it listens."""
    folder = make_private_folder()
    log = folder / "session.log"
    settings = {
        "master": options.master,
        "conf": dict(options.conf),
        "preload": options.preload,
        "idle_timeout_ms": idle_timeout_ms,
    }
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kafkeep.spark.resident.server"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=_server_environment(os.environ),
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(settings).encode())
    process.stdin.close()
    return _wait_for(process, log)


def _server_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    kept = {name: inherited[name] for name in _ENVIRONMENT if name in inherited}
    if (path := kept.get("PYTHONPATH")) is not None:  # the folder is another there
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in path.split(":"))
    return {**WORKER_MEMORY, **kept}


def _wait_for(process: subprocess.Popen[bytes], log: Path) -> SessionRecord:
    deadline = time.monotonic() + _START_SECONDS
    try:
        while time.monotonic() < deadline:
            record = read_record()
            if record is not None and record.pid == process.pid and record.is_alive():
                return record
            if process.poll() is not None:
                raise EnvironmentFault(
                    f"the resident session did not start: {find_cause(log)}", hint=KEEP_LOG_HINT
                )
            time.sleep(_POLL_SECONDS)
        raise EnvironmentFault(
            f"the resident session was started but not ready within {_START_SECONDS:.0f} s",
            hint=f"The machine may be too busy. {KEEP_LOG_HINT}",
        )
    except BaseException:
        process.terminate()
        raise


def _run_first_job(options: SparkOptions) -> None:
    """Run a job, as a command does: it starts the daemon, which imports what workers need."""
    from kafkeep.spark.resident.connection import open_session  # noqa: PLC0415 - imports pyspark
    from kafkeep.spark.tasks import TaskRunner  # noqa: PLC0415

    claim = claim_session(replace(options, resident=True))
    if claim is None:
        raise EnvironmentFault("the resident session ended as soon as it had started")
    try:
        session = open_session(claim)
        TaskRunner(session, resident=claim).run_first_job()
        session.stop()
    finally:
        claim.release()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let a second ``start`` wait for the first."""
    import fcntl  # noqa: PLC0415 - Windows has none, and no resident session

    make_private_folder()
    with (resident_folder() / "start.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
