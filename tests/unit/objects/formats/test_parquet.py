import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.connect_values import columns, cuts, same, schemas, structs, unscaled
from tests.support.golden.cases import load_cases
from tests.support.golden.compare import compare
from tests.support.whole_records import record, to_column

from kafkeep.errors import DamagedError, RecordError
from kafkeep.objects.formats import parquet, parquet_json, parquet_tables
from kafkeep.objects.formats.envelope import KAFKA_RECORD
from kafkeep.objects.formats.parquet import ParquetFormat
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.records.schema import (
    DATE,
    DECIMAL,
    OPTIONAL_STRING,
    TIME,
    TIMESTAMP,
    Column,
    Field,
    Kind,
    Schema,
    arrow_type,
)

TEXT = Schema(kind=Kind.STRING)
INT = Schema(kind=Kind.INT32)


def parquet_format(codec: str = "snappy", view: str = "value") -> ParquetFormat:
    return ParquetFormat(FormatOptions(format_class=FormatKind.PARQUET, parquet_codec=codec), view)


def write(made: ParquetFormat, *pieces: Column) -> bytes:
    encoder = made.encoder(pieces[0].schema)
    return b"".join([*(encoder.add(piece) for piece in pieces), encoder.finish()])


def read(made: ParquetFormat, data: bytes) -> list[Any]:
    return [row for piece in made.read(io.BytesIO(data)) for row in piece.array.to_pylist()]


def table(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data))


def view_of(key: str) -> str:
    return next((view for view in ("keys", "headers") if f".{view}." in key), "value")


def golden_objects() -> list[Any]:
    return [
        pytest.param(case.config, key, data, id=f"{case.number} {key}")
        for case in load_cases()
        for key, data in case.objects.items()
        if key.endswith(".parquet")
    ]


@pytest.mark.parametrize(("config", "key", "data"), golden_objects())
def test_objects_of_the_real_sink_are_read_and_written_the_same(
    config: dict[str, str], key: str, data: bytes
) -> None:
    made = parquet_format(config.get("parquet.codec", "snappy"), view_of(key))
    again = write(made, *made.read(io.BytesIO(data)))
    assert compare({key: data}, {key: again}) == []
    told, found = (
        json.loads(table(d).schema.metadata[b"parquet.avro.schema"]) for d in (data, again)
    )
    assert found == told
    assert key.endswith(made.extension)


@settings(max_examples=50, deadline=None)
@given(
    column=columns(schemas() | structs(schemas())),
    view=st.sampled_from(["value", "keys", "headers"]),
    data=st.data(),
)
def test_columns_come_back_with_their_schema_however_they_were_cut(
    column: Column, view: str, data: st.DataObject
) -> None:
    made = parquet_format("zstd", view)
    whole = write(made, column)
    pieces = list(made.read(io.BytesIO(whole)))
    assert {piece.schema for piece in pieces} <= {column.schema}
    rows = [row for piece in pieces for row in piece.array.to_pylist()]
    assert same(rows, column.array.to_pylist())
    ranges = data.draw(cuts(len(column)))
    assert write(made, *(column.slice(start, stop) for start, stop in ranges)) == whole


RICH = Schema(
    kind=Kind.STRUCT,
    name="shop.Rich",
    fields=(
        Field("i8", Schema(kind=Kind.INT8)),
        Field(
            "price",
            Schema(
                kind=Kind.BYTES,
                name=DECIMAL,
                version=1,
                optional=True,
                parameters=(("connect.decimal.precision", "12"), ("scale", "2")),
            ),
        ),
        Field(
            "open",
            Schema(kind=Kind.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),)),
        ),
        Field("placed", Schema(kind=Kind.INT64, name=TIMESTAMP, version=1)),
        Field("day", Schema(kind=Kind.INT32, name=DATE, version=1)),
        Field("at", Schema(kind=Kind.INT32, name=TIME, version=1)),
        Field("tags", Schema(kind=Kind.ARRAY, items=TEXT)),
        Field("attrs", Schema(kind=Kind.MAP, keys=TEXT, items=INT.as_optional(), optional=True)),
    ),
)
ROWS = [
    {
        "i8": -7,
        "price": unscaled(54761029),
        "open": unscaled(-(10**50)),
        "placed": 1733219880001,
        "day": 20060,
        "at": 35880000,
        "tags": ["a", "b"],
        "attrs": [("x", 1), ("y", None)],
    },
    {
        "i8": 0,
        "price": None,
        "open": unscaled(0),
        "placed": -1,
        "day": -1,
        "at": 0,
        "tags": [],
        "attrs": None,
    },
]


