"""Spark for one run: started in the background, warmed up, and closed at the end."""

from __future__ import annotations

import gc
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from pyspark.sql import SparkSession

from kafkeep.options.spark import SparkOptions
from kafkeep.spark.job_progress import OnProgress
from kafkeep.spark.jvm import Jvm, can_start_lean, launch_jvm, take_prelaunched
from kafkeep.spark.session import (
    abandon_session,
    active_session,
    has_stopped,
    start_session,
    stop_session,
    task_slots,
)
from kafkeep.spark.tasks import Task, TaskRow, run_tasks, warm_up

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenSpark:
    """A session that has run its first job; ``cores`` tasks run at once."""

    session: SparkSession
    cores: int

    def run_tasks(
        self,
        bundles: Sequence[T],
        task: Task[T],
        *,
        label: str,
        pool: str | None = None,
        on_progress: OnProgress | None = None,
        stop: threading.Event | None = None,
    ) -> list[TaskRow]:
        """Run ``task`` on each bundle: see ``tasks.run_tasks``."""
        return run_tasks(
            self.session, bundles, task, label=label, pool=pool, on_progress=on_progress, stop=stop
        )


class BackgroundSession:
    """Starts Spark on entry without waiting, and hands it out when it has run its first job.

    On exit the session is stopped, also one still starting; one that was there before is not,
    whether a caller or another door started it. ``first`` is called in each worker by that job.
    """

    def __init__(self, options: SparkOptions, *, first: Callable[[], None] | None = None) -> None:
        self._options = options
        self._first = first
        self._jvm: Jvm | None = None
        self._borrowed = False
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        self._starting: Future[OpenSpark] | None = None
        self._frozen = False
        self.launched_at = 0.0
        """When Spark began to start, on the monotonic clock."""

    def __enter__(self) -> BackgroundSession:
        self._borrowed = active_session() is not None
        if not self._borrowed and can_start_lean(self._options):
            self._jvm = take_prelaunched(self._options) or launch_jvm(self._options)
        self.launched_at = self._jvm.launched_at if self._jvm else time.monotonic()
        self._starting = self._starter.submit(self._start)
        return self

    def session(self) -> OpenSpark:
        """Wait until the first job has run; raises what kept Spark from starting."""
        if self._starting is None:
            raise RuntimeError("the door is not open: use it in a with statement")
        opened = self._starting.result()
        self._freeze()
        return opened

    def is_alive(self, patience_s: float = 0.0) -> bool:
        """Tell whether what this door started is still there; others are not ours to know.

        A JVM that ends within ``patience_s`` is not, nor is a session that did not start or whose
        application Spark has ended.
        """
        if self._jvm is not None:
            with suppress(subprocess.TimeoutExpired):
                self._jvm.process.wait(patience_s)
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
            stop_session(starting.result().session)
        elif self._jvm is not None:
            abandon_session(self._jvm)

    def _freeze(self) -> None:
        """Tell Python's collector, once, that what was loaded to get here is no garbage.

        Walking through all of it stops every thread for a tenth of a second and more: the job that
        is about to begin, and each call to the REST API of a service.
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
        return has_stopped(starting.result().session)

    def _start(self) -> OpenSpark:
        session = start_session(self._options, jvm=self._jvm)
        warm_up(session, self._first)
        return OpenSpark(session, task_slots(session))
