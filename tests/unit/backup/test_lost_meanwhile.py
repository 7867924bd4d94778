"""Records that Kafka deletes between the plan and the task that was to read them."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from tests.support.log_writers import writer_of

from kafkeep.archive.commit import Gap, Intent, PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import load_view
from kafkeep.backup.plan import RETENTION, CyclePlan
from kafkeep.backup.running_cycles import RunningCycle
from kafkeep.backup.task import RangeReport
from kafkeep.errors import GapError
from kafkeep.options.backup import BackupOptions
from kafkeep.spark.tasks import TaskRow
from kafkeep.store.memory import MemoryStore

P0 = PartitionId("t", 1, 0)
PLANNED = PlannedRange(partition_id=P0, topic_id="id", range=OffsetRange(10, 40))
LOST = OffsetRange(10, 25)


def lose(intent: Intent) -> RunningCycle:
    """Return a cycle whose task met a log start past its position, and no record."""
    report = RangeReport(number=0, first=10, next=40, finished=True, gone=False, gaps=(LOST,))
    cycle = RunningCycle(intent=intent, plan=None, tasks=1)
    cycle.rows = Future()
    cycle.rows.set_result([TaskRow(0, "range", report.to_json())])
    return cycle


def back_up(store: MemoryStore, on_gap: str) -> None:
    """Plan the range, unless an earlier run has, and have a task lose the beginning of it."""
    log = CommitLog.open(store, "backup", writer=f"who says {on_gap}", now_ms=lambda: 7)
    options = BackupOptions(topics=("t",), on_gap=on_gap)
    writer = writer_of(log, options, slots=1)
    intent = log.state.intent
    if intent is None:
        plan = CyclePlan(
            stretches=(), gaps=(), topics=(), positions={P0: 10}, spans={}, waiting={}, blocked=()
        )
        intent, _weights = writer.intend(plan, (PLANNED,))
    writer.record(intent, writer.reconcile(lose(intent)), None)


def test_on_gap_fail_stops_when_a_task_meets_the_gap_and_another_run_may_record_it() -> None:
    store = MemoryStore()
    for _ in range(2):
        with pytest.raises(GapError, match="t-0: offsets 10 to 24"):
            back_up(store, "fail")
        stopped = load_view(store, "backup")
        assert stopped.positions[P0] == 10 and stopped.gaps == ()
    back_up(store, "record")
    assert load_view(store, "backup").gaps == (Gap(P0, LOST, RETENTION, 7),)