def rich() -> Column:
    return Column(RICH, pa.array(ROWS, arrow_type(RICH)))


def test_logical_types_are_parquets() -> None:
    found = table(write(parquet_format(), rich())).schema
    assert found.field("i8").type == pa.int32()
    assert found.field("price").type == pa.decimal128(12, 2)
    assert found.field("open").type == pa.decimal256(64, 2)
    assert found.field("placed").type == pa.timestamp("ms", "UTC")
    assert found.field("day").type == pa.date32()
    assert found.field("at").type == pa.time32("ms")
    assert [found.field(name).nullable for name in ("i8", "price", "attrs")] == [False, True, True]


def test_duckdb_reads_typed_columns(tmp_path: Path) -> None:
    path = tmp_path / "rich.parquet"
    path.write_bytes(write(parquet_format("zstd"), rich()))
    with duckdb.connect() as database:
        first, second = database.execute(
            "select i8, price, epoch_ms(placed), day::text, \"at\"::text, tags, attrs['x'] "
            f"from read_parquet('{path}')"
        ).fetchall()
    assert first == (
        -7,
        Decimal("547610.29"),
        1733219880001,
        "2024-12-03",
        "09:58:00+00",
        ["a", "b"],
        1,
    )
    assert second == (0, None, -1, "1969-12-31", "00:00:00+00", [], None)


@pytest.mark.parametrize(
    ("codec", "extension", "inside"),
    [
        ("none", ".parquet", "UNCOMPRESSED"),
        ("snappy", ".snappy.parquet", "SNAPPY"),
        ("gzip", ".gz.parquet", "GZIP"),
        ("brotli", ".br.parquet", "BROTLI"),
        ("lz4", ".lz4.parquet", "LZ4"),
        ("lz4_raw", ".lz4raw.parquet", "LZ4_RAW"),
        ("zstd", ".zstd.parquet", "ZSTD"),
    ],
)
def test_every_codec_is_written_under_its_name(codec: str, extension: str, inside: str) -> None:
    made = parquet_format(codec)
    data = write(made, rich())
    assert made.extension == extension
    file = pq.ParquetFile(io.BytesIO(data))
    assert file.metadata.row_group(0).column(0).compression.startswith(inside.removesuffix("_RAW"))
    assert read(made, data) == ROWS


def test_row_groups_end_after_the_row_that_fills_them_and_bytes_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet_tables.TypedTables, "group_bytes", 1000)
    monkeypatch.setattr(parquet, "GROUP_ROWS", 300)
    texts = [str(i) * (i % 7) for i in range(2000)]
    column = Column(OPTIONAL_STRING, pa.array(texts, pa.string()))
    made = parquet_format()
    whole = write(made, column)
    assert write(made, *(column.slice(i, i + 1) for i in range(2000))) == whole
    assert write(made, column.slice(0, 77), column.slice(77, 78), column.slice(78, 2000)) == whole
    assert pq.ParquetFile(io.BytesIO(whole)).metadata.num_row_groups > 6
    assert table(whole).column("value").to_pylist() == texts
    assert read(made, whole) == texts


def test_an_encoder_counts_what_it_holds_and_flush_frees_it() -> None:
    column = Column(OPTIONAL_STRING, pa.array(["x" * 1000] * 1000, pa.string()))
    encoder = parquet_format().encoder(OPTIONAL_STRING)
    first = encoder.add(column)
    assert encoder.buffered_bytes > 1_000_000
    middle = encoder.flush()
    assert encoder.buffered_bytes == 0
    assert table(first + middle + encoder.finish()).num_rows == 1000


