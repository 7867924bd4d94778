import io
import json
import math
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.connect_values import columns, cuts, same, schemas, structs
from tests.support.golden.cases import load_cases
from tests.support.golden.compare import compare

from kafkeep.errors import DamagedError, RecordError
from kafkeep.numba_setup import view_bytes
from kafkeep.objects.formats import avro
from kafkeep.objects.formats.avro import AvroFormat
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.records.avro.schema import dump_avro
from kafkeep.records.avro.schema_reader import from_avro
from kafkeep.records.avro.values import AvroValues
from kafkeep.records.schema import DECIMAL, OPTIONAL_BYTES, Column, Field, Kind, Schema, arrow_type

CODECS = ["null", "deflate", "snappy", "bzip2", "zstandard"]


@pytest.fixture(autouse=True)
def zstd_for_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fastavro reads zstd only with a library that Python 3.14 has and older ones lack."""

    def read_block(source: Any) -> io.BytesIO:
        data = fastavro.schemaless_reader(source, "bytes", None)  # type: ignore[arg-type]
        return io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(data))

    monkeypatch.setitem(fastavro.read.BLOCK_READERS, "zstandard", read_block)


def avro_format(codec: str = "null", **options: Any) -> AvroFormat:
    return AvroFormat(FormatOptions(format_class=FormatKind.AVRO, avro_codec=codec, **options))


def write(made: AvroFormat, *pieces: Column) -> bytes:
    encoder = made.encoder(pieces[0].schema)
    return b"".join([*(encoder.add(piece) for piece in pieces), encoder.finish()])


def read(made: AvroFormat, data: bytes) -> list[Any]:
    return [row for piece in made.read(io.BytesIO(data)) for row in piece.array.to_pylist()]


def in_pieces(column: Column, ranges: list[tuple[int, int]]) -> list[Column]:
    return [column.slice(start, stop) for start, stop in ranges]


def golden_objects() -> list[Any]:
    return [
        pytest.param(case.config, key, data, id=f"{case.number} {key}")
        for case in load_cases()
        for key, data in case.objects.items()
        if key.endswith(".avro")
    ]


@pytest.mark.parametrize(("config", "key", "data"), golden_objects())
def test_objects_of_the_real_sink_are_read_and_written_the_same(
    config: dict[str, str], key: str, data: bytes
) -> None:
    meta = config.get("connect.meta.data", "true") == "true"
    made = avro_format(config.get("avro.codec", "null"), connect_meta_data=meta)
    assert compare({key: data}, {key: write(made, *made.read(io.BytesIO(data)))}) == []


def plain(value: Any, schema: Schema) -> Any:
    """Return a value of ours as fastavro gives it, logical types left alone."""
    if value is None:
        return None
    if schema.kind is Kind.ARRAY:
        assert schema.items is not None
        return [plain(item, schema.items) for item in value]
    if schema.kind is Kind.MAP:
        assert schema.items is not None and schema.keys is not None
        if schema.keys.kind is Kind.STRING:
            return {key: plain(item, schema.items) for key, item in value}
        return [{"key": key, "value": plain(item, schema.items)} for key, item in value]
    if schema.kind is Kind.STRUCT:
        return [plain(value[field.name], field.schema) for field in schema.fields]
    return value


def without_logical(avro_schema: Any) -> Any:
    if isinstance(avro_schema, dict):
        return {k: without_logical(v) for k, v in avro_schema.items() if k != "logicalType"}
    if isinstance(avro_schema, list):
        return [without_logical(part) for part in avro_schema]
    return avro_schema


@settings(max_examples=50, deadline=None)
@given(column=columns(), codec=st.sampled_from(CODECS), data=st.data())
def test_columns_come_back_however_they_were_cut(
    column: Column, codec: str, data: st.DataObject
) -> None:
    made = avro_format(codec)
    whole = write(made, column)
    assert same(read(made, whole), column.array.to_pylist())
    pieces = in_pieces(column, data.draw(cuts(len(column))))
    assert write(made, *pieces) == whole


def as_lists(value: Any, schema: Schema) -> Any:
    """Return what fastavro read, with the members of structs in order."""
    if value is None:
        return None
    if schema.kind is Kind.STRUCT:
        members = zip(value.values(), schema.fields, strict=True)
        return [as_lists(item, field.schema) for item, field in members]
    if schema.kind is Kind.ARRAY:
        assert schema.items is not None
        return [as_lists(item, schema.items) for item in value]
    if schema.kind is Kind.MAP:
        assert schema.items is not None
        if isinstance(value, dict):
            return {key: as_lists(item, schema.items) for key, item in value.items()}
        return [{"key": e["key"], "value": as_lists(e["value"], schema.items)} for e in value]
    return value


@settings(max_examples=50, deadline=None)
@given(column=columns())
def test_fastavro_reads_the_same_values(column: Column) -> None:
    data = write(avro_format(), column)
    header = fastavro.reader(io.BytesIO(data)).metadata["avro.schema"]
    stripped = dump_avro(without_logical(json.loads(header)))
    bare = data.replace(header.encode(), stripped.encode().ljust(len(header.encode())), 1)
    assert column.schema is not None
    found = [as_lists(row, column.schema) for row in fastavro.reader(io.BytesIO(bare))]
    assert same(found, [plain(row, column.schema) for row in column.array.to_pylist()])


@pytest.mark.parametrize("codec", CODECS)
def test_fastavro_reads_every_codec(codec: str) -> None:
    values = [b"x" * i for i in range(3000)]
    column = Column(OPTIONAL_BYTES, pa.array([*values, None], pa.binary()))
    data = write(avro_format(codec), column)
    reader = fastavro.reader(io.BytesIO(data))
    assert reader.metadata["avro.codec"] == codec
    assert list(reader) == [*values, None]


def test_blocks_end_after_the_row_that_fills_them_and_bytes_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(avro, "BLOCK_BYTES", 1000)
    values = pa.array([b"%d" % i * (i % 50) for i in range(2000)], pa.binary())
    column = Column(OPTIONAL_BYTES, values)
    made = avro_format("snappy")
    whole = write(made, column)
    assert write(made, *in_pieces(column, [(0, 1), (1, 700), (700, 701), (701, 2000)])) == whole
    assert write(made, *(column.slice(i, i + 1) for i in range(2000))) == whole
    blocks = list(fastavro.block_reader(io.BytesIO(whole)))
    assert len(blocks) > 50
    assert [row for block in blocks for row in block] == values.to_pylist()


def test_an_encoder_holds_less_than_a_block_and_flush_frees_it() -> None:
    column = Column(OPTIONAL_BYTES, pa.array([b"x" * 1000] * 1000, pa.binary()))
    encoder = avro_format().encoder(OPTIONAL_BYTES)
    given_out = len(encoder.add(column))
    assert 0 < encoder.buffered_bytes < avro.BLOCK_BYTES < given_out
    assert len(encoder.flush()) > 0
    assert encoder.buffered_bytes == 0
    assert encoder.flush() == b""


def test_an_object_without_rows_is_readable() -> None:
    data = avro_format().encoder(OPTIONAL_BYTES).finish()
    assert list(fastavro.reader(io.BytesIO(data))) == []
    assert read(avro_format(), data) == []


def test_objects_of_other_first_rows_have_other_markers() -> None:
    one, other = (
        write(avro_format(), Column(OPTIONAL_BYTES, pa.array([value], pa.binary())))
        for value in (b"a", b"b")
    )
    assert one[-16:] != other[-16:]


def test_a_null_that_the_schema_forbids_is_refused() -> None:
    schema = Schema(kind=Kind.BYTES)
    column = Column(schema, pa.array([b"a", None], pa.binary()))
    with pytest.raises(RecordError, match="not optional"):
        write(avro_format(), column)


@settings(max_examples=50, deadline=None)
@given(
    column=columns(structs(schemas())),
    codec=st.sampled_from(CODECS),
    place=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
    cut=st.booleans(),
)
def test_damage_is_named_or_makes_other_values_of_the_schema_in_the_file(
    column: Column, codec: str, place: float, byte: int, cut: bool
) -> None:
    whole = write(avro_format(codec), column)
    data = bytearray(whole)
    at = int(place * len(data))
    if cut:
        del data[at:]
    else:
        data[at] = byte
    try:
        pieces = list(avro_format(codec).read(io.BytesIO(data)))
    except (DamagedError, RecordError):  # the latter: a schema that Connect does not have
        assert data != whole
        return
    for piece in pieces:
        piece.array.validate(full=True)
        assert piece.schema is None or piece.array.type == arrow_type(piece.schema)
    if cut or data == whole:  # a block is read whole or not at all
        rows = [row for piece in pieces for row in piece.array.to_pylist()]
        assert same(rows, column.array.to_pylist()[: len(rows)])
        assert cut or len(rows) == len(column)


def test_a_file_cut_short_is_damaged() -> None:
    data = write(avro_format(), Column(OPTIONAL_BYTES, pa.array([b"abc"] * 9, pa.binary())))
    for end in range(len(data)):
        try:
            rows = read(avro_format(), data[:end])
        except DamagedError:
            continue
        assert rows == []  # the header alone is an object without rows
        assert data[:end].count(data[-16:]) == 1


EXACT = [
    b'{"b":1,"a":[true,false,null,{}],"c":{"d":"\\u00e4\xc3\xa4"}}',
    b'{"amount": 149.50, "big": 123456789012345678901234567890, "tiny": 1e-400}',
    b"[1E400,-0,-0.0,9223372036854775807,9223372036854775808,-9223372036854775809]",
    b'{"pi":3.14159265358979323846264338327950288,"a":1,"a":2}',
    b'"half \\ud83d a character"',
    b'{"\\ud83d":1}',
    b"null",
    b"42",
    b"[" * 900 + b"]" * 900,
]


def exactly(text: bytes) -> Any:
    """Parse JSON with exact numbers; objects as lists of pairs."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=list)


