"""What is told of a job while it runs, in the order in which it came about."""

from __future__ import annotations

import threading
from typing import Any

from tests.support.waiting import PATIENCE_S

from kafkeep.spark.job_progress import watch_job


class Context:
    """Spark's context, of which no job is known."""

    def getLocalProperty(self, _key: str) -> None:
        return None

    def setLocalProperty(self, _key: str, _value: str | None) -> None:
        return None

    def setJobGroup(self, _group: str, _label: str, **_flags: bool) -> None:
        return None

    def statusTracker(self) -> Context:
        return self

    def getJobIdsForGroup(self, _group: str) -> list[int]:
        return []


def test_nothing_is_told_of_a_job_after_its_end() -> None:
    """Whoever asked Spark is still about to tell what was, when the job ends."""
    telling, ended = threading.Event(), threading.Event()
    told: list[int] = []

    def tell(done: int, _total: int) -> None:
        if done == 0:
            telling.set()
            ended.wait(0.2)
        told.append(done)

    context: Any = Context()
    with watch_job(context, group="g", label="x", pool=None, count=3, on_progress=tell):
        assert telling.wait(PATIENCE_S)
    ended.set()
    assert told == [0, 3]
