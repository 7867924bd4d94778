"""Filters that Spark may pass to a reader in Python, since Spark 4.1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql.datasource import DataSourceReader


class OptionalFilters:
    """``pushFilters`` of a reader, which a session without filter pushdown may leave uncalled.

    PySpark refuses a reader there that has one of its own: it might rely on receiving the filters.
    One that does not passes for the inherited one. A Spark that looks for it in another way may
    refuse the reader, unless ``spark.sql.python.filterPushdown.enabled`` is ``true``.
    """

    def __init__(self, narrow: Callable[[Any, Any], Any]) -> None:
        self._narrow = narrow

    def __get__(self, reader: Any, _owner: type) -> Any:
        bound: Any = partial(self._narrow, reader)
        inherited = getattr(DataSourceReader, "pushFilters", None)
        if inherited is not None:
            bound.__func__ = inherited
        return bound
