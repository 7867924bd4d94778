"""Headers as they stand in headers files: by golden data, and losing nothing by default."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.golden.cases import GoldenCase, load_case

from kafkeep.errors import RecordError
from kafkeep.options.sink.converters import parse_converter
from kafkeep.records.converters.headers import headers_from_column, open_headers
from kafkeep.records.converters.simple_headers import simple_text
from kafkeep.records.rows import HEADERS_TYPE
from kafkeep.records.schema import Column

SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

Headers = list[tuple[bytes, bytes | None]]


def array(*rows: Headers) -> pa.ListArray:
    told = [[{"key": key, "value": value} for key, value in row] for row in rows]
    return pa.array(told, HEADERS_TYPE)


def lines(headers: pa.ListArray, name: str | None = None) -> list[dict[str, object]]:
    options = parse_converter("header", {"header.converter": name}) if name else None
    column = open_headers(options).convert(headers, "json")
    assert column.schema is None
    return [orjson.loads(text) for text in column.array.to_pylist()]


def golden_headers(case: GoldenCase) -> Iterator[tuple[pa.ListArray, dict[str, object]]]:
    """Yield the headers of each record and the line that the real sink wrote for them."""
    by_offset = {(record.partition, record.offset): record for record in case.records}
    for key, data in case.objects.items():
        if ".headers." in key:
            partition, start = (int(part) for part in key.split(".headers.")[0].split("+")[-2:])
            for i, line in enumerate(data.decode().splitlines()):
                record = by_offset[partition, start + i]
                row = [(name.encode(), value) for name, value in record.headers]
                yield array(row), orjson.loads(line)


@pytest.mark.parametrize(
    ("number", "name", "count"),
    [("20b", SIMPLE, 60), ("20", SIMPLE, 60), ("20f", BYTES, 62), ("20", STRING, 60)],
)
def test_connects_converters_give_what_the_real_sink_wrote(
    number: str, name: str, count: int
) -> None:
    pairs = list(golden_headers(load_case(number)))

    assert len(pairs) == count
    for headers, wanted in pairs:
        assert lines(headers, name) == [wanted]


@pytest.mark.parametrize(
    ("text", "printed"),  # printed by Connect 4.1's own Values class
    [
        ("", ""),
        ("  007 ", "7"),
        ("1e30", "1.0E30"),
        ("1e400", "1E+400"),
        ("12345678.9", "1.2345679E7"),
        ("0.0001", "1.0E-4"),
        ("+5", "5"),
        ("1.", "1"),
        ("-", "-"),
        ("2024-13-45", "2025-02-14"),
        ("2024-12-03T00:00:00.000Z", "2024-12-03"),
        ("1970-01-01", "00:00:00.000Z"),
        ("25:61:61.000Z", "1970-01-02T02:02:01.000Z"),
        ("true,false", "true,false"),
        ("[1, 2.5]", "[1.0,2.5]"),
        ("[1 , true]", "[1,true]"),
        ("[1,,2]", "[1,,2]"),
        ("[abc]", "[abc]"),
        ('["a" , "b\\\\"]', '["a","b\\\\\\\\"]'),
        ('{"a" : 1 , "b":2.5}', '{"a":1.0,"b":2.5}'),
        ("{}", "{}"),
        (' "a"', ' "a"'),
        ("[null,null]", "[null,null]"),
        ("[1,2024-12-03]", "[1970-01-02,2024-12-03]"),
    ],
)
def test_simple_text_prints_as_connect_does(text: str, printed: str) -> None:
    assert simple_text(text) == printed


def test_simple_text_of_null_is_null() -> None:
    assert simple_text(" null ") is None


@given(st.text(alphabet='[]{}:,"\\ 0123456789.eE+-TZnultrfas\x00é'))
def test_simple_text_never_fails(text: str) -> None:
    simple_text(text)


def test_simple_text_takes_a_thousand_lists_in_each_other() -> None:
    assert simple_text("[" * 50_000) == "[" * 50_000


def test_default_keeps_text_as_value_and_other_bytes_as_base64() -> None:
    headers = array([(b"a", "é".encode()), (b"b", b"\xff\xfe"), (b"c", None), (b"a", b"")], [])

    assert lines(headers) == [
        {
            "headers": [
                {"key": "a", "value": "é"},
                {"key": "b", "bytes": base64.b64encode(b"\xff\xfe").decode()},
                {"key": "c", "value": None},
                {"key": "a", "value": ""},
            ]
        },
        {"headers": []},
    ]


@pytest.mark.parametrize("name", [SIMPLE, STRING, BYTES])
def test_null_values_and_no_headers_do_not_fail(name: str) -> None:
    headers = array([(b"a", None)], [], [(b"a", b"null")])

    told = lines(headers, name)

    assert told[0] == {"headers": [{"key": "a", "value": None}]}
    assert told[1] == {"headers": []}


def test_avro_files_take_the_bare_array_and_parquet_files_an_envelope() -> None:
    converter = open_headers(parse_converter("header", {"header.converter": STRING}))
    headers = array([(b"a", b"1")])

    bare = converter.convert(headers, "avro")
    envelope = converter.convert(headers, "parquet")

    assert bare.array.to_pylist() == [[{"key": "a", "value": "1"}]]
    assert envelope.array.to_pylist() == [{"headers": [{"key": "a", "value": "1"}]}]
    assert envelope.schema is not None and envelope.schema.name == "RecordHeaders"
    assert bare.schema == converter.schema("avro")


headers_rows = st.lists(
    st.lists(
        st.tuples(st.text(max_size=4).map(str.encode), st.none() | st.binary(max_size=6)),
        max_size=4,
    ),
    max_size=4,
)


@given(headers_rows, st.sampled_from(["json", "avro", "parquet"]), st.sampled_from([None, BYTES]))
def test_headers_come_back_as_they_were(rows: list[Headers], style: str, name: str | None) -> None:
    options = parse_converter("header", {"header.converter": name}) if name else None
    headers = array(*rows)

    column = open_headers(options).convert(headers, style)

    assert headers_from_column(column, options).equals(headers)


def test_restore_refuses_what_is_no_list_of_headers() -> None:
    column = Column(None, pa.array([b'{"headers":7}'], pa.binary()))

    with pytest.raises(RecordError, match="no list of headers"):
        headers_from_column(column)


def test_sliced_headers_are_those_of_the_slice() -> None:
    headers = array([(b"a", b"1")], [(b"b", b"2")], [(b"c", b"3")]).slice(1, 1)

    assert lines(headers) == [{"headers": [{"key": "b", "value": "2"}]}]
