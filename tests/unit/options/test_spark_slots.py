"""How many tasks Spark's settings promise, before and while its executors run."""

from __future__ import annotations

import pytest

from kafkeep.options import spark
from kafkeep.options.spark import UNLIMITED_SLOTS, SparkOptions, expected_slots, slots_on_demand

DYNAMIC = "spark.dynamicAllocation.enabled"
MOST = "spark.dynamicAllocation.maxExecutors"
CORES = "spark.executor.cores"
STANDALONE = "spark.master=spark://m:7077"


@pytest.mark.parametrize(
    ("conf", "slots"),
    [
        ({}, 0),
        ({DYNAMIC: "false", MOST: "8"}, 0),
        ({DYNAMIC: "true", MOST: "8"}, 8),
        ({DYNAMIC: "true", MOST: "8", CORES: "4"}, 32),
        ({DYNAMIC: "true", MOST: "8", CORES: "4", "spark.task.cpus": "2"}, 16),
        ({DYNAMIC: "true", MOST: "8", CORES: "4", "spark.cores.max": "10"}, 10),
        ({DYNAMIC: "true", "spark.cores.max": "6"}, 6),
        ({DYNAMIC: "true", MOST: "8", "spark.master": "local[2]"}, 0),
        ({DYNAMIC: "true"}, UNLIMITED_SLOTS),
        ({DYNAMIC: "true", MOST: str((1 << 31) - 1), CORES: "2"}, UNLIMITED_SLOTS),
    ],
)
def test_dynamic_allocation_counts_all_executors_that_it_may_start(
    conf: dict[str, str], slots: int
) -> None:
    assert slots_on_demand(conf) == slots


def test_executors_without_a_setting_are_as_large_as_those_that_run() -> None:
    assert slots_on_demand({DYNAMIC: "true", MOST: "3"}, 4) == 12


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        (["spark.master=local"], 1),
        (["spark.master=local[3]"], 3),
        (["spark.master=local[3,4]"], 3),
        (["spark.master=local[*]"], 7),
        ([STANDALONE], 7),
        ([STANDALONE, "spark.cores.max=12"], 12),
        ([STANDALONE, "spark.cores.max=12", "spark.task.cpus=2"], 6),
        (["spark.master=yarn", "spark.executor.instances=4", f"{CORES}=2"], 8),
        (["spark.master=yarn", "spark.executor.instances=4"], 4),
        ([STANDALONE, f"{DYNAMIC}=true", f"{MOST}=3", f"{CORES}=2"], 6),
    ],
)
def test_a_session_that_has_not_started_is_counted_by_its_settings(
    settings: list[str], slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "usable_cores", lambda: 7)
    assert expected_slots(SparkOptions.load(settings)) == slots
