from __future__ import annotations

import pytest

from kafkeep.config.spark import SparkOptions, default_master
from kafkeep.errors import UsageError


def test_the_default_master_tries_a_task_four_times() -> None:
    assert default_master(3) == "local[3,4]"


def test_settings_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://one")
    assert SparkOptions.load().remote == "sc://one"
    options = SparkOptions.load(["spark.remote=sc://two", "spark.x=a=b"])
    assert (options.remote, dict(options.conf)) == ("sc://two", {"spark.x": "a=b"})
    assert not options.is_local


def test_what_is_no_setting_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'park\.x'"):
        SparkOptions.load(["park.x=1"])
    with pytest.raises(UsageError):
        SparkOptions.load(["spark.x"])


def test_values_stay_out_of_sight() -> None:
    assert "hush" not in repr(SparkOptions.load(["spark.some.password=hush"]))
