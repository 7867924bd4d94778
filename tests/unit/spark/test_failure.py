"""Why Spark failed, from its exception and its log, and where that log is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkeep.errors import EnvironmentFault, KafkeepError, TransientError
from kafkeep.spark.failure import (
    LOG_VARIABLE,
    SparkLog,
    explain_failure,
    find_cause,
    interruption,
    named_log,
)

WALL = """An error occurred while calling o88.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
{error}
\tat org.apache.spark.api.python.BasePythonRunner
Driver stacktrace:
"""


def explain(error: str) -> KafkeepError:
    return explain_failure(RuntimeError(WALL.format(error=error)), "backup")


def test_transient_errors_stay_transient() -> None:
    found = explain("kafkeep.errors.TransientError: the broker is away")
    assert isinstance(found, TransientError)
    assert found.message == "the broker is away"


def test_other_errors_are_named() -> None:
    assert explain("KeyError: 'x'").message == "a task of backup failed: KeyError: 'x'"
    assert explain("MemoryError").message == "a task of backup failed: MemoryError: no message"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("ModuleNotFoundError: No module named 'kafkeep'", "No module named 'kafkeep'"),
        ("/usr/bin/python3: No module named kafkeep", "No module named kafkeep"),
        (
            "  /usr/bin/python3: Error while finding module specification for"
            " 'kafkeep.spark.worker_daemon' (ModuleNotFoundError: No module named 'kafkeep')",
            "No module named 'kafkeep'",
        ),
        (
            "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has"
            " different version: 3.9",
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9",
        ),
    ],
)
def test_executors_without_this_kafkeep_are_a_fault_of_the_environment(
    error: str, why: str
) -> None:
    found = explain(error)
    assert isinstance(found, EnvironmentFault)
    assert found.message == f"the Python of Spark's executors cannot run backup: {why}"
    assert "docs/guides/spark-clusters.md" in str(found.hint)


DAEMON = """
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
org.apache.spark.SparkException:
Error from python worker:
  Traceback (most recent call last):
    File "<frozen runpy>", line 198, in _run_module_as_main
    File "worker_daemon.py", line 20, in <module>
      from kafkeep.kafka.admin.admin import Admin
  ImportError: libz.so.1: cannot open shared object file
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
java.io.EOFException
"""


def test_what_keeps_the_daemon_of_workers_from_starting_is_named() -> None:
    found = explain_failure(RuntimeError(DAEMON), "start")
    reason = "ImportError: libz.so.1: cannot open shared object file"
    assert found.message == f"a task of start failed: {reason}"


def test_lost_workers_are_transient() -> None:
    lost = "SparkException: Python worker exited unexpectedly (crashed)"
    assert isinstance(explain_failure(RuntimeError(lost), "backup"), TransientError)


def test_anything_else_is_one_line() -> None:
    found = explain_failure(RuntimeError("first\nsecond"), "backup")
    assert found.message == "backup failed in Spark: first"


def test_an_interrupt_is_found_behind_the_gateways_error() -> None:
    interrupt = KeyboardInterrupt()
    try:
        try:
            raise interrupt
        finally:
            raise RuntimeError("Answer from Java side is empty")
    except RuntimeError as error:
        assert interruption(error) is interrupt
    assert interruption(RuntimeError("Answer from Java side is empty")) is None


NOISE = """\
WARNING: Using incubator modules: jdk.incubator.vector
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
"""
TRACE = "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)\n\t... 20 more\n\n"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "2026-11-18 03:29:39 ERROR StandaloneSchedulerBackend: Application has been killed."
            " Reason: All masters are unresponsive! Giving up.",
            "Application has been killed. Reason: All masters are unresponsive! Giving up.",
        ),
        (
            "2026-11-18 03:28:14 ERROR Inbox: Ignoring error\norg.apache.spark.SparkException:"
            " Exiting due to error from cluster scheduler: Master removed our application: FAILED",
            "SparkException: Exiting due to error from cluster scheduler:"
            " Master removed our application: FAILED",
        ),
        (
            'Exception in thread "main" org.apache.spark.SparkException: no HADOOP_CONF_DIR',
            "SparkException: no HADOOP_CONF_DIR",
        ),
        ("Caused by: java.net.ConnectException: refused", "ConnectException: refused"),
        ("", "its log is empty"),
    ],
)
def test_the_cause_is_the_last_line_that_says_why(said: str, cause: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{NOISE}{said}\n{TRACE}")
    assert find_cause(log) == cause
    assert find_cause(tmp_path / "none") == "its log is empty"


def test_a_log_that_was_named_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG_VARIABLE, str(tmp_path / "log"))
    assert SparkLog.create() == SparkLog(tmp_path / "log", True)
    monkeypatch.setenv(LOG_VARIABLE, str(tmp_path / "no" / "log"))
    with pytest.raises(EnvironmentFault, match=LOG_VARIABLE):
        named_log()


def test_a_temporary_log_is_kept_once_a_message_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LOG_VARIABLE, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log, other = SparkLog.create(), SparkLog.create()
    assert str(log.path) in log.keep()
    log._remove()
    other._remove()
    assert list(tmp_path.iterdir()) == [log.path]
