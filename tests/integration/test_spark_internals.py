"""Without PySpark's private names everything works in the public way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkeep.spark.internals import classic
from kafkeep.spark.session import has_stopped
from kafkeep.spark.tasks import TaskRunner

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="session")]


def double(bundle: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "doubled", {"value": 2 * bundle}


def test_tasks_run_when_pyspark_lacks_its_private_names(
    open_spark: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classic, "RDD", None)  # so its private constructor fails
    rows = open_spark.run_tasks(range(5), double, label="test")
    assert [row.body["value"] for row in rows] == [0, 2, 4, 6, 8]


def test_a_context_is_found_and_counts_as_running_when_pyspark_lacks_its_private_names(
    open_spark: TaskRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = open_spark.session.sparkContext
    monkeypatch.setattr(classic, "SparkContext", object)
    assert classic.active_context() is context
    with monkeypatch.context() as patch:
        patch.delattr(context, "_jsc")
        assert not has_stopped(context)
