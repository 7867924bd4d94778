"""Where PySpark looks for ``format("kafkeep")``: it imports each module named ``pyspark_*``."""

from __future__ import annotations

from kafkeep.spark.datasource.source import KafkeepSource


class DefaultSource(KafkeepSource):
    """The name PySpark looks for."""


__all__ = ["DefaultSource"]
