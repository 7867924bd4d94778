"""The cycles of a backup whose tasks run now, each in a thread of its own. Runs on the driver.

When a cycle has fewer tasks left than run at once, the next one may begin. So the slots that are
free work on other partitions, and one slow task does not hold up everything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from kafkeep.archive.commit import Intent, PlannedRange
from kafkeep.archive.entry import PartitionId
from kafkeep.backup.plan import CyclePlan
from kafkeep.backup.task import BackupBundle, archive_bundle
from kafkeep.spark.tasks import OnProgress, TaskRow

RunTasks = Callable[..., list[TaskRow]]
MOST_CYCLES = 4
"""Cycles that run at the same time, at most: all but the newest are slow."""
_CHECK_S = 0.2
"""How often a pause checks whether it shall end: nothing wakes it when ``stop`` is set."""


@dataclass(eq=False, slots=True, kw_only=True)
class RunningCycle:
    """The part of the open intent that one cycle writes, and the rows of its tasks."""

    intent: Intent
    plan: CyclePlan | None
    """None for an intent that an earlier run left open."""
    tasks: int
    done: int = 0
    """The number of tasks that have ended."""
    rows: Future[list[TaskRow]] = field(init=False)


class RunningCycles:
    """Starts the tasks of cycles and waits for them. Only the job's thread calls it."""

    def __init__(self, run_tasks: RunTasks, on_progress: OnProgress, most: int) -> None:
        """Create it; ``most`` is the number of cycles that may run at the same time."""
        self._run_tasks = run_tasks
        self._on_progress = on_progress
        self._most = most
        self._cycles: list[RunningCycle] = []
        self._changed = threading.Condition()
        self._abandoned = threading.Event()
        self._threads = ThreadPoolExecutor(MOST_CYCLES, thread_name_prefix="cycle")

    def __len__(self) -> int:
        return len(self._cycles)

    @property
    def ranges(self) -> set[PlannedRange]:
        """The ranges of the open intent that are being archived."""
        return {planned for cycle in self._cycles for planned in cycle.intent.ranges}

    @property
    def partitions(self) -> set[PartitionId]:
        """The partitions that are being archived. Each is in one cycle at a time."""
        return {planned.partition_id for planned in self.ranges}

    @property
    def tasks_left(self) -> int:
        """The number of tasks that have not ended."""
        return sum(cycle.tasks - cycle.done for cycle in self._cycles)

    def has_ended(self) -> bool:
        """Return True if the result of a cycle can be taken."""
        return any(cycle.rows.done() for cycle in self._cycles)

    def start(
        self,
        intent: Intent,
        plan: CyclePlan | None,
        bundles: Sequence[BackupBundle],
        description: str,
    ) -> None:
        """Run the tasks of a cycle in the background."""
        cycle = RunningCycle(intent=intent, plan=plan, tasks=len(bundles))
        cycle.rows = self._threads.submit(
            self._run_tasks,
            bundles,
            archive_bundle,
            label="backup",
            description=description,
            on_progress=partial(self._note_progress, cycle),
            abandoned=self._abandoned,
        )
        self._cycles.append(cycle)
        cycle.rows.add_done_callback(self._notify)

    def wait(self, *, slots: int = 0) -> None:
        """Wait until a cycle has ended, or fewer tasks are left than ``slots``."""
        if len(self._cycles) >= self._most:
            slots = 0
        with self._changed:
            self._changed.wait_for(lambda: self.has_ended() or self.tasks_left < slots)

    def pause(self, seconds: float, stop: threading.Event) -> None:
        """Wait until the time is over, ``stop`` is set, or a cycle has ended."""
        if not self._cycles:
            stop.wait(seconds)
            return
        until = time.monotonic() + seconds
        with self._changed:
            while not (self.has_ended() or stop.is_set()) and time.monotonic() < until:
                self._changed.wait(_CHECK_S)

    def take_ended(self) -> list[RunningCycle]:
        """Remove the cycles that have ended, and return them."""
        ended = [cycle for cycle in self._cycles if cycle.rows.done()]
        self._cycles = [cycle for cycle in self._cycles if cycle not in ended]
        return ended

    def abandon(self) -> None:
        """Cancel the tasks of all cycles. Their ranges stay in the open intent."""
        self._abandoned.set()
        for cycle in self._cycles:
            cycle.rows.exception()  # waits; what went wrong does not matter any more
        self._cycles = []
        self._abandoned = threading.Event()

    def close(self) -> None:
        """End the threads, and the tasks that still run."""
        self.abandon()
        self._threads.shutdown(wait=True)

    def _note_progress(self, cycle: RunningCycle, done: int, _count: int) -> None:
        with self._changed:
            cycle.done = max(cycle.done, done)
            self._changed.notify_all()
            total = sum(other.tasks for other in self._cycles)
            left = self.tasks_left
        self._on_progress(total - left, total)

    def _notify(self, _rows: Future[list[TaskRow]]) -> None:
        with self._changed:
            self._changed.notify_all()
