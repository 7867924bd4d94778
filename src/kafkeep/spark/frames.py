"""Jobs as Spark sees them: numbers in, rows out, whatever their tasks do.

To describe a DataFrame to the JVM and to have it planned takes a tenth of a second, longer than
many a job. So one for each number of tasks is made and kept with its session; what tasks are to do
travels beside it, as a property of the job, and each worker looks it up.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from cryptography.fernet import Fernet
from py4j.clientserver import ClientServer
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from kafkeep.spark.session import is_classic

RunOne = Callable[[int], pa.RecordBatch]
"""Does the work of one bundle, by its number, and returns its rows."""
_Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ROWS = pa.schema([("bundle", pa.int64()), ("kind", pa.string()), ("body", pa.binary())])
_SPARK_ROWS = StructType(
    [
        StructField("bundle", LongType()),
        StructField("kind", StringType()),
        StructField("body", BinaryType()),
    ]
)
"""The same for Spark, which would ask the JVM to read it out of a text."""
WORK = "kafkeep.work"
MAX_PROPERTY_BYTES = 256 * 1024
"""Each task gets a copy of the job's properties; what is larger travels with the function."""
_KEPT = "_kafkeep_frames"


@dataclass(slots=True)
class _Kept:
    """What a session keeps: Spark shows and logs properties, so they are sealed.

    The key is in the function, which is neither shown nor logged.
    """

    key: bytes = field(default_factory=Fernet.generate_key)
    by_count: dict[int, DataFrame] = field(default_factory=dict)


@contextmanager
def described(
    session: SparkSession, count: int, run_one: RunOne, *, spare: int = 0
) -> Iterator[DataFrame]:
    """Hand out what is to be collected: ``run_one`` for each number below ``count``, a task each.

    Where that saves describing another, there are up to ``spare`` tasks more, with the next
    numbers. It is this thread's to collect, and not after the body has ended.
    """
    work = cloudpickle.dumps(run_one)
    if not has_own_properties(session) or len(work) > MAX_PROPERTY_BYTES:
        yield _describe(session, count, _carrying(run_one))
        return
    kept: _Kept | None = vars(session).get(_KEPT)
    if kept is None:
        kept = vars(session)[_KEPT] = _Kept()
    count = min((one for one in kept.by_count if count <= one <= count + spare), default=count)
    if count not in kept.by_count:
        kept.by_count[count] = _describe(session, count, _looking_up(kept.key))
    sealed = Fernet(kept.key).encrypt(work).decode()
    session.sparkContext.setLocalProperty(WORK, sealed)
    try:
        yield kept.by_count[count]
    finally:
        with suppress(Exception):  # the gateway may be gone, and the property with it
            session.sparkContext.setLocalProperty(WORK, None)


def has_own_properties(session: SparkSession) -> bool:
    """Tell whether properties of a job are those of the thread that set them.

    Spark Connect has none. With PYSPARK_PIN_THREAD=false they are those of whichever thread of the
    JVM is at hand: a job would run another one's work, or find none.
    """
    return is_classic(session) and isinstance(session.sparkContext._gateway, ClientServer)


def _describe(session: SparkSession, count: int, run: _Run) -> DataFrame:
    return session.range(0, count, 1, count).mapInArrow(run, _SPARK_ROWS)


def _carrying(run_one: RunOne) -> _Run:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _run_all(batches, run_one)

    return run


def _looking_up(key: bytes) -> _Run:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context: Any = TaskContext.get()
        work = Fernet(key).decrypt(context.getLocalProperty(WORK))
        return _run_all(batches, pickle.loads(work))

    return run


def _run_all(batches: Iterator[pa.RecordBatch], run_one: RunOne) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield run_one(number)
