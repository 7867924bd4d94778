"""A JVM of ours that starts, and one that does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import SparkOptions
from kafkeep.spark import jvm
from kafkeep.spark.jvm import Jvm, can_launch, can_start_lean


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Jvm]:
    (tmp_path / "log").write_text("Error: no room\n")
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield Jvm(process, tmp_path, tmp_path / "log", None)
    process.kill()
    process.communicate(timeout=PATIENCE_S)


def test_a_slow_jvm_is_not_reported_as_failed(
    starting: Jvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "_START_SECONDS", 0.0)
    with pytest.raises(EnvironmentFault, match="was started but not ready within 0 s"):
        starting.wait_ready()


def test_a_jvm_that_ended_is_reported_with_its_cause(starting: Jvm) -> None:
    starting.process.kill()
    starting.process.wait(PATIENCE_S)
    with pytest.raises(EnvironmentFault, match="did not start: Error: no room"):
        starting.wait_ready()


def test_a_jvm_without_sql_leaves_known_jars_out_and_keeps_unknown_ones(tmp_path: Path) -> None:
    core = ["hadoop-client-api-3.5.0.jar", "new-in-5.0.jar", "spark-core_2.13-4.2.0.jar"]
    beside = ["hive-exec-2.3.10-core.jar", "spark-catalyst_2.13-4.2.0.jar", "spark-sql_2.13.jar"]
    (tmp_path / "jars").mkdir()
    for name in (*core, *beside):
        (tmp_path / "jars" / name).touch()

    def names(*, core_only: bool) -> list[str]:
        return [Path(jar).name for jar in jvm._class_path(tmp_path, core_only=core_only)]

    assert names(core_only=True) == core
    assert names(core_only=False) == sorted([*core, *beside])


STANDALONE = "spark.master=spark://m:7077"


@pytest.mark.parametrize(
    ("settings", "variable", "launches", "is_lean"),
    [
        ([], None, True, True),
        (["spark.jars=a.jar"], None, False, False),
        ([], "SPARK_CONF_DIR", False, False),
        ([STANDALONE], None, True, False),
        ([STANDALONE, "spark.executor.memory=2g"], None, True, False),
        ([STANDALONE, "spark.archives=env.tar.gz"], None, False, False),
        ([STANDALONE, "spark.submit.pyFiles=more.py"], None, False, False),
        ([STANDALONE], "HADOOP_CONF_DIR", False, False),
        ([STANDALONE], "SPARK_HOME", False, False),
        (["spark.master=yarn"], None, False, False),
        (["spark.remote=sc://h:15002"], None, False, False),
    ],
)
def test_what_only_spark_submit_can_arrange_is_left_to_it(
    settings: list[str],
    variable: str | None,
    launches: bool,
    is_lean: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (*jvm._NEEDS_SUBMIT_ENV, *jvm._OF_CLUSTERS_ENV, "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "/opt/something")
    options = SparkOptions.load(settings)
    assert (can_launch(options), can_start_lean(options)) == (launches, is_lean)


def test_a_pyspark_with_a_configuration_of_its_own_is_started_by_spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*jvm._NEEDS_SUBMIT_ENV, *jvm._OF_CLUSTERS_ENV):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jvm, "spark_home", lambda: tmp_path)
    options = SparkOptions.load([STANDALONE])
    assert can_launch(options)
    (tmp_path / "conf").mkdir()
    assert not can_launch(options)
