"""Whole Kafka records for tests of Parquet: rows of any kind, and their files."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from kafkeep.objects.formats.envelope import KAFKA_RECORD
from kafkeep.objects.formats.parquet import ParquetFormat
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.records.schema import Column, arrow_type

TYPE = arrow_type(KAFKA_RECORD)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SOME_BYTES = st.none() | st.binary(max_size=12) | st.integers(0, 90).map(bytes)


def record(offset: int = 0, **members: Any) -> dict[str, Any]:
    """Return a record, of which only what is given differs from the simplest one."""
    simple = {"topic": "orders", "partition": 0, "offset": offset, "timestamp": 0}
    return {**simple, "key": None, "value": None, "headers": [], **members}


MANY: list[dict[str, Any]] = [
    record(
        offset,
        timestamp=1733219880000 + offset % 7,
        key=None if offset % 5 == 0 else b"%d" % offset,
        value=None if offset % 11 == 0 else b"value %d" % offset * (offset % 13),
        headers=[
            {"key": f"h{i}", "value": b"x" * i or None, "key_bytes": b"\xff" if i == 2 else None}
            for i in range(offset % 4)
        ],
    )
    for offset in range(1000)
]
"""Records with and without everything that one can have or lack."""


def to_column(rows: list[dict[str, Any]]) -> Column:
    return Column(KAFKA_RECORD, pa.array(rows, TYPE))


@st.composite
def records(draw: st.DrawFn) -> Column:
    """Draw records, some of them many times in a row."""
    header = st.fixed_dictionaries(
        {"key": st.text(max_size=3), "value": SOME_BYTES, "key_bytes": SOME_BYTES}
    )
    names = st.just("orders") | st.sampled_from(["orders", "", "größe"])
    row = st.fixed_dictionaries(
        {
            "topic": names if draw(st.booleans()) else st.just("orders"),
            "partition": INT32 if draw(st.booleans()) else st.just(3),
            "offset": INT64 | st.integers(0, 1000),
            "timestamp": INT64 | st.integers(1 << 40, (1 << 40) + 1000),
            "key": SOME_BYTES,
            "value": SOME_BYTES,
            "headers": st.lists(header, max_size=3) if draw(st.booleans()) else st.just([]),
        }
    )
    runs = draw(st.lists(st.tuples(row, st.integers(1, 30)), max_size=20))
    return to_column([row for row, count in runs for _ in range(count)])


def write(*pieces: Column, codec: str = "zstd") -> bytes:
    """Return a file as the sink writes it."""
    options = FormatOptions(format_class=FormatKind.PARQUET, parquet_codec=codec)
    encoder = ParquetFormat(options).encoder(KAFKA_RECORD)
    return b"".join([*(encoder.add(piece) for piece in pieces), encoder.finish()])


def open_file(data: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(data))


def rows_of(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_file(data).read().to_pylist()
    return found