def test_what_waits_counts_as_much_as_it_takes_in_memory_where_values_are_small() -> None:
    topic = "t" * 200
    records = to_column([record(i, topic=topic, value=b"small") for i in range(1000)])
    encoder = parquet_format().encoder(KAFKA_RECORD)
    encoder.add(records.slice(0, 300))
    encoder.add(records.slice(300, 1000))
    assert encoder.buffered_bytes >= 1000 * (len(topic) + 5 + 8 + 8)
    numbers = tuple(Field(f"n{i}", Schema(kind=Kind.INT64, optional=True)) for i in range(50))
    sparse = Schema(kind=Kind.STRUCT, fields=numbers)
    encoder = parquet_format().encoder(sparse)
    encoder.add(Column(sparse, pa.array([{"n0": 1}] * 1000, arrow_type(sparse))))
    assert encoder.buffered_bytes >= 1000 * 50 * 8


@pytest.mark.parametrize("schema", [OPTIONAL_STRING, RICH, None])
def test_an_object_without_rows_is_readable(schema: Schema | None) -> None:
    data = parquet_format().encoder(schema).finish()
    assert table(data).num_rows == 0
    assert read(parquet_format(), data) == []


def test_keys_and_headers_are_wrapped_as_connect_does_and_only_once() -> None:
    keys = Column(OPTIONAL_STRING, pa.array(["a", None]))
    assert table(write(parquet_format(view="keys"), keys)).to_pylist() == [
        {"key": "a"},
        {"key": None},
    ]
    wrapped = Schema(
        kind=Kind.STRUCT,
        name="RecordHeaders",
        fields=(Field("headers", Schema(kind=Kind.ARRAY, items=TEXT)),),
    )
    rows = [{"headers": ["x"]}]
    column = Column(wrapped, pa.array(rows, arrow_type(wrapped)))
    assert table(write(parquet_format(view="headers"), column)).to_pylist() == rows


@pytest.mark.parametrize("member", [INT, INT.as_optional()])
def test_null_rows_are_distinguished_from_rows_of_nulls(member: Schema) -> None:
    schema = Schema(
        kind=Kind.STRUCT,
        name="T",
        optional=True,
        fields=(Field("a", TEXT.as_optional()), Field("b", member)),
    )
    rows = [{"a": "x", "b": 1}, None, {"a": None, "b": None if member.optional else 2}]
    data = write(parquet_format(), Column(schema, pa.array(rows, arrow_type(schema))))
    assert read(parquet_format(), data) == rows
    assert table(data).column("b").to_pylist()[1] is None
    assert ("_null" in table(data).column_names) == member.optional


def test_structs_without_members_and_times_out_of_range_are_kept() -> None:
    empty = Schema(kind=Kind.STRUCT, name="E", optional=True)
    rows = [{}, None, {}]
    data = write(parquet_format(), Column(empty, pa.array(rows, arrow_type(empty))))
    assert read(parquet_format(), data) == rows
    time = Schema(kind=Kind.INT32, name=TIME, version=1)
    data = write(parquet_format(), Column(time, pa.array([-1, 1 << 30], pa.int32())))
    assert read(parquet_format(), data) == [-1, 1 << 30]


def test_a_text_that_is_not_utf8_is_damage() -> None:
    column = Column(OPTIONAL_STRING, pa.array(["unlikely text"]))
    data = write(parquet_format("none"), column).replace(b"unlikely text", b"unlikely\xfftext")
    with pytest.raises(DamagedError, match="UTF"):
        read(parquet_format(), data)


