from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkeep.spark.jvm import spark_home

pytestmark = pytest.mark.integration

SCRIPT = """
import pathlib
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.session import start_session, stop_session
from kafkeep.spark.tasks import TaskRunner

def task(bundle):
    yield "done", {"bundle": bundle}

started = start_session(SparkOptions.load(["spark.kafkeep.test=1"]))
assert start_session() is started
runner = TaskRunner(started)
runner.run_first_job()
assert len(runner.run_tasks(range(5), task, label="x")) == 5
session = runner.session
assert session.conf.get("spark.kafkeep.test") == "1"
context = session.sparkContext
assert context.master.startswith("local[") and context.master.endswith(",4]"), context.master
assert context.uiWebUrl is None
assert context.getConf().get("spark.driver.bindAddress") == "127.0.0.1"
session.sql("select 1").collect()
stop_session(started)
again = start_session()
assert len(TaskRunner(again).run_tasks(range(2), task, label="x")) == 2
print("fine")
"""


def run(script: str, folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    work, temporary = folder / "work", folder / "tmp"
    work.mkdir()
    temporary.mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "KAFKEEP_CLASS_ARCHIVE": "off",
        **extra,
    }
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.core(suite="session")
def test_session_starts_quietly_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run(SCRIPT, tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("fine\n", "", 0)
    assert list((tmp_path / "work").iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.core(suite="session")
def test_a_session_of_the_callers_is_used_and_not_stopped(tmp_path: Path) -> None:
    script = """
import gc
from pyspark.sql import SparkSession
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.background_session import BackgroundSession
mine = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with BackgroundSession(SparkOptions.load()) as door:
    assert door.session().slots() == 1
    frozen = gc.get_freeze_count()
    assert frozen > 10_000  # so much is no garbage, and not walked through while data is moved
    loop = []
    loop.append(loop)
    assert door.session().slots() == 1
    assert gc.get_freeze_count() <= frozen  # what came later is not kept for good
assert gc.get_freeze_count() == 0
assert mine.range(3).count() == 3
print("fine")
"""
    done = run(script, tmp_path, PYSPARK_PYTHON=sys.executable)
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


@pytest.mark.core(suite="session")
def test_pyspark_starts_its_jvm_when_the_lean_one_does_not(tmp_path: Path) -> None:
    script = """
from kafkeep.options.spark import SparkOptions
from kafkeep.spark import jvm
from kafkeep.spark.background_session import BackgroundSession

def task(bundle):
    yield "done", {"bundle": bundle}

jvm.GATEWAY_CLASS = "org.apache.spark.NoSuchGateway"
with BackgroundSession(SparkOptions.load()) as session:
    assert len(session.session().run_tasks(range(5), task, label="x")) == 5
    assert session.is_alive()
print("fine")
"""
    done = run(script, tmp_path)
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr


def test_a_jvm_that_does_not_start_is_reported_in_one_sentence(tmp_path: Path) -> None:
    script = """
from kafkeep.options.spark import SparkOptions
from kafkeep.errors import EnvironmentFault
from kafkeep.spark.session import start_session
try:
    start_session(SparkOptions.load(["spark.driver.memory=1k"]))
except EnvironmentFault as error:
    print(error.message)
"""
    done = run(script, tmp_path)
    assert done.stderr == ""
    assert done.stdout.startswith("Spark's JVM did not start: ")
    assert len(done.stdout.splitlines()) == 1


def test_a_master_that_drops_the_application_is_reported_with_its_cause_and_a_log(
    tmp_path: Path,
) -> None:
    """It said "An error occurred while calling None" and left no log, KAFKEEP_SPARK_LOG or not."""
    log = tmp_path / "spark.log"
    settings = [
        "spark.master=local-cluster[1,1,512]",  # a master and a worker in the driver's JVM
        "spark.executor.memory=512m",
        "spark.executor.extraJavaOptions=-agentlib:there-is-none",
        "spark.deploy.maxExecutorRetries=1",
    ]
    script = f"""
from kafkeep.options.spark import SparkOptions
from kafkeep.errors import KafkeepError
from kafkeep.spark.background_session import BackgroundSession
with BackgroundSession(SparkOptions.load({settings!r})) as door:
    try:
        door.session()
    except KafkeepError as error:
        print(error.exit_code, error.message)
        print(error.hint)
    assert not door.is_alive()  # a service starts another
"""
    home = tmp_path / "spark"  # such a worker writes to SPARK_HOME/work
    home.mkdir()
    for part in spark_home().iterdir():
        (home / part.name).symlink_to(part)
    done = run(script, tmp_path, KAFKEEP_SPARK_LOG=str(log), SPARK_HOME=str(home))
    told, hint = done.stdout.splitlines()
    assert re.match("1 Spark (did not start with the master local-cluster|ended the appl)", told)
    assert "Master removed our application: FAILED" in told
    assert hint == f"Spark's log is {log}."
    assert "Master removed our application" in log.read_text()
    assert done.stderr == ""


@pytest.mark.core(suite="session")
def test_a_job_whose_application_spark_ends_says_so_and_the_next_session_works(
    tmp_path: Path,
) -> None:
    script = """
import threading, time
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.failure import ApplicationEndedError

def wait(path):
    open(path, "w").close()
    time.sleep(600)
    yield "never", {}

def drop(session):
    while not os.path.exists("runs"):
        time.sleep(0.02)
    session.sparkContext._jsc.sc().stop()

import os
options = SparkOptions.load(["spark.master=local[1,1]"])
with BackgroundSession(options) as door:
    opened = door.session()
    threading.Thread(target=drop, args=[opened.session]).start()
    try:
        opened.run_tasks([os.path.abspath("runs")], wait, label="a job")
    except ApplicationEndedError as error:
        print(error.message.partition(":")[0])
    assert not door.is_alive()
with BackgroundSession(options) as door:
    assert door.session().slots() == 1
    assert door.is_alive()
print("fine")
"""
    done = run(script, tmp_path)
    assert done.stdout == "Spark ended the application of a job\nfine\n", done.stderr


def test_what_tasks_do_is_in_no_event_log(tmp_path: Path) -> None:
    """Bundles hold secrets of Kafka and the store, and a caller's session may log its jobs."""
    script = f"""
from pyspark.sql import SparkSession
from kafkeep.spark.tasks import TaskRunner
settings = {{
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": "file://{tmp_path}/events",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}}
mine = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
def task(bundle):
    yield "ok", {{"was": bundle}}

rows = TaskRunner(mine).run_tasks(["sesame"], task, label="x")
assert [row.body for row in rows] == [{{"was": "sesame"}}]
mine.stop()
print("fine")
"""
    (tmp_path / "events").mkdir()
    done = run(script, tmp_path, PYSPARK_PYTHON=sys.executable)
    assert (done.stdout, done.returncode) == ("fine\n", 0), done.stderr
    (events,) = (tmp_path / "events").iterdir()
    logged = events.read_text()
    assert "SparkListenerJobStart" in logged
    assert not any(
        base64.b64encode(b"sesame"[cut : cut + 3]).decode() in logged for cut in range(3)
    )
    assert "sesame" not in logged
