"""How a session is started, as far as no Spark is needed for it."""

from __future__ import annotations

import os
import sys

import pytest

from kafkeep.options.spark import SparkOptions
from kafkeep.spark import session


@pytest.mark.parametrize(
    ("settings", "variable", "python"),
    [
        ([], None, sys.executable),
        ([], "/usr/bin/python3", "/usr/bin/python3"),
        (["spark.pyspark.python=./env/bin/python"], None, "./env/bin/python"),
        (["spark.pyspark.python=./env/bin/python"], "/usr/bin/python3", "./env/bin/python"),
    ],
)
def test_executors_run_the_python_of_the_settings_then_that_of_the_environment(
    settings: list[str], variable: str | None, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def start(*_: object) -> object:
        found.append(os.environ["PYSPARK_PYTHON"])
        return object()

    monkeypatch.setenv("PYSPARK_PYTHON", variable or "")
    monkeypatch.setattr(session, "active_session", lambda: None)
    monkeypatch.setattr(session, "_start", start)
    monkeypatch.setattr(session.atexit, "register", lambda *_: None)
    monkeypatch.setattr(session._Owned, "session", None)
    session.start_session(SparkOptions.load(["spark.master=spark://m:7077", *settings]))
    assert found == [python]
