"""A Spark session that starts in the background and stops at the end of a run."""

from __future__ import annotations

import gc
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType

from kafkeep.options.spark import SparkOptions
from kafkeep.spark.jvm import (
    Jvm,
    can_launch,
    is_jvm_waiting,
    launch_jvm,
    take_prelaunched,
)
from kafkeep.spark.resident.claim import SessionClaim, is_claimed, take_claim
from kafkeep.spark.session import (
    abandon_session,
    active_session,
    has_stopped,
    join_resident,
    owned_jvm,
    start_session,
    stop_session,
)
from kafkeep.spark.slots import await_executors, runs_on_cluster, slots_of_executors
from kafkeep.spark.tasks import TaskRunner


class BackgroundSession:
    """Starts Spark on entry without waiting; ``session`` waits until it has run its first job.

    That job calls ``first`` in each worker. With ``on_demand`` Spark starts when ``session`` is
    called, unless a JVM or the resident session waits for it already: a run that fails before that
    has started none.

    On exit the session is stopped, also one that is still starting. A session that was active
    before, started by anyone else, is used and left running. So is the resident session, if the
    options allow it and it can be claimed: without a first job.
    """

    def __init__(
        self,
        options: SparkOptions,
        *,
        first: Callable[[], None] | None = None,
        on_demand: bool = False,
    ) -> None:
        self._options = options
        self._on_demand = on_demand
        self._first = first
        self._jvm: Jvm | None = None
        self._claim: SessionClaim | None = None
        self._borrowed = False
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        self._starting: Future[TaskRunner] | None = None
        self._frozen = False
        self._entered = False
        self.launched_at = 0.0
        """When Spark began to start, on the monotonic clock."""

    def __enter__(self) -> BackgroundSession:
        self._entered = True
        if not self._on_demand or is_jvm_waiting() or is_claimed():
            self._begin()
        return self

    def _begin(self) -> Future[TaskRunner]:
        self._borrowed = active_session() is not None
        if not self._borrowed:
            self._claim = take_claim(self._options)
        if not self._borrowed and self._claim is None and can_launch(self._options):
            self._jvm = take_prelaunched(self._options) or launch_jvm(self._options)
        self.launched_at = self._jvm.launched_at if self._jvm else time.monotonic()
        self._starting = self._starter.submit(self._start)
        return self._starting

    def session(self) -> TaskRunner:
        """Wait until the first job has run; raise what kept Spark from starting."""
        if not self._entered:
            raise RuntimeError("the session was not started: use it in a with statement")
        opened = (self._starting or self._begin()).result()
        self._freeze()
        return opened

    def running(self) -> TaskRunner | None:
        """Return the session if it runs already, without waiting; None while it does not."""
        starting = self._starting
        if starting is None or not starting.done() or starting.cancelled() or self._has_ended():
            return None
        return None if starting.exception() is not None else starting.result()

    def is_alive(self, timeout_s: float = 0.0) -> bool:
        """Return whether the session still runs; one that someone else started counts as alive.

        It does not when its JVM ends within ``timeout_s``, when it did not start, or when Spark
        has ended its application.
        """
        if self._jvm is not None:
            with suppress(subprocess.TimeoutExpired):
                self._jvm.process.wait(timeout_s)
                return False
        return self._borrowed or not self._has_ended()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._frozen:
            gc.unfreeze()
        starting = self._starting
        if starting is not None and not starting.done() and self._jvm is not None:
            self._jvm.process.kill()  # nobody waits for it any more
        self._starter.shutdown(wait=True, cancel_futures=True)
        if self._borrowed:
            return
        if starting is not None and not starting.cancelled() and starting.exception() is None:
            stop_session(starting.result().driver)
        elif self._jvm is not None:
            abandon_session(self._jvm)
        if self._claim is not None:
            self._claim.release()

    def _freeze(self) -> None:
        """Exclude everything loaded so far from Python's garbage collection, once.

        A collection that walks all of it stops every thread for a tenth of a second and more: the
        job that is about to begin, and each call to the REST API of a service.
        """
        if not self._frozen:
            self._frozen = True
            gc.freeze()

    def _has_ended(self) -> bool:
        starting = self._starting
        if starting is None or not starting.done():
            return False
        if starting.cancelled() or starting.exception() is not None:
            return True
        return has_stopped(starting.result().driver)

    def _start(self) -> TaskRunner:
        if self._claim is not None:
            resident = join_resident(self._claim)
            if resident is not None:
                return TaskRunner(resident, resident=self._claim)
            self._claim.release()
            self._claim, self._jvm = None, launch_jvm(self._options)
        runner = TaskRunner(start_session(self._options, jvm=self._jvm))
        if self._jvm is not owned_jvm():  # it did not start
            self._jvm = None
        if runs_on_cluster(runner.driver):
            self._prepare_executors(runner)
        else:  # workers are forked from a process that has loaded everything
            runner.run_first_job(self._first)
        return runner

    def _prepare_executors(self, runner: TaskRunner) -> None:
        """Run the first job on the executors as they come, and again for those that came late."""
        prepare = partial(runner.run_first_job, self._first, preload=self._options.preload)
        slots = slots_of_executors(runner.driver)
        with ThreadPoolExecutor(1, thread_name_prefix="executors") as waiting:
            awaited = waiting.submit(await_executors, runner.driver)
            prepare()
            awaited.result()
        if slots_of_executors(runner.driver) > slots:
            prepare()
