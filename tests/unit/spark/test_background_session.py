"""How executors are prepared, as far as no Spark is needed for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkeep.options.spark import SparkOptions
from kafkeep.spark import background_session
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.spark.tasks import TaskRunner


class Runner(TaskRunner):
    """A cluster whose executors come while its first job runs."""

    def __init__(self, before: int, after: int) -> None:
        self.driver: Any = self
        self.slots_now = before
        self.after = after
        self.jobs: list[Sequence[str]] = []

    def run_first_job(
        self,
        first: Callable[[], None] | None = None,
        *,
        label: str = "start",
        preload: Sequence[str] = (),
    ) -> None:
        self.jobs.append(preload)
        self.slots_now = self.after


@pytest.mark.parametrize(("before", "after", "jobs"), [(2, 2, 1), (1, 2, 2), (0, 2, 2), (0, 0, 1)])
def test_executors_that_come_during_the_first_job_are_prepared_by_another_one(
    before: int, after: int, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_session, "await_executors", lambda _driver: None)
    monkeypatch.setattr(background_session, "slots_of_executors", lambda driver: driver.slots_now)
    runner = Runner(before, after)
    options = SparkOptions(master="spark://m:7077", preload=("json",))
    BackgroundSession(options)._prepare_executors(runner)
    assert runner.jobs == [("json",)] * jobs
