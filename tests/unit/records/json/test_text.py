"""JSON texts in Arrow columns: strict, one line each, fields by their path."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.golden.cases import load_case

from kafkeep.records.json.text import (
    MAX_DEPTH,
    FieldKind,
    check_texts,
    field_texts,
    find_fields,
    join_lines,
    join_with,
)


def texts(*rows: bytes | None) -> pa.Array:
    return pa.array(rows, pa.binary())


BAD = [
    (b"", "there is no document, at byte 0"),
    (b" \n ", "there is no document, at byte 3"),
    (b"\xef\xbb\xbf{}", "a byte order mark stands before the document, at byte 0"),
    (b"{} {}", "something follows the document, at byte 3"),
    (b"[1]]", "something follows the document, at byte 3"),
    (b"1 x", "something follows the document, at byte 2"),
    (b'{"a":1,}', "a key in double quotes should stand here, at byte 7"),
    (b"{a:1}", "a key in double quotes should stand here, at byte 1"),
    (b'{"a" 1}', "a colon should stand here, at byte 5"),
    (b'{"a":1]', "a comma or a closing bracket should stand here, at byte 6"),
    (b'["a" "b"]', "a comma or a closing bracket should stand here, at byte 5"),
    (b"[1,]", "this is not a value, at byte 3"),
    (b"[,1]", "this is not a value, at byte 1"),
    (b"NaN", "this is not a value, at byte 0"),
    (b"-Infinity", "this is not a number as JSON writes them, at byte 1"),
    (b"True", "this is not a value, at byte 0"),
    (b"nul", "this is not a value, at byte 0"),
    (b"/*c*/1", "this is not a value, at byte 0"),
    (b"007", "this is not a number as JSON writes them, at byte 1"),
    (b"-01", "this is not a number as JSON writes them, at byte 2"),
    (b"+1", "this is not a value, at byte 0"),
    (b".5", "this is not a value, at byte 0"),
    (b"5.", "this is not a number as JSON writes them, at byte 2"),
    (b"1e", "this is not a number as JSON writes them, at byte 2"),
    (b"1e+", "this is not a number as JSON writes them, at byte 3"),
    (b"0x1F", "something follows the document, at byte 1"),
    (b'"a', "it ends too early, at byte 2"),
    (b'"a\\', "it ends too early, at byte 3"),
    (b'"\\u12', "it ends too early, at byte 5"),
    (b'{"a":', "it ends too early, at byte 5"),
    (b"[1", "it ends too early, at byte 2"),
    (b'"\\x"', "there is no such escape, at byte 1"),
    (b'"\\u00g0"', "there is no such escape, at byte 1"),
    (b'"a\tb"', "a control character stands in a string as it is, at byte 2"),
    (b'"a\nb"', "a control character stands in a string as it is, at byte 2"),
    (b'"\x00"', "a control character stands in a string as it is, at byte 1"),
    (b'"\xff"', "this is not UTF-8, at byte 1"),
    (b'"\xc0\xaf"', "this is not UTF-8, at byte 1"),
    (b'"\xe0\x80\xaf"', "this is not UTF-8, at byte 1"),
    (b'"\xed\xa0\x80"', "this is not UTF-8, at byte 1"),
    (b'"\xf4\x90\x80\x80"', "this is not UTF-8, at byte 1"),
    (b'"\xc3"', "this is not UTF-8, at byte 1"),
    (b'"\x80"', "this is not UTF-8, at byte 1"),
    (b"[" * 1001 + b"]" * 1001, "more than 1000 arrays and objects are inside of each other"),
]
GOOD = [
    b"0",
    b"-0",
    b"-0.0e-0",
    b"1E+400",
    b"123456789012345678901234567890",
    b'"\\ud800"',
    b'"\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\"\\\\"',
    b'"\x7f\xf0\x9f\x98\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"',
    b'{"a":1,"a":2}',
    b'\t{ "" : [ ] , "b" : { } } ',
    b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
    b'"' + b"x" * 1000 + b'"',
]


@pytest.mark.parametrize("padding", [0, 100])
def test_what_is_not_one_document_is_bad_and_says_why(padding: int) -> None:
    tail = [b" " * padding + b"1"]
    checked = check_texts(texts(*[text for text, _ in BAD], *tail))
    assert checked.bad.tolist() == list(range(len(BAD)))
    for row, (text, sentence) in enumerate(BAD):
        assert checked.why(row).startswith(sentence), text


@pytest.mark.parametrize("padding", [0, 100])
def test_documents_are_kept_without_a_copy(padding: int) -> None:
    values = texts(*GOOD, None, b" " * padding + b"1")
    checked = check_texts(values)
    assert checked.bad.tolist() == []
    assert checked.texts is values


def test_line_breaks_go_and_every_other_byte_stays() -> None:
    values = texts(b"1", None, b'{\r\n\t"a\\n" :\n1 }\n', b"\n", b"[\n", b" 2")
    checked = check_texts(values.slice(1))
    assert checked.texts.to_pylist() == [None, b'{\t"a\\n" :1 }', b"\n", b"[\n", b" 2"]
    assert checked.bad.tolist() == [2, 3]
    assert checked.why(3) == "it ends too early, at byte 2"


def test_an_empty_column_is_good() -> None:
    assert check_texts(texts()).bad.tolist() == []
    assert check_texts(texts(b"1").slice(1)).bad.tolist() == []
    assert check_texts(texts(None, None)).bad.tolist() == []


def test_the_real_sinks_oddities_are_refused_where_it_lost_something() -> None:
    case = load_case("27b")
    values = texts(*[record.value for record in case.records])
    dead = {record.value for record in case.dlq}
    lossy = {
        b'{"k":"v"}{"second":"doc"}',
        b'{"k":"v"} trailing',
        b'\xef\xbb\xbf{"bom":1}',
        b'{"leadzero":007}',
    }
    refused = {case.records[row].value for row in check_texts(values).bad}
    assert refused == dead | lossy


def test_fields_are_found_by_their_path() -> None:
    values = texts(
        b'{"a":{"b":1,"c":"x"}}',
        b' { "c" : 0 , "a" : { "d":[{"b":9}], "b" : [1, {"b":2}] } } ',
        b'{"a":{"\\u0062":true}}',
        b'{"a":[{"b":1}]}',
        b'{"a":{"b":1},"a":{}}',
        b'{"a":{"b":1,"b":null}}',
        b'{"b":1}',
        b"[]",
        b'"a"',
        None,
        b'{"a":{"b":"}\\"{"}}',
    )
    spans = find_fields(values, ["a", "b"])
    assert spans.texts().to_pylist() == [
        b"1", b'[1, {"b":2}]', b"true", None, None, b"null", None, None, None, None, b'"}\\"{"',
    ]  # fmt: skip
    assert [FieldKind(kind).name for kind in spans.kinds] == [
        "NUMBER", "ARRAY", "TRUE", "MISSING", "MISSING", "NULL", "MISSING", "MISSING", "MISSING",
        "MISSING", "STRING",
    ]  # fmt: skip


def test_spans_are_places_in_the_values_buffer() -> None:
    values = texts(b"0", b'{"a": 12}', b'{"a":false}').slice(1)
    spans = find_fields(values, ["a"])
    buffer = values.buffers()[2].to_pybytes()
    found = [buffer[s:e] for s, e in zip(spans.starts, spans.ends, strict=True)]
    assert found == [b"12", b"false"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (b"\\u00e9", "é"),
        ("é".encode(), "é"),
        (b"\\ud83d\\ude00", "😀"),
        (b"\\ud83d", "\ud83d"),
        (b"\\ud83dx", "\ud83dx"),
        (b'a\\/b\\\\\\"', 'a/b\\"'),
        (b"\\b\\f\\n\\r\\t", "\b\f\n\r\t"),
        (b"", ""),
        (b"\\u0000", "\0"),
    ],
)
def test_keys_are_compared_as_text(key: bytes, name: str) -> None:
    values = texts(b'{"' + key + b'":1,"' + key + b'x":2,"x' + key + b'":3}')
    assert field_texts(values, [name]).to_pylist() == [b"1"]


def test_the_empty_path_is_the_document_itself() -> None:
    assert field_texts(texts(b" [1] ", None), []).to_pylist() == [b"[1]", None]


def test_lines_end_each_with_a_line_break_and_nulls_have_none() -> None:
    values = texts(b"x", b"a", None, b"", b"bc").slice(1)
    assert bytes(join_lines(values)) == b"a\n\nbc\n"
    assert bytes(join_with(values, b"")) == b"abc"
    assert bytes(join_with(values, b"\r\n")) == b"a\r\n\r\nbc\r\n"
    assert bytes(join_lines(values.slice(4))) == b""