def test_json_without_a_schema_comes_back_with_its_numbers_keys_and_order() -> None:
    column = Column(None, pa.array(EXACT, pa.binary()))
    data = write(avro_format("zstandard"), column)
    found = read(avro_format("zstandard"), data)
    assert [exactly(text) for text in found] == [exactly(text) for text in EXACT]
    rows = list(fastavro.reader(io.BytesIO(data)))
    assert rows[6] == dict.fromkeys(rows[6])
    assert rows[7]["long"] == 42
    assert math.isclose(rows[1]["map"][1]["value"]["double"], 1.2345678901234568e29)


def test_values_of_a_registry_schema_are_checked_one_by_one() -> None:
    values = AvroValues(["null", {"type": "enum", "name": "E", "symbols": ["A", "B"]}])
    messages = [b"\x02\x00", b"\x02\x02", b"\x00", b"\x02\x04", b"\x02\x00x"]
    buffer = view_bytes(b"".join(messages))
    ends = np.cumsum([len(message) for message in messages])
    starts = ends - [len(message) for message in messages]
    assert values.check(buffer, starts, ends) == (3, "a union or enum has no such member")
    good, _ = values.decode(buffer, starts[:3], ends[:3])
    assert good.array.to_pylist() == ["A", "B", None]
    assert values.check(buffer, starts[4:], ends[4:]) == (0, "bytes are left over behind it")


