from __future__ import annotations

import base64
import gzip
import io
import json
import math
import pickle
import subprocess
import sys
import tracemalloc
import zlib
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.golden.cases import GoldenCase, GoldenRecord, load_case

from kafkeep.errors import DamagedError, RecordError
from kafkeep.objects.formats import bytes as separated
from kafkeep.objects.formats.compress import BLOCK_BYTES
from kafkeep.objects.formats.json import JsonFormat
from kafkeep.objects.formats.open import open_format
from kafkeep.options.option import parse_group
from kafkeep.options.sink.formats import Compression, DecimalText, FormatKind, FormatOptions
from kafkeep.records.schema import (
    DECIMAL,
    OPTIONAL_BYTES,
    OPTIONAL_STRING,
    Column,
    Field,
    Kind,
    Schema,
    arrow_type,
)

JSON = FormatOptions(format_class=FormatKind.JSON)
STRING = Schema(kind=Kind.STRING)


def column(schema: Schema | None, values: list[Any]) -> Column:
    return Column(schema, pa.array(values, pa.binary() if schema is None else arrow_type(schema)))


def written(made: Column, options: FormatOptions = JSON) -> bytes:
    encoder = JsonFormat(options).encoder(made.schema)
    return encoder.add(made) + encoder.finish()


def documents(data: bytes) -> list[Any]:
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def records_of(case: GoldenCase, key: str, count: int) -> list[GoldenRecord]:
    """The records one object was made of: so many, from the offset in its name on."""
    _, partition, rest = key.rpartition("/")[2].rsplit("+", 2)
    start = int(rest.split(".")[0])
    visible = [r for r in case.records if r.partition == int(partition) and r.offset >= start]
    return sorted(visible, key=lambda record: record.offset)[:count]


def golden(number: str, suffix: str = ".json") -> list[tuple[list[GoldenRecord], list[Any]]]:
    """Records and what the real sink made of them, for each object whose name ends so."""
    case, found = load_case(number), []
    for key, data in case.objects.items():
        stem = key.removesuffix(suffix)
        if key != stem and not stem.endswith((".keys", ".headers")):
            plain = gzip.decompress(data) if suffix.endswith(".gz") else data
            made = documents(plain)
            found.append((records_of(case, key, len(made)), made))
    assert found
    return found


def from_json_schema(told: dict[str, Any]) -> Schema:
    return Schema(
        kind=Kind(told["type"]),
        optional=told["optional"],
        name=told.get("name"),
        default=told.get("default"),
        parameters=tuple(sorted(told.get("parameters", {}).items())),
        fields=tuple(Field(f["field"], from_json_schema(f)) for f in told.get("fields", [])),
        items=from_json_schema(told.get("items") or told["values"])
        if told["type"] in ("array", "map")
        else None,
        keys=from_json_schema(told["keys"]) if "keys" in told else None,
    )