def test_a_decimal_that_its_precision_does_not_hold_is_refused() -> None:
    schema = Schema(kind=Kind.STRUCT, fields=(RICH.fields[1],))
    for number in (10**12, -(10**12), 10**45):
        column = Column(schema, pa.array([{"price": unscaled(number)}], arrow_type(schema)))
        with pytest.raises(RecordError, match="more digits"):
            write(parquet_format(), column)


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), cut=st.booleans())
def test_damage_is_named_or_makes_other_values_of_the_schema_in_the_file(
    place: float, byte: int, cut: bool
) -> None:
    whole = write(parquet_format("none"), rich())
    data = bytearray(whole)
    at = int(place * len(data))
    if cut:
        del data[at:]
    else:
        data[at] = byte
    try:
        pieces = list(parquet_format().read(io.BytesIO(data)))
    except DamagedError:
        assert data != whole
        return
    assert not cut  # the footer is at the end
    for piece in pieces:
        piece.array.validate(full=True)
        assert piece.schema is not None and piece.array.type == arrow_type(piece.schema)
    if data == whole:
        assert [row for piece in pieces for row in piece.array.to_pylist()] == ROWS


def test_a_file_of_another_writer_is_read_by_its_columns() -> None:
    sink = io.BytesIO()
    rows = [{"a": 1, "b": ["x"], "c": {"d": 1.5}}, {"a": None, "b": [], "c": None}]
    pq.write_table(pa.Table.from_pylist(rows), sink)
    assert read(parquet_format(), sink.getvalue()) == rows


def json_column(*texts: bytes) -> Column:
    return Column(None, pa.array(texts, pa.binary()))


def exactly(text: bytes) -> Any:
    """Parse JSON with exact numbers; objects as sorted pairs, so that order does not count."""

    def pairs(members: list[tuple[str, Any]]) -> Any:
        return ("object", sorted(members, key=lambda member: (member[0], repr(member[1]))))

    def number(spelled: str) -> Any:
        return ("number", Decimal(spelled).normalize(), spelled.startswith("-"))

    return json.loads(text, parse_float=number, parse_int=number, object_pairs_hook=pairs)


def test_columns_are_inferred_from_json() -> None:
    column = json_column(
        b'{"id":1,"price":1.5,"ok":true,"name":"a","tags":["x"],"at":{"zip":1},"odd":1}',
        b'{"id":2,"price":2.5,"ok":null,"name":"b","tags":[],"at":{"zip":2},"odd":"one"}',
    )
    data = write(parquet_format(), column)
    found = table(data)
    assert {field.name: str(field.type) for field in found.schema} == {
        "id": "int64",
        "price": "double",
        "ok": "bool",
        "name": "string",
        "tags": "list<element: string>",
        "at": "struct<zip: int64>",
        "odd": "string",
        "_json": "string",
    }
    assert found.column("odd").to_pylist() == ["1", '"one"']
    assert found.column("_json").null_count == 2
    assert read(parquet_format(), data) == column.array.to_pylist()


def test_duckdb_reads_inferred_columns(tmp_path: Path) -> None:
    path = tmp_path / "inferred.parquet"
    rows = [b'{"id":%d,"at":{"zip":%d}}' % (i, i % 3) for i in range(100)]
    path.write_bytes(write(parquet_format("zstd"), json_column(*rows)))
    with duckdb.connect() as database:
        found = database.execute(
            'select ("at").zip, count(*), sum(id) '
            f"from read_parquet('{path}') group by 1 order by 1"
        ).fetchall()
    assert found == [(0, 34, 1683), (1, 33, 1617), (2, 33, 1650)]


NUMBERS = [
    b"9223372036854775808",
    b"123456789012345678901234567890",
    b"3.14159265358979323846",
    b"1e400",
    b"-0",
    b"1.0",
    b"9007199254740993",
]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("others", [b"1", b"1.5", b'"x"', b"null"])
def test_no_number_changes(number: bytes, others: bytes) -> None:
    texts = [b'{"n":%b}' % text for text in (others, number, others)]
    found = read(parquet_format(), write(parquet_format(), json_column(*texts)))
    assert [exactly(text) for text in found] == [exactly(text) for text in texts]


