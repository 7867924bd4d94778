from __future__ import annotations

import pytest

from kafkeep.errors import UsageError
from kafkeep.options.spark import SparkOptions, default_master


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


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[2]", "local[*]", "local[*,4]", "local[2, 4]", "local-cluster[2,1,1024]"),
        *("spark://h:7077", "spark://a.b-c:7077,d:7077", "spark://[::1]:7077", "yarn"),
        *("k8s://https://h:6443", "k8s://h:6443"),
    ],
)
def test_every_form_of_master_is_taken(master: str) -> None:
    assert SparkOptions.load([f"spark.master={master}"]).master == master


@pytest.mark.parametrize(
    "master",
    [
        *("sprk://x", "spark://x", "spark://x:port", "spark://h:1,", "k8s://", "mesos://h:5050"),
        *("local[0]", "local[x]", "local[2", "yarn-client", "Local"),
    ],
)
def test_a_master_that_spark_does_not_know_is_refused_before_a_jvm_starts(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``sprk://x`` was answered with "Java gateway process exited", after seconds."""
    monkeypatch.setattr("subprocess.Popen", None)
    with pytest.raises(UsageError, match="is not a master that Spark supports") as caught:
        SparkOptions.load([f"spark.master={master}"])
    assert caught.value.exit_code == 2
    assert "spark://host:7077" in (caught.value.hint or "")


@pytest.mark.parametrize("remote", ["local", "http://h", "sc://", "sc://h:x;token=hush"])
def test_a_remote_that_is_no_spark_connect_server_is_refused(remote: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a Spark Connect server") as caught:
        SparkOptions.load([f"spark.remote={remote}"])
    assert "hush" not in str(caught.value)


def test_a_master_that_is_given_wins_over_the_environments_remote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://one:15002/;token=x")
    assert SparkOptions.load().remote == "sc://one:15002/;token=x"
    assert SparkOptions.load(["spark.master=local[1]"]).remote is None
    with pytest.raises(UsageError, match="exclude each other"):
        SparkOptions.load(["spark.master=local[1]", "spark.remote=sc://two"])