def from_payload(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    match schema.kind:
        case Kind.STRUCT:
            return {f.name: from_payload(f.schema, value.get(f.name)) for f in schema.fields}
        case Kind.ARRAY:
            assert schema.items is not None
            return [from_payload(schema.items, item) for item in value]
        case Kind.MAP:
            return list(value.items())
        case Kind.BYTES:
            return base64.b64decode(value)
        case _:
            return value


def test_gzip_json_is_what_the_real_sink_wrote() -> None:
    options = parse_group(FormatOptions, load_case("02").config)
    assert JsonFormat(options).extension == ".json.gz"
    for records, expected in golden("02", ".json.gz"):
        out = written(column(None, [record.value for record in records]), options)
        assert documents(gzip.decompress(out)) == expected


def test_schemaless_values_keep_their_bytes() -> None:
    texts = [b'{"a" :  1.50,"a":2}', b"12345678901234567890123", b'"\\u00e9"', b"null"]
    assert written(column(None, texts)) == b"\n".join(texts) + b"\n"


def test_strings_are_what_the_real_sink_wrote() -> None:
    for records, expected in golden("09"):
        texts = [(record.value or b"").decode(errors="replace") for record in records]
        assert documents(written(column(OPTIONAL_STRING, texts))) == expected


def test_string_keys_are_what_the_real_sink_wrote() -> None:
    for records, expected in golden("19", ".keys.json"):
        keys = [(record.key or b"").decode() for record in records]
        assert documents(written(column(OPTIONAL_STRING, keys))) == expected


@pytest.mark.parametrize(("number", "kind"), [("20", Kind.STRING), ("20f", Kind.BYTES)])
def test_headers_are_what_the_real_sink_wrote(number: str, kind: Kind) -> None:
    pair = Schema(
        kind=Kind.STRUCT, fields=(Field("key", STRING), Field("value", Schema(kind=kind)))
    )
    schema = Schema(
        kind=Kind.STRUCT, fields=(Field("headers", Schema(kind=Kind.ARRAY, items=pair)),)
    )
    for records, expected in golden(number, ".headers.json"):
        rows = [
            {
                "headers": [
                    {"key": name, "value": value if kind is Kind.BYTES else (value or b"").decode()}
                    for name, value in record.headers
                ]
            }
            for record in records
        ]
        assert documents(written(column(schema, rows))) == expected


def test_a_rich_schema_is_what_the_real_sink_wrote() -> None:
    for records, expected in golden("37b"):
        told = [json.loads(record.value or b"") for record in records]
        schema = from_json_schema(told[0]["schema"])
        values = [from_payload(schema, document["payload"]) for document in told]
        found = documents(written(column(schema, values)))
        assert [list(row) for row in found] == [list(row) for row in expected]
        assert found == expected


def test_decimals_are_numbers_when_asked_for() -> None:
    schema = Schema(kind=Kind.BYTES, optional=True, name=DECIMAL, parameters=(("scale", "2"),))
    numbers = [0, 1, -1, 12345, -(10**40), 2**200]
    values = [n.to_bytes(30, "big", signed=True) for n in numbers]
    made = column(schema, [*values, None])
    options = FormatOptions(format_class=FormatKind.JSON, json_decimal_format=DecimalText.NUMERIC)
    lines = written(made, options).split()
    assert lines[:4] == [b"0.00", b"0.01", b"-0.01", b"123.45"]
    assert lines[4:] == [b"-1" + b"0" * 38 + b".00", f"{2**200 // 100}.76".encode(), b"null"]
    assert written(made).split()[1] == b'"' + base64.b64encode(values[1]) + b'"'


def test_numbers_that_json_has_not_are_strings() -> None:
    values = [math.nan, math.inf, -math.inf, None, -0.0, 1.0, 5e-324, 1e22]
    out = written(column(Schema(kind=Kind.FLOAT64, optional=True), values))
    texts = [b'"NaN"', b'"Infinity"', b'"-Infinity"', b"null", b"-0.0", b"1.0", b"5e-324", b"1e+22"]
    assert out.split() == texts


def test_single_precision_is_as_short_as_it_can_be() -> None:
    values = [0.1, 44.20327, 3.4028235e38, 1e-45]
    out = written(column(Schema(kind=Kind.FLOAT32), values))
    assert [float(text) for text in out.split()] == [0.1, 44.20327, 3.4028235e38, 1e-45]


@pytest.mark.parametrize(
    ("schema", "values", "lines"),
    [
        (
            OPTIONAL_BYTES,
            [b"", b"a", b"ab", b"abc", None],
            [b'""', b'"YQ=="', b'"YWI="', b'"YWJj"'],
        ),
        (Schema(kind=Kind.BOOLEAN, optional=True), [True, False, None], [b"true", b"false"]),
        (Schema(kind=Kind.INT64, optional=True), [2**63 - 1, None], [b"9223372036854775807"]),
        (Schema(kind=Kind.STRUCT, optional=True), [{}, None], [b"{}"]),
        (
            Schema(kind=Kind.MAP, optional=True, keys=Schema(kind=Kind.INT32), items=STRING),
            [[(1, "a"), (-2, "b")], [], None],
            [b'[[1,"a"],[-2,"b"]]', b"[]"],
        ),
    ],
)
def test_values_stand_as_connect_writes_them(
    schema: Schema, values: list[Any], lines: list[bytes]
) -> None:
    assert written(column(schema, values)) == b"\n".join([*lines, b"null"]) + b"\n"


def test_a_null_is_the_default_of_its_schema() -> None:
    inner = Schema(
        kind=Kind.STRUCT,
        optional=True,
        fields=(Field("a", STRING), Field("b", Schema(kind=Kind.ARRAY, items=STRING))),
        default=("x", ("y", "z")),
    )
    schema = Schema(kind=Kind.STRUCT, fields=(Field("inner", inner),))
    out = documents(written(column(schema, [{"inner": None}, {"inner": {"a": "c", "b": []}}])))
    assert out == [{"inner": {"a": "x", "b": ["y", "z"]}}, {"inner": {"a": "c", "b": []}}]


PLAIN = {
    Kind.INT8: st.integers(-128, 127),
    Kind.INT64: st.integers(-(2**63), 2**63 - 1),
    Kind.FLOAT32: st.floats(width=32),
    Kind.FLOAT64: st.floats(),
    Kind.BOOLEAN: st.booleans(),
    Kind.STRING: st.text(max_size=8),
    Kind.BYTES: st.binary(max_size=8),
}


def schemas() -> st.SearchStrategy[Schema]:
    leaves = st.builds(
        lambda kind, opt: Schema(kind=kind, optional=opt),
        st.sampled_from(list(PLAIN)),
        st.booleans(),
    )
    names = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=4)
    keys = st.sampled_from([STRING, Schema(kind=Kind.INT64)])

    def deeper(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
        structs = names.flatmap(
            lambda given: st.tuples(*[inner] * len(given)).map(
                lambda made: tuple(map(Field, given, made))
            )
        )
        return st.one_of(
            st.builds(
                lambda i, o: Schema(kind=Kind.ARRAY, items=i, optional=o), inner, st.booleans()
            ),
            st.builds(
                lambda k, i, o: Schema(kind=Kind.MAP, keys=k, items=i, optional=o),
                keys,
                inner,
                st.booleans(),
            ),
            st.builds(
                lambda f, o: Schema(kind=Kind.STRUCT, fields=f, optional=o), structs, st.booleans()
            ),
        )

    return st.recursive(leaves, deeper, max_leaves=6)


def values_of(schema: Schema) -> st.SearchStrategy[Any]:
    match schema.kind:
        case Kind.STRUCT:
            made = st.fixed_dictionaries({f.name: values_of(f.schema) for f in schema.fields})
        case Kind.ARRAY:
            assert schema.items is not None
            made = st.lists(values_of(schema.items), max_size=3)
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            made = st.dictionaries(values_of(schema.keys), values_of(schema.items), max_size=3).map(
                lambda pairs: list(pairs.items())
            )
        case _:
            made = PLAIN[schema.kind]
    return st.none() | made if schema.optional else made


def expected_of(schema: Schema, value: Any) -> Any:  # noqa: PLR0911
    """What the document should be, said without Arrow."""
    if value is None:
        return None
    match schema.kind:
        case Kind.STRUCT:
            return {f.name: expected_of(f.schema, value[f.name]) for f in schema.fields}
        case Kind.ARRAY:
            assert schema.items is not None
            return [expected_of(schema.items, item) for item in value]
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            pairs = [[key, expected_of(schema.items, item)] for key, item in value]
            return dict(pairs) if schema.keys.kind is Kind.STRING else pairs
        case Kind.BYTES:
            return base64.b64encode(value).decode()
        case Kind.FLOAT32 | Kind.FLOAT64 if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Kind.FLOAT32:
            return pytest.approx(value, rel=1e-7, abs=1e-45)
        case _:
            return value


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_every_value_of_every_schema_is_written_as_it_is(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    values = data.draw(st.lists(values_of(schema), max_size=5))
    first = data.draw(st.integers(0, len(values)))
    made = column(schema, values).slice(first, len(values))
    assert documents(written(made)) == [expected_of(schema, value) for value in values[first:]]


def test_an_encoder_holds_less_than_a_block_and_says_how_much() -> None:
    options = FormatOptions(format_class=FormatKind.JSON, s3_compression_type=Compression.GZIP)
    encoder = JsonFormat(options).encoder(None)
    out, row = [], column(None, [b'{"a":"%s"}' % (b"x" * 300_000)])
    for count in range(1, 13):
        out.append(encoder.add(row))
        assert encoder.buffered_bytes == count * (300_009) % BLOCK_BYTES
    assert sum(1 for part in out if part) == 3
    out.append(encoder.flush())
    assert encoder.buffered_bytes == 0
    assert encoder.finish() == b""
    assert len(documents(gzip.decompress(b"".join(out)))) == 12


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 200), max_size=6),
    kind=st.sampled_from(list(Compression)),
)
def test_an_object_is_the_same_however_its_rows_come(cuts: list[int], kind: Compression) -> None:
    made = column(None, [b'{"n":%d}' % (i * i) for i in range(200)])
    form = JsonFormat(FormatOptions(format_class=FormatKind.JSON, s3_compression_type=kind))
    encoder, out = form.encoder(None), b""
    edges = [0, *sorted(cuts), 200]
    for start, stop in pairwise(edges):
        out += encoder.add(made.slice(start, stop))
    read = list(form.read(io.BytesIO(out + encoder.finish())))
    assert [value for part in read for value in part.array.to_pylist()] == made.array.to_pylist()
    assert all(part.schema is None for part in read)


