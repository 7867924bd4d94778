"""How Spark's JVM is: memory, threads and garbage collections, as Java itself counts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark import SparkContext


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmFacts:
    """The JVM at one moment; ``collections`` has the number and seconds of each collector."""

    heap_bytes: int
    other_bytes: int
    threads: int
    collections: Mapping[str, tuple[int, float]]


def read_jvm() -> JvmFacts | None:
    """Ask the JVM of this process's Spark; None when there is none, or it does not answer."""
    context = SparkContext._active_spark_context
    jvm = None if context is None else context._jvm
    if jvm is None:
        return None
    try:
        management = jvm.java.lang.management.ManagementFactory
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
    except (Py4JError, OSError):
        return None
