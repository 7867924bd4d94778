"""How Spark's JVM is: memory, threads and garbage collections, as Java itself counts them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
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
        return _beans_of(jvm).facts()
    except (Py4JError, OSError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beans:
    """Where a JVM counts. Each call crosses to Java, so what never changes is asked once."""

    memory: Any
    threads: Any
    collectors: Mapping[str, Any]

    def facts(self) -> JvmFacts:
        return JvmFacts(
            heap_bytes=self.memory.getHeapMemoryUsage().getUsed(),
            other_bytes=self.memory.getNonHeapMemoryUsage().getUsed(),
            threads=self.threads.getThreadCount(),
            collections={
                name: (bean.getCollectionCount(), bean.getCollectionTime() / 1000)
                for name, bean in self.collectors.items()
            },
        )


@lru_cache(maxsize=1)
def _beans_of(jvm: Any) -> _Beans:
    management = jvm.java.lang.management.ManagementFactory
    return _Beans(
        memory=management.getMemoryMXBean(),
        threads=management.getThreadMXBean(),
        collectors={bean.getName(): bean for bean in management.getGarbageCollectorMXBeans()},
    )
