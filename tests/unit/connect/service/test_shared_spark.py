"""The one session of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkeep.connect.service.shared_spark import SharedSpark
from kafkeep.errors import EnvironmentFault, TransientError
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.jvm import launch_jvm


class Door:
    """A door to nothing: jobs return their bundles, until its JVM is said to be dead."""

    made = 0

    options: SparkOptions

    def __init__(self, options: SparkOptions) -> None:
        Door.made += 1
        Door.options = options
        self.is_dead = False

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def session(self) -> Door:
        return self

    def is_alive(self, patience_s: float) -> bool:
        return not self.is_dead

    def run_tasks(self, bundles: list[Any], task: Any, **_: object) -> list[Any]:
        if "refuse" in bundles:
            self.is_dead = True
            raise EnvironmentFault("Spark did not start: no master", hint="Look at its log.")
        if "die" in bundles:
            self.is_dead = True
            raise ConnectionError("the JVM is gone")
        return bundles


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> SharedSpark:
    monkeypatch.setattr("kafkeep.spark.background_session.BackgroundSession", Door)
    Door.made = 0
    return SharedSpark(SparkOptions())


def run(spark: SharedSpark, *bundles: str) -> list[Any]:
    return spark.run_tasks(bundles, print, label="a job")


def test_a_session_is_started_by_the_first_job_and_kept(spark: SharedSpark) -> None:
    assert run(spark) == []
    assert Door.made == 0
    assert list(run(spark, "a")) + list(run(spark, "b")) == ["a", "b"]
    assert Door.made == 1


def test_a_session_whose_jvm_died_is_started_anew(spark: SharedSpark) -> None:
    with pytest.raises(TransientError, match="a job: Spark's JVM has died"):
        run(spark, "die")
    assert list(run(spark, "a")) == ["a"]
    assert Door.made == 2


def test_spark_of_a_service_is_not_niced(
    spark: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At niceness 10 it starved on a busy machine, while connectors were shown as running."""
    commands: list[list[str]] = []

    class Stopped(Exception):
        pass

    def popen(command: list[str], **_: object) -> None:
        commands.append(command)
        raise Stopped

    monkeypatch.setattr("kafkeep.spark.jvm.subprocess.Popen", popen)
    run(spark, "a")
    with pytest.raises(Stopped):
        launch_jvm(Door.options)
    assert Path(commands[0][0]).name == "java"
    assert "nice" not in commands[0]


def test_an_unreachable_cluster_is_tried_again_and_its_reason_reported(
    spark: SharedSpark,
) -> None:
    with pytest.raises(TransientError, match="a job: Spark did not start: no master") as caught:
        run(spark, "refuse")
    assert caught.value.hint == "Look at its log."
    assert list(run(spark, "a")) == ["a"]
    assert Door.made == 2
