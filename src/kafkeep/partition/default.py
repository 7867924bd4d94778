"""A directory for each Kafka partition; and the parts every partitioner shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkeep.data.rows import Rows
from kafkeep.partition.extract import Extractor
from kafkeep.partition.partitioner import Partitioner, Placed
from kafkeep.partition.paths import name_part


@dataclass(frozen=True, slots=True)
class DefaultPartitioner:
    """``partition=0``."""

    extractor: Extractor
    """Of times that objects are closed by; no record fails for want of one."""

    def place(self, rows: Rows, *, at_ms: int) -> Placed:
        """Place every record in the directory of its partition."""
        times = self.extractor.read_or_kafka(rows, at_ms=at_ms)
        return Placed(np.zeros(len(rows), np.int32), (f"partition={rows.partition}",), times)


@dataclass(frozen=True, slots=True)
class SchemaNamePartitioner:
    """Another partitioner's directories with ``schema_name=<name>`` before or behind them."""

    inner: Partitioner
    is_prefix: bool
    raw: bool

    def place(self, rows: Rows, *, at_ms: int) -> Placed:
        """Place as ``inner`` does; records without a schema or its name have ``null``."""
        placed = self.inner.place(rows, at_ms=at_ms)
        name = rows.value.schema.name if rows.value.schema is not None else None
        part = name_part("schema_name", name, raw=self.raw)
        paths = (f"{part}/{p}" if self.is_prefix else f"{p}/{part}" for p in placed.paths)
        return Placed(placed.codes, tuple(paths), placed.times)
