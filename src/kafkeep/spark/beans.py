"""How Spark's JVM is: memory, threads and garbage collections, as Java itself counts them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmFacts:
    """The JVM at one moment; ``collections`` has the number and seconds of each collector."""

    heap_bytes: int
    other_bytes: int
    threads: int
    collections: Mapping[str, tuple[int, float]]


def read_jvm() -> JvmFacts | None:
    """Ask the JVM of this process's Spark; None when there is none, or it does not answer.

    A process that has not needed Spark yet does not load it for this.
    """
    if "pyspark" not in sys.modules:
        return None
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark import SparkContext  # noqa: PLC0415

    context = SparkContext._active_spark_context
    jvm = None if context is None else context._jvm
    if jvm is None:
        return None
    try:
        return _facts(jvm.java.lang.management.ManagementFactory)
    except (Py4JError, OSError):
        return None


def _facts(management: Any) -> JvmFacts:
    memory = management.getMemoryMXBean()
    return JvmFacts(
        heap_bytes=memory.getHeapMemoryUsage().getUsed(),
        other_bytes=memory.getNonHeapMemoryUsage().getUsed(),
        threads=management.getThreadMXBean().getThreadCount(),
        collections={
            bean.getName(): (bean.getCollectionCount(), bean.getCollectionTime() / 1000)
            for bean in management.getGarbageCollectorMXBeans()
        },
    )
