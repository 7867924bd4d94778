"""How a session is started, as far as no Spark is needed for it."""

from __future__ import annotations

import os
import sys

import pytest
from pyspark import SparkConf

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


DAEMON = "spark.python.daemon.module"


@pytest.mark.parametrize(
    ("given", "defaults", "daemon"),
    [
        ({}, {}, "kafkeep.spark.worker_daemon"),
        ({DAEMON: "my.daemon"}, {}, "my.daemon"),
        ({}, {DAEMON: "my.daemon"}, None),
        ({"spark.submit.pyFiles": "kafkeep.zip"}, {}, None),
        ({}, {"spark.submit.pyFiles": "kafkeep.zip"}, None),
    ],
)
def test_workers_on_a_cluster_preload_unless_the_user_has_other_settings(
    given: dict[str, str],
    defaults: dict[str, str],
    daemon: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conf = SparkConf(loadDefaults=False).setAll(list(given.items()))
    known = SparkConf(loadDefaults=False).setAll(list(defaults.items()))
    monkeypatch.setattr(session, "SparkConf", lambda: known)
    session._add_missing(conf, {DAEMON: "kafkeep.spark.worker_daemon"})
    assert conf.get(DAEMON) == daemon
