"""Run bundles of work as Spark tasks, one task for each bundle, and return the rows they report.

A task yields small rows that say what it did; record data never passes through the JVM.

On a classic session the job is an RDD with one partition for each bundle: each task gets its own
bundle only, and the JVM has nothing to plan. A DataFrame would have it load Spark SQL, which takes
half a second of each run. Spark Connect has no RDDs: there the job is a DataFrame with one row for
each task, which holds its bundle.

A job on a classic session has a group of its own. It is counted while it runs, and cancelled when
nobody wants it any more.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import orjson
import pyspark
from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

import kafkeep.errors
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.spark.failure import (
    explain_end,
    explain_failure,
    explain_resident_end,
    interruption,
    is_ended_application,
)
from kafkeep.spark.internals import classic
from kafkeep.spark.operation import cancel_when, watch_operation
from kafkeep.spark.resident.claim import SessionClaim
from kafkeep.spark.resident.environment import CommandEnvironment, RunInEnvironment
from kafkeep.spark.session import Session, context_of, has_stopped, why_stopped
from kafkeep.spark.slots import running_slots, task_slots
from kafkeep.store.local.files import disk_fault

T = TypeVar("T")
Task = Callable[[T], Iterator[tuple[str, dict[str, Any]]]]
ERROR_KIND = "error"
SPARK_VERSION = pyspark.__version__
"""Of the pyspark that runs here: the driver's, or an executor's."""
_DESCRIBING = threading.Lock()
"""Jobs that are described to the JVM at the same time compete for the interpreter with everything
else in the process. One after the other they take no longer, and leave it free."""
OnProgress = Callable[[int, int], None]
"""Called with the tasks done and their total, from a thread of its own."""
_POLL_S = 0.2
_LONGEST_POLL_S = 2.0
_POOL = "spark.scheduler.pool"
_GROUP_KEYS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One row that a task reported; ``body`` is what it yielded, after a trip through JSON."""

    bundle: int
    kind: str
    body: dict[str, Any]


_Reported = tuple[int, str, bytes]
"""The number of a bundle, the kind of a row, and its body as JSON."""
_RunParts = Callable[[Iterable[bytes]], Iterator[_Reported]]


