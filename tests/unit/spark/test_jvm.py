"""A JVM of ours that starts, and one that does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep.errors import EnvironmentFault
from kafkeep.spark import jvm
from kafkeep.spark.jvm import Jvm


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
