"""Whole records in Parquet are read by Spark, with parquet-java, as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.whole_records import MANY, record, to_column, write

from kafkeep.objects.formats import parquet
from kafkeep.objects.formats.parquet_tables import RecordTables

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]

COLUMNS = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "bigint",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary,key_bytes:binary>>",
}
EXTREMES = [-(1 << 63), (1 << 63) - 1, 0, -1, -(1 << 63)]


@pytest.fixture(params=["true", "false"], ids=["vectors", "rows"])
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session of this process, with one of the two readers that Spark has."""
    session = SparkSession.builder.getOrCreate()
    names = ("enableVectorizedReader", "enableNestedColumnVectorizedReader")
    for name in names:
        session.conf.set(f"spark.sql.parquet.{name}", request.param)
    yield session
    for name in names:
        session.conf.unset(f"spark.sql.parquet.{name}")


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "lz4_raw"])
def test_spark_reads_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: SparkSession, codec: str
) -> None:
    monkeypatch.setattr(parquet, "_SLICE_ROWS", 100)
    monkeypatch.setattr(RecordTables, "group_bytes", 20_000)
    odd = [
        record(number, timestamp=-number - 1, topic=f"t{number % 3}", partition=i)
        for i, number in enumerate(EXTREMES)
    ]
    path = tmp_path / "records.parquet"
    path.write_bytes(write(to_column([*MANY, *odd]), codec=codec))
    frame = session.read.parquet(str(path))
    assert dict(frame.dtypes) == COLUMNS
    assert [row.asDict(recursive=True) for row in frame.collect()] == [*MANY, *odd]
    assert frame.where("offset between 990 and 995").count() == 6
