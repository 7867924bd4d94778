"""How many jobs of a service are busy at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.support.waiting import PATIENCE_S

from kafkeep.connect.service.supervisor import JobSlots


class Crowd:
    """Counts who is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


def run_jobs(slots: JobSlots, count: int) -> tuple[Crowd, Crowd]:
    """Run jobs that plan, have their tasks run and commit; return who met where."""
    busy, waiting = Crowd(), Crowd()
    all_wait = threading.Barrier(count, timeout=PATIENCE_S)

    def tasks() -> None:
        with waiting:
            all_wait.wait()  # none would come past if others had to wait for its turn

    def job(_: int) -> None:
        with slots:
            with busy:
                time.sleep(0.01)
            slots.released_for(tasks)()
            with busy:
                time.sleep(0.01)

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(job, range(count)))
    return busy, waiting


def test_two_are_busy_at_once_and_all_have_their_tasks_run() -> None:
    busy, waiting = run_jobs(JobSlots(2, timeout_s=PATIENCE_S), 8)
    assert busy.most <= 2
    assert waiting.most == 8


def test_one_that_hangs_holds_nobody_up_for_long() -> None:
    slots, hangs = JobSlots(1, timeout_s=0.05), threading.Event()
    inside = threading.Event()

    def hang() -> None:
        with slots:
            inside.set()
            hangs.wait(PATIENCE_S)

    stuck = threading.Thread(target=hang)
    stuck.start()
    assert inside.wait(PATIENCE_S)
    for _ in range(2):
        with slots:
            assert slots.released_for(lambda: "done")() == "done"
    hangs.set()
    stuck.join()


def test_a_turn_is_given_back_when_work_fails() -> None:
    slots = JobSlots(1, timeout_s=0.2)
    for _ in range(3):
        try:
            with slots:
                slots.released_for(lambda: 1 / 0)()
        except ZeroDivisionError:
            pass
    busy, _ = run_jobs(slots, 1)
    assert busy.most == 1
    entered = slots._free.acquire(blocking=False)
    assert entered, "a turn was lost"
    assert not slots._free.acquire(blocking=False), "a turn was made up"
