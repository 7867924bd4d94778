"""Bundles of work in, rows out: one Spark task for each bundle.

Bundles and the function travel to the tasks together (``frames.py``); a task yields small rows that
say what it did, and record data never passes through the JVM.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

import kafkeep.errors
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.spark.failure import (
    explain_end,
    explain_failure,
    interruption,
    is_ended_application,
)
from kafkeep.spark.frames import ROWS, described
from kafkeep.spark.progress import OnProgress, watch_job
from kafkeep.spark.session import has_stopped, is_classic, task_slots, why_stopped
from kafkeep.store.disk import disk_fault

T = TypeVar("T")
Task = Callable[[T], Iterator[tuple[str, dict[str, Any]]]]

ERROR_KIND = "error"
SPARE_TASKS = 8
"""So many that have nothing to do take less time than to have the JVM plan another job."""
_DESCRIBING = threading.Lock()
"""Many jobs that are described to the JVM at once take turns at the interpreter, and so does
everything else in the process: one after the other they take no longer, and leave it free."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One thing a task reported: ``body`` is what it yielded, after a trip through JSON."""

    bundle: int
    kind: str
    body: dict[str, Any]


def run_tasks(
    session: SparkSession,
    bundles: Sequence[T],
    task: Task[T],
    *,
    label: str,
    pool: str | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> list[TaskRow]:
    """Run ``task`` on each bundle and return all rows, by bundle, each bundle's in its order.

    ``task`` and the bundles are pickled; it runs on executors, and may run again for a bundle
    when a worker was lost or it raised TransientError or something unexpected, so its effects
    must bear repetition; the rows returned are those of one whole attempt. Any other KafkeepError
    ends the run at once with the same error here, the first by bundle. When Spark gives up on a
    bundle, TransientError (or KafkeepError) says why in a sentence. Ctrl-C cancels the job, and so
    does ``stop`` when tasks have not ended some seconds later.
    """
    if not bundles:
        return []
    count = len(bundles)
    with ExitStack() as job:
        with _DESCRIBING:
            job.enter_context(
                _job(
                    session,
                    label=label,
                    pool=pool,
                    count=count,
                    on_progress=on_progress,
                    stop=stop,
                )
            )
            # Empty tasks would be counted as progress, and wait for room beside other jobs.
            spare = SPARE_TASKS if pool is None and on_progress is None else 0
            run = _Run(task, bundles)
            frame = job.enter_context(described(session, count, run, spare=spare))
        try:
            found = frame.collect()
        except KeyboardInterrupt:
            raise
        except Exception as error:
            if (interrupt := interruption(error)) is not None:
                raise interrupt from error
            raise _explain(session, error, label) from error
    rows = [TaskRow(row.bundle, row.kind, orjson.loads(bytes(row.body))) for row in found]
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


def warm_up(
    session: SparkSession, first: Callable[[], None] | None = None, *, label: str = "start"
) -> None:
    """Run a first job, so that planning and workers are there for the next.

    ``first`` is called in each worker; what it fails with is for the job that needs it to meet.
    """
    run_tasks(session, [first] * task_slots(session), _begin, label=label)


def _begin(first: Callable[[], None] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if first is not None:
        with suppress(Exception):
            first()
    return iter(())


def _job(
    session: SparkSession,
    *,
    label: str,
    pool: str | None,
    count: int,
    on_progress: OnProgress | None,
    stop: threading.Event | None,
) -> AbstractContextManager[None]:
    if not is_classic(session):  # Connect has no job groups of this kind, and no pools
        return nullcontext()
    return watch_job(
        session.sparkContext,
        group=f"kafkeep-{uuid.uuid4().hex}",
        label=label,
        pool=pool,
        count=count,
        on_progress=on_progress,
        stop=stop,
    )


@dataclass(frozen=True, slots=True)
class _Run(Generic[T]):
    """What runs in the Python worker: the number of a bundle in, its rows out.

    Numbers that no bundle has are those of spare tasks.
    """

    task: Task[T]
    bundles: Sequence[T]

    def __call__(self, number: int) -> pa.RecordBatch:
        spare = number >= len(self.bundles)
        return _rows_of(number, [] if spare else _guarded(self.task, self.bundles[number]))


def _guarded(task: Task[T], bundle: T) -> list[tuple[str, dict[str, Any]]]:
    """Run the task; an error that trying again cannot mend becomes its only row."""
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