class TaskRunner:
    """Runs tasks in one Spark session. Threads may share it."""

    def __init__(self, driver: Session, *, resident: SessionClaim | None = None) -> None:
        self.driver = driver
        self._resident = resident
        """The claim of the resident session, if ``driver`` is a session on its server."""

    @property
    def session(self) -> SparkSession:
        """The session for Spark SQL; it is made when somebody asks for it."""
        if isinstance(self.driver, SparkContext):
            return SparkSession.builder.getOrCreate()
        return self.driver

    def slots(self) -> int:
        """Return how many tasks run at once now, or as soon as Spark has what they wait for."""
        return task_slots(self.driver)

    def count_executors(self) -> int:
        """Return how many executors of a cluster run now; 0 on one machine, or if nobody says."""
        context = context_of(self.driver)
        return 0 if context is None else classic.count_executors(context)

    def run_first_job(
        self,
        first: Callable[[], None] | None = None,
        *,
        label: str = "start",
        preload: Sequence[str] = (),
    ) -> None:
        """Run a job that starts the workers, so that the next need not.

        In each worker it loads what ``preload`` names, and calls ``first``. An error in them is
        ignored: the job that needs what they prepare meets it again, and reports it.
        """
        work = _FirstWork(tuple(preload), first)
        self.run_tasks([work] * running_slots(self.driver), _prepare_worker, label=label)

    def for_threads(self) -> Callable[..., list[TaskRow]]:
        """Return ``run_tasks`` for other threads, with the properties that this one has set."""
        context = context_of(self.driver)
        if context is None:
            return self.run_tasks
        return classic.inherit_properties(context, self.run_tasks)

    def run_tasks(
        self,
        bundles: Sequence[T],
        task: Task[T],
        *,
        label: str,
        description: str = "",
        pool: str | None = None,
        on_progress: OnProgress | None = None,
        stop: threading.Event | None = None,
        abandoned: threading.Event | None = None,
    ) -> list[TaskRow]:
        """Run ``task`` on each bundle and return all rows, by bundle, each bundle's in its order.

        Messages call the run ``label``; Spark's pages show ``description``, or the label without
        one: on Spark Connect as a tag of the job. ``task`` and the bundles are pickled. The task
        runs on executors, and may run again for a bundle when a worker was lost, or when it raised
        TransientError or something unexpected. Its effects must tolerate that. The rows returned
        are those of one whole attempt. Any other KafkeepError ends the run at once with the same
        error here, the first by bundle. When Spark gives up on a bundle, TransientError (or
        KafkeepError) says why in a sentence. Ctrl-C and ``abandoned`` cancel the job, and so does
        ``stop`` when tasks have not ended some seconds later.
        """
        if not bundles:
            return []
        try:
            reported = self._collect(
                *(bundles, task),
                description=description or label,
                pool=pool,
                on_progress=on_progress,
                stop=stop,
                abandoned=abandoned,
            )
        except KeyboardInterrupt:
            raise
        except Exception as error:
            if (interrupt := interruption(error)) is not None:
                raise interrupt from error
            if self._resident is not None and not self._resident.is_alive():
                raise explain_resident_end(error, label) from error
            raise _explain(self.driver, error, label) from error
        return _read_rows(reported)

    def _collect(
        self,
        bundles: Sequence[T],
        task: Task[T],
        *,
        description: str,
        pool: str | None,
        on_progress: OnProgress | None,
        stop: threading.Event | None,
        abandoned: threading.Event | None,
    ) -> Sequence[_Reported]:
        context = context_of(self.driver)
        if context is None:  # Connect has tags instead of job groups, and no pools
            run: _RunParts = _RunBundles(task)
            if self._resident is not None:
                run = RunInEnvironment(CommandEnvironment.current(), run)
            with watch_operation(
                self.session,
                description=description,
                count=len(bundles),
                on_progress=on_progress,
                stop=stop,
                abandoned=abandoned,
            ):
                return _collect_frame(self.session, bundles, run)
        with watch_job(
            context,
            group=f"kafkeep-{uuid.uuid4().hex}",
            description=description,
            pool=pool,
            count=len(bundles),
            on_progress=on_progress,
            stop=stop,
            abandoned=abandoned,
        ):
            return _collect_rdd(context, bundles, task)


def _collect_rdd(context: SparkContext, bundles: Sequence[T], task: Task[T]) -> Sequence[_Reported]:
    """Run the tasks as an RDD whose partitions hold a bundle each."""
    with _DESCRIBING:
        parts = [cloudpickle.dumps(pair) for pair in enumerate(bundles)]
        job = classic.make_rdd(context, parts).mapPartitions(_RunBundles(task))
        classic.describe_to_jvm(job)
    return list(job.collect())


def _collect_frame(
    session: SparkSession, bundles: Sequence[T], run: _RunParts
) -> Sequence[_Reported]:
    """Run the tasks as a DataFrame with a row for each bundle."""
    from kafkeep.spark.frame_tasks import collect_frame  # noqa: PLC0415 - of Spark SQL and Arrow

    parts = [cloudpickle.dumps(pair) for pair in enumerate(bundles)]
    return collect_frame(session, parts, run)


@contextmanager
def watch_job(
    context: SparkContext,
    *,
    group: str,
    description: str,
    pool: str | None,
    count: int,
    on_progress: OnProgress | None,
    stop: threading.Event | None = None,
    abandoned: threading.Event | None = None,
) -> Iterator[None]:
    """Run the body's job under a group of its own; cancel it when the body is interrupted.

    It is cancelled as well once ``abandoned`` is set, and when it has not ended some seconds after
    ``stop`` was set. The caller's own job group and pool are put back afterwards.
    """
    classic.let_interrupts_through()
    before = {key: context.getLocalProperty(key) for key in (*_GROUP_KEYS, _POOL)}
    context.setJobGroup(group, description, interruptOnCancel=True)
    if pool is not None:
        context.setLocalProperty(_POOL, pool)
    done = threading.Event()
    watcher = None
    if on_progress is not None:
        watcher = threading.Thread(
            target=_poll, args=(context, group, count, on_progress, done), daemon=True
        )
        watcher.start()
    cancel_when(partial(context.cancelJobGroup, group), done, stop=stop, abandoned=abandoned)
    try:
        yield
        if on_progress is not None and watcher is not None:
            done.set()
            watcher.join()  # what it is about to tell is older than the end
            on_progress(count, count)
    except KeyboardInterrupt:
        with suppress(Exception):  # the gateway may be gone; the interrupt matters more
            context.cancelJobGroup(group)
        raise
    finally:
        done.set()
        with suppress(Exception):
            for key, value in before.items():
                context.setLocalProperty(key, value)


