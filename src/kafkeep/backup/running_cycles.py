"""The cycles of a backup whose tasks run now, each in a thread of its own. Runs on the driver.

When a cycle has fewer tasks left than run at once, the next one may begin. So the slots that are
free work on other partitions, and one slow task does not hold up everything.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_futures
from dataclasses import dataclass, field
from functools import partial

from kafkeep.archive.commit import Intent, PlannedRange
from kafkeep.archive.entry import PartitionId
from kafkeep.backup.plan import CyclePlan
from kafkeep.backup.task import BackupBundle, archive_bundle
from kafkeep.spark.tasks import OnProgress, TaskRow

RunTasks = Callable[..., list[TaskRow]]
MOST_CYCLES = 4
"""The largest number of cycles that run at the same time."""
OVERLAP_AFTER_S = 2.0
"""A cycle that is quicker is not overlapped: busy jobs would make more and smaller cycles."""
ABANDON_S = 10.0
"""How long cancelled tasks may take to end. Later they do no harm: their objects are adopted."""
_CHECK_S = 0.2
"""How often a pause checks whether to end: nothing wakes it when ``stop`` is set."""
logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class RunningCycle:
    """The part of the open intent that one cycle writes, and the rows of its tasks."""

    intent: Intent
    plan: CyclePlan | None
    """None for an intent that an earlier run left open."""
    tasks: int
    done: int = 0
    """The number of tasks that have ended."""
    began: float = field(default_factory=time.monotonic)
    rows: Future[list[TaskRow]] = field(default_factory=Future)


class RunningCycles:
    """Starts the tasks of cycles and waits for them. One thread calls its public methods."""

    def __init__(self, run_tasks: RunTasks, on_progress: OnProgress | None, most: int) -> None:
        """Create it; ``most`` is the number of cycles that may run at the same time."""
        self._run_tasks = run_tasks
        self._on_progress = on_progress
        self._most = most
        self._cycles: list[RunningCycle] = []
        self._changed = threading.Condition()
        self._abandoned = threading.Event()

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

    @property
    def since_ms(self) -> int | None:
        """When the oldest cycle began, by the clock of its intent; None if none runs."""
        return min((cycle.intent.at_ms for cycle in self._cycles), default=None)

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
        is_watched = self._on_progress is not None or len(bundles) > 1
        run = partial(
            self._run_tasks,
            bundles,
            archive_bundle,
            label="backup",
            description=description,
            on_progress=partial(self._note_progress, cycle) if is_watched else None,
            abandoned=self._abandoned,
        )
        with self._changed:
            self._cycles.append(cycle)
        # A daemon, so that a process can end beside a Spark that does not answer.
        threading.Thread(target=self._run, args=(cycle, run), name="cycle", daemon=True).start()

    def wait(self, *, slots: int) -> None:
        """Wait until a cycle has ended, or the next may begin: fewer tasks than ``slots`` are left.

        With 0 slots, wait for the end of a cycle.
        """
        if not self._cycles:
            return
        if len(self._cycles) >= self._most:
            slots = 0
        overlap_at = max(cycle.began for cycle in self._cycles) + OVERLAP_AFTER_S
        with self._changed:
            while not self.has_ended():
                early = overlap_at - time.monotonic()
                if early <= 0 and self.tasks_left < slots:
                    return
                self._changed.wait(early if slots and early > 0 else None)

    def pause(self, seconds: float, stop: threading.Event) -> None:
        """Wait until the time is over, ``stop`` is set, or a cycle has ended."""
        if not self._cycles:
            stop.wait(seconds)
            return
        until = time.monotonic() + seconds
        with self._changed:
            while not (self.has_ended() or stop.is_set()):
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(min(left, _CHECK_S))

    def take_ended(self) -> list[RunningCycle]:
        """Remove the cycles that have ended, and return them."""
        with self._changed:
            ended = [cycle for cycle in self._cycles if cycle.rows.done()]
            self._cycles = [cycle for cycle in self._cycles if cycle not in ended]
        return ended

    def abandon(self) -> None:
        """Cancel the tasks of all cycles. Their ranges stay in the open intent."""
        self._abandoned.set()
        rows = [cycle.rows for cycle in self._cycles]
        if wait_for_futures(rows, ABANDON_S).not_done:
            logger.warning("cancelled tasks still run; what they store is adopted")
        with self._changed:
            self._cycles = []
        self._abandoned = threading.Event()

    def _run(self, cycle: RunningCycle, run: Callable[[], list[TaskRow]]) -> None:
        try:
            rows = run()
        except BaseException as error:  # also KeyboardInterrupt: who takes the rows raises it
            cycle.rows.set_exception(error)
        else:
            cycle.rows.set_result(rows)
        with self._changed:
            self._changed.notify_all()

    def _note_progress(self, cycle: RunningCycle, done: int, _count: int) -> None:
        with self._changed:
            cycle.done = max(cycle.done, done)
            self._changed.notify_all()
            total = sum(other.tasks for other in self._cycles)
            left = self.tasks_left
        if self._on_progress is not None:
            self._on_progress(total - left, total)
