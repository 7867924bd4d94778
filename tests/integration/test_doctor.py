"""The doctor, with Spark: the one check that other tests leave out, for it takes its time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.run_kafkeep import Driver

pytestmark = pytest.mark.integration


def test_doctor_starts_spark_and_runs_a_job(tmp_path: Path) -> None:
    doctor = Driver(tmp_path, "doctor", "--output", "json", "--spark-conf", "spark.master=local[3]")
    found = doctor.wait().expect(0).json
    doctor.wait_for_group()
    (spark,) = [check for check in found["checks"] if check["subject"] == "spark"]
    assert spark["verdict"] == "pass", spark
    assert re.search(r"ran its first job after [\d.]+ s; 3 tasks at a time", spark["what"])


def test_doctor_fails_when_spark_does_not_start(tmp_path: Path) -> None:
    wrong = ("--spark-conf", "spark.driver.memory=none")
    ended = Driver(tmp_path, "doctor", "--output", "json", *wrong).wait().expect(1)
    (spark,) = [check for check in ended.json["checks"] if check["subject"] == "spark"]
    assert spark["verdict"] == "fail" and "Spark's JVM did not start" in spark["what"], spark
