"""What executors report, as the findings of the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkeep.check_result import Check, CheckStatus
from kafkeep.maintenance import check_executors
from kafkeep.maintenance.check_executors import (
    ExecutorProbe,
    Versions,
    compare_versions,
    merge_checks,
    run_probe,
)
from kafkeep.spark.tasks import TaskRow, TaskRunner

HERE = Versions(python="3.11.7", pyspark="4.2.0", kafkeep="1.2.3")
GOOD = Check(CheckStatus.PASS, "executor kafka", "cluster x")


class Runner(TaskRunner):
    """Two executors, of which the second answers from a round on."""

    def __init__(self, second_from: int) -> None:
        self.rounds = 0
        self.second_from = second_from

    def slots(self) -> int:
        return 2

    def count_executors(self) -> int:
        return 2

    def run_tasks(self, bundles: Sequence[Any], *_: Any, **_options: Any) -> list[TaskRow]:
        self.rounds += 1
        hosts = ["a", "b" if self.rounds >= self.second_from else "a"]
        bodies = [{"host": host, "executor": f"{host}:1", **GOOD.to_json()} for host in hosts]
        return [TaskRow(number, "check", body) for number, body in enumerate(bodies)]


@pytest.mark.parametrize("second_from", [1, 3])
def test_probes_run_again_until_every_executor_has_run_one(second_from: int) -> None:
    runner = Runner(second_from)
    (check,) = check_executors.check_executors(runner, ExecutorProbe(driver=HERE))
    assert (check.verdict, check.what) == (CheckStatus.PASS, "cluster x, on a, b")
    assert runner.rounds == second_from


def test_an_executor_that_runs_no_probe_is_reported() -> None:
    *_, check = check_executors.check_executors(Runner(99), ExecutorProbe(driver=HERE))
    assert (check.verdict, check.subject) == (CheckStatus.WARN, "executors")
    assert check.what.startswith("1 of 2 ran none")


@pytest.mark.parametrize(
    ("other", "subject", "verdict"),
    [
        ({}, "", "pass"),
        ({"python": "3.11.9"}, "executor python", "warn"),
        ({"python": "3.12.7"}, "executor python", "fail"),
        ({"pyspark": "4.2.1"}, "executor pyspark", "warn"),
        ({"pyspark": "4.1.0"}, "executor pyspark", "fail"),
        ({"kafkeep": "1.2.4"}, "executor kafkeep", "fail"),
    ],
)
def test_versions_that_differ_are_named_with_the_drivers(
    other: dict[str, str], subject: str, verdict: str
) -> None:
    checks = {check.subject: check for check in compare_versions(HERE, replace(HERE, **other))}
    assert len(checks) == 3
    for name, check in checks.items():
        expected = verdict if name == subject else "pass"
        assert check.verdict is CheckStatus(expected), check
        assert (check.hint is None) == (expected == "pass")
        assert check.exit_code == (1 if expected == "fail" else 0)


def test_executors_that_report_the_same_are_one_finding() -> None:
    good = Check(CheckStatus.PASS, "executor kafka", "cluster x")
    bad = Check(CheckStatus.FAIL, "executor kafka", "no answer", "Open the network.", 1)
    other = Check(CheckStatus.PASS, "executor python", "3.11.7")
    found = list(merge_checks([("b", good), ("b", other), ("a", good), ("a", other), ("c", bad)]))
    assert [(check.subject, check.what, check.exit_code) for check in found] == [
        ("executor kafka", "cluster x, on a, b", 0),
        ("executor kafka", "no answer, on c", 1),
        ("executor python", "3.11.7, on a, b", 0),
    ]


def test_an_archive_that_an_executor_does_not_have_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_executors, "compile_kernels", lambda: None)
    probe = ExecutorProbe(driver=Versions.here(), archive=str(tmp_path / "elsewhere"))
    found = {body["subject"]: body for _, body in run_probe(probe)}
    assert found["executor store"]["verdict"] == "fail"
    assert found["executor store"]["exit_code"] == 10
    assert {body["verdict"] for name, body in found.items() if name != "executor store"} == {"pass"}


def test_loops_that_cannot_be_compiled_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("no locator available")

    monkeypatch.setattr(check_executors, "compile_kernels", refuse)
    found = {body["subject"]: body for _, body in run_probe(ExecutorProbe(driver=HERE))}
    assert found["executor kernels"]["verdict"] == "fail"
    assert "no locator" in found["executor kernels"]["what"]


@pytest.mark.parametrize(("clock", "verdict"), [("monotonic", "pass"), ("process_time", "warn")])
def test_loops_are_slow_when_compiling_them_takes_processor_time(
    clock: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_for_long() -> None:
        later = getattr(check_executors.time, clock)() + check_executors.SLOW_KERNELS_S + 1
        monkeypatch.setattr(check_executors.time, clock, lambda: later)

    monkeypatch.setattr(check_executors, "compile_kernels", compile_for_long)
    found = {body["subject"]: body for _, body in run_probe(ExecutorProbe(driver=HERE))}
    assert found["executor kernels"]["verdict"] == verdict
