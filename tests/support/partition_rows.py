"""Rows for tests of partitioners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import Column, Schema, arrow_type


def json_column(texts: Sequence[bytes | None]) -> Column:
    """Return schemaless values."""
    return Column(None, pa.array(texts, pa.binary()))


def struct_column(schema: Schema, values: Sequence[Any]) -> Column:
    """Return values of a schema."""
    return Column(schema, pa.array(values, arrow_type(schema)))


def make_rows(
    value: Column | Sequence[bytes | None],
    *,
    topic: str = "orders",
    partition: int = 0,
    timestamps: Sequence[int] | None = None,
    offsets: Sequence[int] | None = None,
    key: Column | None = None,
    headers: Sequence[Sequence[tuple[bytes, bytes | None]]] | None = None,
) -> Rows:
    """Return records of one partition; offsets count from 100."""
    column = value if isinstance(value, Column) else json_column(value)
    count = len(column)
    entries = [[{"key": k, "value": v} for k, v in each] for each in headers or [()] * count]
    return Rows(
        topic=topic,
        partition=partition,
        offsets=np.array(offsets if offsets is not None else range(100, 100 + count), np.int64),
        timestamps=np.array(timestamps if timestamps is not None else [0] * count, np.int64),
        key=key or json_column([None] * count),
        value=column,
        headers=pa.array(entries, HEADERS_TYPE),
    )
