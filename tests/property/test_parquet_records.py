"""Whole records in Parquet: the same file, however the rows were handed over."""

from __future__ import annotations

from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.connect_values import cuts
from tests.support.whole_records import (
    INT64,
    TYPE,
    open_file,
    record,
    records,
    rows_of,
    to_column,
    write,
)

from kafkeep.objects.formats import parquet
from kafkeep.objects.formats.parquet_tables import RecordTables
from kafkeep.records.schema import Column

LIMITS = {
    "slice_rows": st.sampled_from([1, 7, 64, 8192]),
    "group_bytes": st.sampled_from([1, 500, 16 << 20]),
    "group_rows": st.sampled_from([1, 50, 1 << 20]),
}


@settings(max_examples=150, deadline=None)
@given(column=records(), limits=st.fixed_dictionaries(LIMITS), data=st.data())
def test_files_have_the_rows_and_columns_given_and_bytes_that_repeat(
    column: Column, limits: dict[str, int], data: st.DataObject
) -> None:
    with (
        patch.object(parquet, "_SLICE_ROWS", limits["slice_rows"]),
        patch.object(RecordTables, "group_bytes", limits["group_bytes"]),
        patch.object(parquet, "GROUP_ROWS", limits["group_rows"]),
    ):
        whole = write(column)
        pieces = [column.slice(*cut) for cut in data.draw(cuts(len(column)))]
        assert write(*pieces) == whole
    assert rows_of(whole) == column.array.to_pylist()
    file = open_file(whole)
    assert file.schema_arrow.equals(pa.schema(list(TYPE)))
    check_footer(file, column)


def check_footer(file: pq.ParquetFile, column: Column) -> None:
    """Compare what is said of each column with the rows of its group."""
    done = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        rows = column.array.slice(done, group.num_rows)
        done += group.num_rows
        for place, name in enumerate(("topic", "partition", "offset", "timestamp", "key", "value")):
            found, values = group.column(place), rows.field(name)
            assert (found.path_in_schema, found.num_values) == (name, group.num_rows)
            if name in {"partition", "offset", "timestamp"}:
                assert found.statistics.min == pc.min(values).as_py()
                assert found.statistics.max == pc.max(values).as_py()
                assert found.statistics.null_count == 0
            else:
                assert not found.is_stats_set
        levels = sum(max(1, len(headers)) for headers in rows.field("headers").to_pylist())
        assert [group.column(place).num_values for place in (6, 7, 8)] == [levels] * 3
    assert done == len(column)


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(INT64 | st.integers(-3, 3), st.integers(1, 200)), max_size=6),
    start=INT64,
)
def test_any_numbers_come_back(steps: list[tuple[int, int]], start: int) -> None:
    deltas = np.array([start, *(step for step, count in steps for _ in range(count))])
    numbers = np.cumsum(deltas.astype(np.int64)).tolist()
    data = write(to_column([record(number, timestamp=~number) for number in numbers]))
    found = open_file(data).read(["offset", "timestamp"])
    assert found["offset"].to_pylist() == numbers
    assert found["timestamp"].to_pylist() == [~number for number in numbers]


@settings(max_examples=25, deadline=None)
@given(column=records())
def test_duckdb_reads_the_same_rows(
    column: Column, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("duckdb") / "records.parquet"
    path.write_bytes(write(column))
    with duckdb.connect() as database:
        found = database.execute(f"select * from read_parquet('{path}')").fetchall()
    assert found == [tuple(row.values()) for row in column.array.to_pylist()]