def test_rows_that_do_not_fit_the_columns_of_the_first_group_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parquet_json.JsonTables, "group_bytes", 20)
    texts = [
        b'{"a":1,"b":"x"}',
        b'{"a":2,"b":"y"}',
        b'{"a":"text","b":"z"}',
        b'{"a":3}',
        b'{"a":4,"b":null}',
        b'{"a":5,"b":"x","new":[1,{"c":2}]}',
        b"[1,2]",
        b'"just text"',
        b'{"a":6,"b":"w"}',
        b'{"a":1,"a":2,"b":"v"}',
        b'{"A":1,"a":2,"b":"v","":0}',
    ]
    column = json_column(*texts)
    data = write(parquet_format(), column)
    assert write(parquet_format(), *(column.slice(i, i + 1) for i in range(len(texts)))) == data
    assert pq.ParquetFile(io.BytesIO(data)).metadata.num_row_groups > 3
    found = read(parquet_format(), data)
    assert [exactly(text) for text in found] == [exactly(text) for text in texts]
    whole = table(data).column("_json").to_pylist()
    assert [i for i, text in enumerate(whole) if text is None] == [0, 1, 4, 8]
    assert table(data).column("a").to_pylist()[5] == 5


def test_json_that_is_no_object_is_one_column_of_texts() -> None:
    column = json_column(b"1", b'"x"', b"[1e400]")
    data = write(parquet_format(), column)
    assert table(data).column_names == ["value"]
    assert read(parquet_format(), data) == column.array.to_pylist()
    keys = json_column(b'{"id":1}')
    assert table(write(parquet_format(view="keys"), keys)).to_pylist() == [{"key": '{"id":1}'}]


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "A", "", "_json", "ü"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(documents, min_size=1, max_size=8), compact=st.booleans())
def test_any_json_comes_back(rows: list[Any], compact: bool) -> None:
    separators = (",", ":") if compact else None
    texts = [json.dumps(row, separators=separators).encode() for row in rows]
    found = read(parquet_format(), write(parquet_format(), json_column(*texts)))
    assert [exactly(text) for text in found] == [exactly(text) for text in texts]


@pytest.mark.parametrize("dictionary", [False, True])
def test_one_large_value_does_not_cut_a_row_group_into_many_pieces(dictionary: bool) -> None:
    count = 20_000
    texts = {name: [f"{name}{n}" for n in range(count)] for name in "abcd"}
    texts["b"][7] = "x" * (8 << 20)
    body = io.BytesIO()
    pq.write_table(pa.table(texts), body, use_dictionary=dictionary, store_schema=False)
    pieces = list(parquet_format().read(io.BytesIO(body.getvalue())))
    assert len(pieces) <= 4
    rows = [row for piece in pieces for row in piece.array.to_pylist()]
    assert [row["b"] for row in rows] == texts["b"]


@pytest.mark.parametrize("first", [0, 4_000])
def test_a_large_value_that_is_repeated_late_does_not_fill_the_memory(first: int) -> None:
    count, text = 5_000, "x" * 100_000
    numbers = [0] * first + [1] * (count - first)
    values = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(["", text]))
    body = io.BytesIO()
    pq.write_table(pa.table({"a": values}), body, compression="zstd", store_schema=False)
    pieces = (piece.array for piece in parquet_format().read(io.BytesIO(body.getvalue())))
    assert max(piece.nbytes for piece in pieces) < 80 << 20


@pytest.mark.parametrize("nested", [False, True])
def test_a_value_that_is_stored_once_and_repeated_does_not_fill_the_memory(nested: bool) -> None:
    text, count = "x" * 100_000, 5_000
    value = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))
    rows = pa.StructArray.from_arrays([value], ["b"]) if nested else value
    body = io.BytesIO()
    pq.write_table(pa.table({"a": rows}), body, compression="zstd", store_schema=False)
    assert len(body.getvalue()) < 1000  # for half a gigabyte
    found, weights = 0, []
    for piece in parquet_format().read(io.BytesIO(body.getvalue())):
        found += len(piece)
        weights.append(piece.array.nbytes)
    assert found == count
    assert max(weights) < 80 << 20