def lines_of(data: bytes, options: FormatOptions = JSON) -> list[bytes]:
    parts = JsonFormat(options).read(io.BytesIO(data))
    return [line for part in parts for line in part.array.to_pylist()]


def test_objects_of_the_real_sink_are_read() -> None:
    case = load_case("02")
    options = parse_group(FormatOptions, case.config)
    for data in case.objects.values():
        assert lines_of(data, options) == gzip.decompress(data).splitlines()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"1\n2\n", [b"1", b"2"]),
        (b"1\n2", [b"1", b"2"]),
        (b'{"a":1}\r\n"\\r"\r\n', [b'{"a":1}', b'"\\r"']),
        (b"1\r\n2\r", [b"1", b"2"]),
    ],
)
def test_lines_are_read_whatever_ends_them(data: bytes, lines: list[bytes]) -> None:
    assert lines_of(data) == lines


@pytest.mark.parametrize("data", [b"1\n\n2\n", b"\n", b"1\n\r\n", b'"\xff"\n', b'"\xc3\n\xa9"\n'])
def test_an_empty_line_or_one_that_is_not_utf8_is_damage(data: bytes) -> None:
    with pytest.raises(DamagedError, match="line"):
        lines_of(data)


def test_a_large_object_is_read_in_bounded_pieces() -> None:
    long = b'"' + b"y" * (separated.PIECE_BYTES + 12345) + b'"'
    lines = [b'{"n":%d}' % i for i in range(500_000)]
    lines = [*lines[:250_000], long, *lines[250_000:]]
    pieces = list(JsonFormat(JSON).read(io.BytesIO(b"\n".join(lines) + b"\n")))
    assert [line for piece in pieces for line in piece.array.to_pylist()] == lines
    assert sum(piece.array.nbytes > 2 * separated.PIECE_BYTES for piece in pieces) <= 1


