"""Classic sessions: their context, their JVM, their RDDs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import RDD, SparkConf, SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.sql import SparkSession

P = ParamSpec("P")
R = TypeVar("R")


def active_context() -> SparkContext | None:
    """Return the context of this process, whichever thread asks; else that of this thread."""
    if hasattr(SparkContext, "_active_spark_context"):
        return SparkContext._active_spark_context
    active = SparkSession.getActiveSession()
    return None if active is None else active.sparkContext


def is_classic(session: SparkSession) -> bool:
    """Tell whether a session's driver is in this process; a session of Spark Connect has none."""
    return hasattr(session, "_jsparkSession") or "connect" not in type(session).__module__


def jvm_of(context: SparkContext) -> Any:
    """Return the view of the JVM through which Java's classes are reached; None without one."""
    return getattr(context, "_jvm", None)


def is_stopped(context: SparkContext) -> bool:
    """Tell whether Spark has ended the application; False when it does not say."""
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Exception:
        return False


def concurrent_tasks(context: SparkContext) -> int | None:
    """Return how many tasks the scheduler runs at once, 0 without executors; None if unknown."""
    with suppress(Exception):
        scala: Any = context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return int(scala.maxNumConcurrentTasks(profile))
    return None


def count_executors(context: SparkContext) -> int:
    """Return how many executors run, without the driver, which Spark lists too; 0 when unknown."""
    with suppress(Exception):
        return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
    return 0


def inherit_properties(context: SparkContext, work: Callable[P, R]) -> Callable[P, R]:
    """Return ``work`` for other threads: there it takes over this thread's properties.

    They are the job group and the pool that the caller of a job has set. Each Python thread has a
    JVM thread with properties of its own.
    """
    try:
        properties = context._jsc.sc().getLocalProperties().clone()
    except (AttributeError, TypeError, Py4JError):
        return work

    @wraps(work)
    def run(*given: P.args, **named: P.kwargs) -> R:
        # A copy: threads that share the object would see each other's job groups.
        context._jsc.sc().setLocalProperties(properties.clone())
        return work(*given, **named)

    return run


def silence_accumulators(context: SparkContext) -> None:
    """Keep the server of accumulators from printing a traceback when the JVM dies under it."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = _ignore


def _ignore(*_: object) -> None:
    pass


def let_interrupts_through() -> None:
    """Let Ctrl-C raise KeyboardInterrupt in this thread, if it is the main one.

    PySpark's handler asks the JVM to cancel all jobs. That fails while this thread reads an answer,
    and before 4.2 the failure took the place of the interrupt: the job's tasks continued.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    ask = signal.getsignal(signal.SIGINT)
    if not callable(ask) or getattr(ask, "__qualname__", "") != _PYSPARK_HANDLER:
        return

    def interrupt(number: int, frame: Any) -> None:
        with suppress(Exception):
            ask(number, frame)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


_PYSPARK_HANDLER = "SparkContext._do_init.<locals>.signal_handler"


def launch_logged_jvm(conf: SparkConf, log: Path) -> bool:
    """Start the JVM of the next session by ``spark-submit``, with all it prints in ``log``.

    Returns False when a JVM is there, or PySpark has no such way: then the session starts its own.
    """
    try:
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - may not be there

        if SparkContext._gateway is not None:
            return False
    except (ImportError, AttributeError):
        return False
    with log.open("ab") as output:
        SparkContext._gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
    SparkContext._jvm = SparkContext._gateway.jvm
    return True


def forget_jvm() -> None:
    """Let a later session of this process start a JVM of its own.

    A session whose JVM died cannot stop in order, and would be found active for ever.
    """
    gateway = getattr(SparkContext, "_gateway", None)
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if gateway is not None:
        with suppress(Exception):  # it may have died
            gateway.shutdown()


def forget_context() -> None:
    """Let no context be found active: one that did not start whole."""
    SparkContext._active_spark_context = None


def make_rdd(context: SparkContext, parts: Sequence[bytes]) -> RDD[bytes]:
    """Return an RDD with one partition for each part.

    The parts go to the JVM in one call, and in memory: they hold secrets. In the public way they
    pass through a temporary file, which nobody else can read and which is removed at once.
    """
    try:
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        java: Any = context._jvm
        stream = java.java.io.ByteArrayInputStream(bytearray(framed))
        rows = java.PythonRDD.readRDDFromInputStream(context._jsc.sc(), stream, len(parts))
        return RDD(rows, context, NoOpSerializer())
    except (Py4JJavaError, Py4JNetworkError):
        raise  # Spark itself refuses, or has died
    except (AttributeError, TypeError, Py4JError):
        return context.parallelize(parts, len(parts))


def describe_to_jvm(job: RDD[Any]) -> None:
    """Pickle the function of an RDD and hand it to the JVM now; else its first action does."""
    getattr(job, "_jrdd", None)