UNIONS: list[Any] = [
    {"type": "fixed", "name": "F", "size": 2},
    "string",
    "null",
    {"type": "array", "items": ["long", "null"]},
    {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["int", "null"]}]},
]


def test_unions_fixed_and_nested_nulls_are_read_and_written() -> None:
    record = [(b"ab", b"ab"), ("txt", "txt"), (None, None), ([1, None], [1, None])]
    record += [({"n": None}, {"n": None}), ([], [])]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(UNIONS), [given for given, _ in record])
    (column,) = avro_format().read(io.BytesIO(out.getvalue()))
    assert column.schema == from_avro(UNIONS)
    rows = column.array.to_pylist()
    assert [row and [v for v in row.values() if v is not None] for row in rows] == [
        value if value is None else [value] for _, value in record
    ]
    values = AvroValues(UNIONS)
    encoded = values.encode(column.array)
    buffer = np.empty(int(encoded.sizes.sum()), dtype=np.uint8)
    encoded.write(0, len(record), buffer)
    source = io.BytesIO(buffer.tobytes())
    again = [fastavro.schemaless_reader(source, UNIONS, None) for _ in record]  # type: ignore[arg-type]
    assert again == [value for _, value in record]


def test_a_decimal_of_fixed_size_is_connects_decimal() -> None:
    told = {
        "type": "fixed",
        "name": "D",
        "size": 5,
        "logicalType": "decimal",
        "precision": 10,
        "scale": 2,
    }
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(told), [Decimal("-1.50")])
    (column,) = avro_format().read(io.BytesIO(out.getvalue()))
    assert column.schema is not None and column.schema.name == DECIMAL
    (value,) = column.array.to_pylist()
    assert int.from_bytes(value, "big", signed=True) == -150
    assert AvroValues(told).encode(column.array).sizes.tolist() == [5]


