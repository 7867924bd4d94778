"""The daemon of Spark's workers that a command forks from itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.run_kafkeep import members
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

BEGIN = """
import json, os, signal, sys, time
from kafkeep.options.spark import SparkOptions
from kafkeep.spark import jvm

def who(bundle):
    standard = [os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)]
    yield "who", {
        "pid": os.getpid(),
        "daemon": os.getppid(),
        "arena": os.environ.get("MALLOC_ARENA_MAX"),
        "spark": os.environ.get("SPARK_REUSE_WORKER"),
        "driver_only": os.environ.get("OF_THE_DRIVER"),
        "shared": "kafkeep.backup.run" in sys.modules,
        "preloaded": "kafkeep.restore.task" in sys.modules,
        "standard": standard,
    }

options = SparkOptions(preload=("kafkeep.restore.task",), sql=False)
jvm.prelaunch_jvm(options)
os.environ["OF_THE_DRIVER"] = "1"
jvm.fork_workers(["kafkeep.backup.run"])
[(_, started)] = jvm._prelaunched
forked = started.daemon.pid
"""
RUN = f"""{BEGIN}
from kafkeep.spark.background_session import BackgroundSession

with BackgroundSession(options) as session:
    runner = session.session()
    rows = [row.body for row in runner.run_tasks(range(4), who, label="x")]
    print(json.dumps({{"forked": forked, "driver": os.getpid(), "rows": rows}}), flush=True)
    AFTER
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short name: the name of a socket may have a hundred letters."""
    with tempfile.TemporaryDirectory(prefix="kafkeep-") as made:
        yield Path(made)


def start(script: str, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TMPDIR": str(folder), "KAFKEEP_CLASS_ARCHIVE": "off"}
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def ends_whole(process: subprocess.Popen[bytes]) -> None:
    until(lambda: members(process.pid) == [], "the end of all processes")


def test_workers_come_from_the_forked_daemon_with_what_spark_gave_it(folder: Path) -> None:
    process = start(RUN.replace("AFTER", "pass"), folder)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    found = json.loads(output)
    for row in found["rows"]:
        assert row["daemon"] == found["forked"]
        assert row["spark"] == "1" and row["arena"] == "2"
        assert row["driver_only"] is None  # the environment is the one that Spark gave
        assert row["shared"] and row["preloaded"]
        assert row["standard"][0] == os.devnull
        assert all(name.startswith("pipe:") for name in row["standard"][1:])
    ends_whole(process)
    assert list(folder.iterdir()) == []


def test_a_daemon_that_died_is_replaced_by_one_that_spark_starts(folder: Path) -> None:
    after = """
    os.kill(forked, signal.SIGKILL)
    for row in rows:
        try:
            os.kill(row["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass
    again = [row.body["daemon"] for row in runner.run_tasks(range(4), who, label="x")]
    print(json.dumps(again), flush=True)
"""
    process = start(RUN.replace("AFTER", after), folder)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    first, again = (json.loads(line) for line in output.splitlines())
    assert len(again) == 4 and first["forked"] not in again
    ends_whole(process)


@pytest.mark.parametrize("script", [RUN.replace("AFTER", "sys.stdin.read()"), "WAITING"])
def test_nothing_outlives_a_driver_that_is_killed(folder: Path, script: str) -> None:
    waits = f"{BEGIN}\nprint('{{}}', flush=True)\nsys.stdin.read()"
    with start(waits if script == "WAITING" else script, folder) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    ends_whole(process)


def test_a_daemon_that_spark_never_asks_for_ends_with_the_command(folder: Path) -> None:
    process = start(BEGIN, folder)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    ends_whole(process)
    assert list(folder.iterdir()) == []


def test_ctrl_c_ends_a_command_and_all_that_it_started(folder: Path) -> None:
    with start(RUN.replace("AFTER", "sys.stdin.read()"), folder) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        process.wait(PATIENCE_S)
    ends_whole(process)
    assert list(folder.iterdir()) == []
