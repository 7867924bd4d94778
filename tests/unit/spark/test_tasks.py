"""How work travels to tasks, what they report, and how a job is watched."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaGateway
from tests.support.waiting import PATIENCE_S

from kafkeep.spark.tasks import _rows_of, has_own_properties, watch_job


def classic(gateway: type) -> Any:
    """Return a session with a driver in this process, behind a gateway that nobody started."""
    context = SimpleNamespace(_gateway=gateway.__new__(gateway))
    return SimpleNamespace(_jsparkSession=object(), sparkContext=context)


@pytest.mark.parametrize(
    ("session", "own"),
    [
        (classic(ClientServer), True),
        (classic(JavaGateway), False),
        (SimpleNamespace(), False),
    ],
    ids=["pinned threads", "PYSPARK_PIN_THREAD=false", "Spark Connect"],
)
def test_work_travels_as_a_property_only_where_properties_are_the_threads_own(
    session: Any, own: bool
) -> None:
    assert has_own_properties(session) is own


def test_rows_come_as_they_were_reported() -> None:
    rows = _rows_of(7, [("object", {"text": "ä"}), ("", {}), ("range", {"number": 1})])
    assert rows.to_pylist() == [
        {"bundle": 7, "kind": "object", "body": '{"text":"ä"}'.encode()},
        {"bundle": 7, "kind": "", "body": b"{}"},
        {"bundle": 7, "kind": "range", "body": b'{"number":1}'},
    ]
    rows.validate(full=True)


def test_a_task_without_anything_to_report_has_no_rows() -> None:
    rows = _rows_of(7, [])
    rows.validate(full=True)
    assert rows.num_rows == 0


def test_reporting_does_not_import_pandas() -> None:
    """It takes a worker most of a second, at the begin of every command."""
    program = (
        "import sys\n"
        "from kafkeep.spark.tasks import _rows_of\n"
        "_rows_of(0, [('object', {})])\n"
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
    with watch_job(context, group="g", label="x", pool=None, count=3, on_progress=tell):
        assert telling.wait(PATIENCE_S)
    ended.set()
    assert told == [0, 3]