def _read_rows(reported: Sequence[_Reported]) -> list[TaskRow]:
    """Return the rows by bundle; raise the first error that a task reported."""
    rows = [TaskRow(bundle, kind, orjson.loads(body)) for bundle, kind, body in reported]
    rows.sort(key=lambda row: row.bundle)  # stable: the order inside a bundle stays
    for row in rows:
        if row.kind == ERROR_KIND:
            raise _rebuild_error(row.body)
    return rows


def _explain(driver: Session, error: Exception, label: str) -> KafkeepError:
    if is_ended_application(error) and has_stopped(driver):
        why, hint = why_stopped(driver)
        return explain_end(error, label, why=why, hint=hint)
    return explain_failure(error, label)


@dataclass(frozen=True, slots=True)
class _FirstWork:
    """What the first task of a worker does."""

    preload: tuple[str, ...]
    first: Callable[[], None] | None


def _prepare_worker(work: _FirstWork) -> Iterator[tuple[str, dict[str, Any]]]:
    from kafkeep.spark.worker_daemon import preload  # noqa: PLC0415 - the driver needs none of it

    for name in work.preload:
        preload(name)
    if work.first is not None:
        with suppress(Exception):
            work.first()
    return iter(())


@dataclass(frozen=True, slots=True)
class _RunBundles(Generic[T]):
    """Runs in the Python worker: takes pickled bundles with their numbers, returns their rows."""

    task: Task[T]

    def __call__(self, parts: Iterable[bytes]) -> Iterator[_Reported]:
        for part in parts:
            number, bundle = pickle.loads(part)
            for kind, body in _guarded(self.task, bundle):
                yield number, kind, orjson.dumps(body)


def _guarded(task: Task[T], bundle: T) -> list[tuple[str, dict[str, Any]]]:
    """Run the task; an error that a retry cannot fix becomes its only row."""
    try:
        return list(task(bundle))
    except TransientError:
        raise
    except KafkeepError as error:
        return [_error_row(error)]
    except OSError as error:
        if (fault := disk_fault(error)) is None:
            raise
        return [_error_row(fault)]


def _error_row(error: KafkeepError) -> tuple[str, dict[str, Any]]:
    body = {"class": type(error).__name__, "message": error.message, "hint": error.hint}
    return ERROR_KIND, body


def _rebuild_error(body: dict[str, Any]) -> KafkeepError:
    kind = getattr(kafkeep.errors, str(body["class"]), KafkeepError)
    if not (isinstance(kind, type) and issubclass(kind, KafkeepError)):
        kind = KafkeepError
    return kind(body["message"], hint=body["hint"])


def _poll(
    context: SparkContext,
    group: str,
    count: int,
    on_progress: OnProgress,
    done: threading.Event,
) -> None:
    tracker = context.statusTracker()
    reported, began = -1, time.monotonic()
    # Rarer for a long job: fifty connectors that catch up would keep the driver busy with polls.
    while not done.wait(min(_LONGEST_POLL_S, max(_POLL_S, (time.monotonic() - began) / 10))):
        with suppress(Exception):  # a figure less is no reason to fail
            finished = 0
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
                finished += sum(stage.numCompletedTasks for stage in stages if stage)
            if finished != reported and not done.is_set():
                on_progress(min(finished, count), count)
                reported = finished
