"""Run bundles of work as Spark tasks, one task for each bundle, and return the rows they report.

Bundles and the function travel to the tasks together. A task yields small rows that say what it
did; record data never passes through the JVM.

To describe a DataFrame to the JVM and to have it planned takes a tenth of a second, longer than
many a job. ``TaskRunner`` therefore makes one DataFrame for each number of tasks and keeps it: to
Spark every job is numbers in, rows out. What its tasks are to do travels beside it, as a property
of the job, and each worker looks it up.

A job on a classic session has a group of its own. It is counted while it runs, and cancelled when
nobody wants it any more.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import orjson
import pyarrow as pa
from cryptography.fernet import Fernet
from py4j.clientserver import ClientServer
from pyspark import SparkContext, TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

import kafkeep.errors
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.spark.failure import explain_end, explain_failure, interruption, is_ended_application
from kafkeep.spark.session import has_stopped, is_classic, task_slots, why_stopped
from kafkeep.store.local_files import disk_fault

RunOne = Callable[[int], pa.RecordBatch]
"""Does the work of the bundle with this number, and returns its rows."""
_FrameRun = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
ROWS = pa.schema([("bundle", pa.int64()), ("kind", pa.string()), ("body", pa.binary())])
_SPARK_ROWS = StructType(
    [
        StructField("bundle", LongType()),
        StructField("kind", StringType()),
        StructField("body", BinaryType()),
    ]
)
"""The same for Spark, which would ask the JVM to parse it from text."""
WORK = "kafkeep.work"
MAX_PROPERTY_BYTES = 256 * 1024
"""Each task gets a copy of the job's properties; what is larger travels with the function."""
T = TypeVar("T")
Task = Callable[[T], Iterator[tuple[str, dict[str, Any]]]]
ERROR_KIND = "error"
SPARE_TASKS = 8
"""This many idle tasks take less time than to have the JVM plan another job."""
_DESCRIBING = threading.Lock()
"""Jobs that are described to the JVM at the same time compete for the interpreter with everything
else in the process. One after the other they take no longer, and leave it free."""
OnProgress = Callable[[int, int], None]
"""Called with the tasks done and their total, from a thread of its own."""
CANCEL_AFTER_S = 10.0
"""How long tasks may continue after ``stop``: enough to finish, if nothing holds them up."""
_POLL_SECONDS = 0.2
_POOL = "spark.scheduler.pool"
_GROUP_KEYS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One row that a task reported; ``body`` is what it yielded, after a trip through JSON."""

    bundle: int
    kind: str
    body: dict[str, Any]


class TaskRunner:
    """Runs tasks in one Spark session; ``cores`` of them at once. Threads may share it."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.cores = task_slots(session)
        # Spark shows and logs properties, so what tasks are to do is encrypted. The key is in the
        # function, which is neither shown nor logged.
        self._key = Fernet.generate_key()
        self._frames: dict[int, DataFrame] = {}

    def run_first_job(
        self, first: Callable[[], None] | None = None, *, label: str = "start"
    ) -> None:
        """Run a job that starts the workers and has the JVM plan it, so that the next need not.

        It calls ``first`` in each worker. An error in it is ignored: the job that needs what
        ``first`` prepares meets it again, and reports it.
        """
        self.run_tasks([first] * self.cores, _call_first, label=label)

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
        """Run ``task`` on each bundle and return all rows, by bundle, each bundle's in its order.

        ``task`` and the bundles are pickled. The task runs on executors, and may run again for a
        bundle when a worker was lost, or when it raised TransientError or something unexpected. Its
        effects must tolerate that. The rows returned are those of one whole attempt. Any other
        KafkeepError ends the run at once with the same error here, the first by bundle. When Spark
        gives up on a bundle, TransientError (or KafkeepError) says why in a sentence. Ctrl-C
        cancels the job, and so does ``stop`` when tasks have not ended some seconds later.
        """
        if not bundles:
            return []
        count = len(bundles)
        with ExitStack() as job:
            with _DESCRIBING:
                job.enter_context(
                    self._watched(
                        label=label, pool=pool, count=count, on_progress=on_progress, stop=stop
                    )
                )
                # Empty tasks would be counted as progress, and wait for room beside other jobs.
                spare = SPARE_TASKS if pool is None and on_progress is None else 0
                frame = job.enter_context(self._frame(count, _Run(task, bundles), spare=spare))
            try:
                collected = frame.collect()
            except KeyboardInterrupt:
                raise
            except Exception as error:
                if (interrupt := interruption(error)) is not None:
                    raise interrupt from error
                raise _explain(self.session, error, label) from error
        return _read_rows(collected)

    def _watched(
        self,
        *,
        label: str,
        pool: str | None,
        count: int,
        on_progress: OnProgress | None,
        stop: threading.Event | None,
    ) -> AbstractContextManager[None]:
        if not is_classic(self.session):  # Connect has no job groups of this kind, and no pools
            return nullcontext()
        return watch_job(
            self.session.sparkContext,
            group=f"kafkeep-{uuid.uuid4().hex}",
            label=label,
            pool=pool,
            count=count,
            on_progress=on_progress,
            stop=stop,
        )

    @contextmanager
    def _frame(self, count: int, run_one: RunOne, *, spare: int = 0) -> Iterator[DataFrame]:
        """Yield what to collect: ``run_one`` for each number below ``count``, a task each.

        Where that saves describing another frame, it has up to ``spare`` tasks more, with the next
        numbers. This thread must collect it, before the body ends.
        """
        work = cloudpickle.dumps(run_one)
        if not has_own_properties(self.session) or len(work) > MAX_PROPERTY_BYTES:
            yield _describe(self.session, count, _carrying(run_one))
            return
        count = min((one for one in self._frames if count <= one <= count + spare), default=count)
        if count not in self._frames:
            self._frames[count] = _describe(self.session, count, _looking_up(self._key))
        sealed = Fernet(self._key).encrypt(work).decode()
        self.session.sparkContext.setLocalProperty(WORK, sealed)
        try:
            yield self._frames[count]
        finally:
            with suppress(Exception):  # the gateway may be gone, and the property with it
                self.session.sparkContext.setLocalProperty(WORK, None)