def test_a_value_too_large_for_a_row_is_an_error_of_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkeep.records.json.encode._MAX_BYTES", 5000)
    with pytest.raises(RecordError, match="6002 bytes"):
        written(column(STRING, ["\x01" * 1000]))


def test_formats_travel_to_tasks() -> None:
    for kind in (FormatKind.JSON, FormatKind.BYTES):
        made = open_format(kind, JSON)
        assert pickle.loads(pickle.dumps(made)) == made


def test_writing_json_does_not_load_pandas() -> None:
    code = """
import sys, pyarrow as pa
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.records.schema import Column, OPTIONAL_STRING
from kafkeep.objects.formats.open import open_format
offsets = bytes([0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0])
buffers = [pa.py_buffer(part) for part in (b"\\x01", offsets, b"x")]
array = pa.Array.from_buffers(pa.string(), 2, buffers)
encoder = open_format(FormatKind.JSON, FormatOptions(format_class=FormatKind.JSON)).encoder(
    OPTIONAL_STRING)
assert encoder.add(Column(OPTIONAL_STRING, array)) == b'"x"\\nnull\\n'
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_line_that_never_ends_in_a_gzip_object_takes_little_memory_and_is_refused() -> None:
    packer = zlib.compressobj(1, wbits=31)
    body = b"".join(packer.compress(b"x" * (1 << 20)) for _ in range(256)) + packer.flush()
    assert len(body) < 2 << 20
    packed = FormatOptions(format_class=FormatKind.JSON, s3_compression_type=Compression.GZIP)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError, match="this is not one record"):
            list(JsonFormat(packed).read(io.BytesIO(body)))
        assert tracemalloc.get_traced_memory()[1] < separated.MAX_RECORD_BYTES + (32 << 20)
    finally:
        tracemalloc.stop()


def test_a_record_that_could_not_be_read_back_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(separated, "MAX_RECORD_BYTES", 1000)
    encoder = JsonFormat(JSON).encoder(None)
    encoder.check(column(None, [b"1" * 1000, b"2" * 900]))
    with pytest.raises(RecordError, match="a record of 1001 bytes"):
        encoder.check(column(None, [b"1" * 900, b"1" * 1001]))
