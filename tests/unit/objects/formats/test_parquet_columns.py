"""Values on the edge of what a Parquet column holds."""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkeep.errors import RecordError
from kafkeep.objects.formats.parquet import ParquetFormat
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.records.schema import DECIMAL, Column, Field, Kind, Schema, arrow_type

PARQUET = ParquetFormat(FormatOptions(format_class=FormatKind.PARQUET, parquet_codec="none"))


def decimals(precision: int | None, *values: bytes | None) -> Column:
    digits = () if precision is None else (("connect.decimal.precision", str(precision)),)
    number = Schema(
        kind=Kind.BYTES, optional=True, name=DECIMAL, parameters=(*digits, ("scale", "2"))
    )
    struct = Schema(kind=Kind.STRUCT, name="N", fields=(Field("n", number),))
    return Column(struct, pa.array([{"n": value} for value in values], arrow_type(struct)))


def write(column: Column) -> bytes:
    encoder = PARQUET.encoder(column.schema)
    encoder.check(column)
    return encoder.add(column) + encoder.finish()


def two_complement(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big", signed=True)


@pytest.mark.parametrize(("precision", "digits"), [(None, 64), (20, 20), (38, 38), (76, 76)])
def test_decimals_are_annotated_bytes_as_few_as_each_needs(
    precision: int | None, digits: int
) -> None:
    """No bytes at all are 0, and sign bytes that say nothing are dropped: readers fail on both."""
    longest = two_complement(1 - 10**digits, 33)
    values = (b"", two_complement(-5, 40), two_complement(10**18, 8), None, longest)
    data = write(decimals(precision, *values))
    file = pq.ParquetFile(io.BytesIO(data))
    assert f"optional binary field_id=-1 n (Decimal(precision={digits}, scale=2))" in str(
        file.schema
    )
    least = Decimal("-" + "9" * (digits - 2) + ".99")
    numbers = [0, Decimal("-0.05"), Decimal(10**16), None, least]
    assert file.read().column("n").to_pylist() == numbers
    (found,) = PARQUET.read(io.BytesIO(data))
    needed = [b"\0", b"\xfb", two_complement(10**18, 8), None]
    assert [row["n"] for row in found.array.to_pylist()][:4] == needed


@pytest.mark.parametrize(("precision", "digits"), [(None, 64), (20, 20), (76, 76)])
def test_a_decimal_of_too_many_digits_is_refused(precision: int | None, digits: int) -> None:
    with pytest.raises(RecordError, match="more digits"):
        write(decimals(precision, two_complement(10**digits, 33)))


def test_decimals_get_no_bounds_because_readers_order_them_as_numbers() -> None:
    group = pq.ParquetFile(io.BytesIO(write(decimals(10, b"\xff", b"\x01")))).metadata.row_group(0)
    assert not group.column(0).is_stats_set or not group.column(0).statistics.has_min_max


def test_decimals_of_more_digits_than_any_reader_knows_are_plain_bytes() -> None:
    file = pq.ParquetFile(io.BytesIO(write(decimals(90, b"\x01"))))
    assert file.schema_arrow.field("n").type == pa.binary()


def test_required_members_of_a_null_struct_are_written() -> None:
    """The task failed: "declared non-nullable but contains nulls"."""
    inner = Schema(kind=Kind.STRUCT, optional=True, fields=(Field("v", Schema(kind=Kind.STRING)),))
    items = Schema(kind=Kind.ARRAY, items=inner)
    outer = Schema(
        kind=Kind.STRUCT, optional=True, fields=(Field("one", inner), Field("many", items))
    )
    struct = Schema(kind=Kind.STRUCT, name="S", fields=(Field("o", outer),))
    rows = [{"o": None}, {"o": {"one": None, "many": [None, {"v": "x"}]}}]
    column = Column(struct, pa.array(rows, arrow_type(struct)))
    (found,) = PARQUET.read(io.BytesIO(write(column)))
    assert found.array.to_pylist() == rows
