"""What a connector reports while one of its tasks hangs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkeep.archive.commit import Changes, Commit, Intent
from kafkeep.archive.entry import PartitionId
from kafkeep.connect.jobs.job import Progress
from kafkeep.connect.jobs.sink import SinkProgress

AT_START = {("t", 0): 0, ("t", 1): 0}
READS: Any = SimpleNamespace(stretches=(1,))
READS_NOTHING: Any = SimpleNamespace(stretches=())
INTENT = Intent(ranges=(), options={}, at_ms=1_000)


def snapshot(at_ms: int) -> Any:
    return SimpleNamespace(stables={("t", 0): 5, ("t", 1): 3}, at_ms=at_ms)


def commit(at_ms: int, changes: Changes) -> Commit:
    return Commit(log="c", number=1, previous="", epoch=1, writer="w", at_ms=at_ms, changes=changes)


@pytest.fixture
def sink() -> SinkProgress:
    """A connector whose first cycle began at 1,000 ms."""
    sink = SinkProgress(Progress())
    sink.record_snapshot(snapshot(1_000), AT_START, READS)
    sink.committed(commit(1_001, Changes(intent=INTENT)), AT_START)
    return sink


def test_records_are_due_as_long_as_a_task_hangs_though_other_cycles_run(
    sink: SinkProgress,
) -> None:
    sink.record_snapshot(snapshot(2_000), AT_START, READS_NOTHING, running_since_ms=1_000)
    assert sink.progress.due_since_ms == 1_000
    result = Changes(leader_epochs={PartitionId("t", 1, 1): 3}, intent=INTENT, closes_intent=True)
    sink.committed(commit(3_000, result), {**AT_START, ("t", 1): 3}, running_since_ms=1_000)
    assert sink.progress.due_since_ms == 1_000
    assert sink.progress.commits == 1
    last = Changes(leader_epochs={PartitionId("t", 1, 0): 3}, closes_intent=True)
    sink.committed(commit(4_000, last), {("t", 0): 5, ("t", 1): 3})
    assert sink.progress.due_since_ms is None
    assert sink.progress.commits == 2


def test_a_cycle_that_begins_beside_another_is_no_finished_commit(sink: SinkProgress) -> None:
    second = Changes(intent=INTENT, closes_intent=True)
    sink.committed(commit(2_000, second), AT_START, running_since_ms=1_000)
    assert sink.progress.commits == 0
    assert sink.progress.due_since_ms == 1_000
