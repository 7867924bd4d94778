"""How work travels to tasks, what they report, and how a job is watched."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

from tests.support.waiting import PATIENCE_S

from kafkeep.spark.frame_tasks import rows_as_arrow
from kafkeep.spark.tasks import watch_job


def test_rows_come_as_they_were_reported() -> None:
    told = [(7, "object", '{"text":"ä"}'.encode()), (7, "", b"{}"), (8, "range", b'{"number":1}')]
    rows = rows_as_arrow(told)
    assert [(row["bundle"], row["kind"], row["body"]) for row in rows.to_pylist()] == told
    rows.validate(full=True)


def test_a_task_without_anything_to_report_has_no_rows() -> None:
    rows = rows_as_arrow([])
    rows.validate(full=True)
    assert rows.num_rows == 0


def test_reporting_does_not_import_pandas() -> None:
    """It takes a worker most of a second, at the begin of every command."""
    program = (
        "import sys\n"
        "from kafkeep.spark.frame_tasks import rows_as_arrow\n"
        "rows_as_arrow([(0, 'object', b'{}')])\n"
        "print('pandas' in sys.modules)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "False"


class Context:
    """Spark's context, of which no job is known."""

    def getLocalProperty(self, _key: str) -> None:
        return None

    def setLocalProperty(self, _key: str, _value: str | None) -> None:
        return None

    def setJobGroup(self, _group: str, _label: str, **_flags: bool) -> None:
        return None

    def cancelJobGroup(self, _group: str) -> None:
        raise AssertionError("nothing cancels the job")

    def statusTracker(self) -> Context:
        return self

    def getJobIdsForGroup(self, _group: str) -> list[int]:
        return []


def test_no_progress_is_reported_after_the_end_of_a_job() -> None:
    """Whoever asked Spark is still about to tell what was, when the job ends."""
    telling, ended = threading.Event(), threading.Event()
    told: list[int] = []

    def tell(done: int, _total: int) -> None:
        if done == 0:
            telling.set()
            ended.wait(0.2)
        told.append(done)

    context: Any = Context()
    with watch_job(context, group="g", description="x", pool=None, count=3, on_progress=tell):
        assert telling.wait(PATIENCE_S)
    ended.set()
    assert told == [0, 3]