def has_own_properties(session: SparkSession) -> bool:
    """Return whether a job's properties belong to the thread that set them.

    Spark Connect has none. With PYSPARK_PIN_THREAD=false they belong to whichever thread of the JVM
    is at hand: a job would run another job's work, or find none.
    """
    return is_classic(session) and isinstance(session.sparkContext._gateway, ClientServer)


@contextmanager
def watch_job(
    context: SparkContext,
    *,
    group: str,
    label: str,
    pool: str | None,
    count: int,
    on_progress: OnProgress | None,
    stop: threading.Event | None = None,
) -> Iterator[None]:
    """Run the body's job under a group of its own; cancel it when the body is interrupted.

    It is cancelled as well when it has not ended some seconds after ``stop`` was set. The caller's
    own job group and pool are put back afterwards.
    """
    before = {key: context.getLocalProperty(key) for key in (*_GROUP_KEYS, _POOL)}
    context.setJobGroup(group, label, interruptOnCancel=True)
    if pool is not None:
        context.setLocalProperty(_POOL, pool)
    done = threading.Event()
    watcher = None
    if on_progress is not None:
        watcher = threading.Thread(
            target=_poll, args=(context, group, count, on_progress, done), daemon=True
        )
        watcher.start()
    if stop is not None:
        threading.Thread(
            target=_cancel_late, args=(context, group, stop, done), daemon=True
        ).start()
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


def _describe(session: SparkSession, count: int, run: _FrameRun) -> DataFrame:
    return session.range(0, count, 1, count).mapInArrow(run, _SPARK_ROWS)


def _carrying(run_one: RunOne) -> _FrameRun:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _run_all(batches, run_one)

    return run


def _looking_up(key: bytes) -> _FrameRun:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context: Any = TaskContext.get()
        work = Fernet(key).decrypt(context.getLocalProperty(WORK))
        return _run_all(batches, pickle.loads(work))

    return run


def _run_all(batches: Iterator[pa.RecordBatch], run_one: RunOne) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield run_one(number)


def _read_rows(collected: Sequence[Any]) -> list[TaskRow]:
    """Return the rows by bundle; raise the first error that a task reported."""
    rows = [TaskRow(row.bundle, row.kind, orjson.loads(bytes(row.body))) for row in collected]
    rows.sort(key=lambda row: row.bundle)  # stable: the order inside a bundle stays
    for row in rows:
        if row.kind == ERROR_KIND:
            raise _rebuild_error(row.body)
    return rows


def _explain(session: SparkSession, error: Exception, label: str) -> KafkeepError:
    if is_ended_application(error) and has_stopped(session):
        why, hint = why_stopped(session)
        return explain_end(error, label, why=why, hint=hint)
    return explain_failure(error, label)


def _call_first(first: Callable[[], None] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if first is not None:
        with suppress(Exception):
            first()
    return iter(())


@dataclass(frozen=True, slots=True)
class _Run(Generic[T]):
    """Runs in the Python worker: takes the number of a bundle, returns its rows.

    A number that no bundle has belongs to a spare task.
    """

    task: Task[T]
    bundles: Sequence[T]

    def __call__(self, number: int) -> pa.RecordBatch:
        spare = number >= len(self.bundles)
        return _rows_of(number, [] if spare else _guarded(self.task, self.bundles[number]))


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


def _rows_of(bundle: int, rows: list[tuple[str, dict[str, Any]]]) -> pa.RecordBatch:
    numbers = np.full(len(rows), bundle, dtype=np.int64)
    columns = [
        pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(numbers)]),
        _texts(pa.string(), [kind.encode() for kind, _ in rows]),
        _texts(pa.binary(), [orjson.dumps(body) for _, body in rows]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def _texts(kind: pa.DataType, values: list[bytes]) -> pa.Array:
    """Return the values as an array; ``pa.array`` would import pandas, for a second."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _rebuild_error(body: dict[str, Any]) -> KafkeepError:
    kind = getattr(kafkeep.errors, str(body["class"]), KafkeepError)
    if not (isinstance(kind, type) and issubclass(kind, KafkeepError)):
        kind = KafkeepError
    return kind(body["message"], hint=body["hint"])


def _cancel_late(
    context: SparkContext, group: str, stop: threading.Event, done: threading.Event
) -> None:
    while not done.wait(_POLL_SECONDS):
        if stop.is_set() and not done.wait(CANCEL_AFTER_S):
            with suppress(Exception):  # a JVM that is gone runs nothing
                context.cancelJobGroup(group)
            return


def _poll(
    context: SparkContext,
    group: str,
    count: int,
    on_progress: OnProgress,
    done: threading.Event,
) -> None:
    tracker = context.statusTracker()
    reported = -1
    while not done.wait(_POLL_SECONDS):
        with suppress(Exception):  # a figure less is no reason to fail
            finished = 0
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                stages = [tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
                finished += sum(stage.numCompletedTasks for stage in stages if stage)
            if finished != reported and not done.is_set():
                on_progress(min(finished, count), count)
                reported = finished