def test_lists_of_records_without_fields_come_back_whatever_they_claim_to_hold() -> None:
    schema = {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}
    values = AvroValues(schema)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, [{}] * 300)
    two_blocks = b"\x04\x02\x00"
    messages = [out.getvalue(), b"\x00", two_blocks, b"\xfe\xff\xff\xff\xff\xff\xff\x7f\x00"]
    ends = np.cumsum([len(message) for message in messages])
    starts = ends - [len(message) for message in messages]
    buffer = view_bytes(b"".join(messages))
    reason = "a list says it is longer than the value"
    assert values.check(buffer, starts, ends) == (3, reason)
    column, _ = values.decode(buffer, starts[:3], ends[:3])
    assert column.array.to_pylist() == [[{}] * 300, [], [{}] * 3]


def test_slices_of_lists_and_structs_with_nulls_are_written_right() -> None:
    item = Schema(
        kind=Kind.STRUCT,
        optional=True,
        fields=(
            Field("k", Schema(kind=Kind.STRING)),
            Field("l", Schema(kind=Kind.ARRAY, items=Schema(kind=Kind.INT16), optional=True)),
        ),
    )
    schema = Schema(kind=Kind.ARRAY, items=item, optional=True)
    rows = [
        [{"k": "a", "l": [1, 2]}, None],
        None,
        [],
        [{"k": "b", "l": None}, {"k": "c", "l": []}, {"k": "", "l": [3]}],
    ] * 3
    column = Column(schema, pa.array(rows, arrow_type(schema))).slice(2, 11)
    data = write(avro_format(), column)
    assert list(fastavro.reader(io.BytesIO(data))) == rows[2:11]
    assert read(avro_format(), data) == rows[2:11]


def test_rows_of_no_bytes_at_all_do_not_fill_the_memory() -> None:
    schema = b'{"type":"record","name":"r","fields":[]}'
    meta = b"\x02\x16avro.schema" + bytes([2 * len(schema)]) + schema + b"\x00"
    marker, million_rows = b"S" * 16, b"\x80\x80\x80\x01"  # 2^20, as Avro has numbers
    body = b"Obj\x01" + meta + marker + (million_rows + b"\x00" + marker) * 6
    assert len(body) < 300
    rows = [len(piece) for piece in avro_format().read(io.BytesIO(body))]
    assert rows == [1 << 20] * 6
