"""The stored cases are whole, the comparison finds what differs, and the page tells the users."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.golden.cases import GoldenCase, load_case, load_cases
from tests.support.golden.compare import Rows, compare, decode
from tests.support.golden.expected import (
    EXPECTED,
    PAGE,
    SPECIAL,
    Kind,
    expected_dead_letters,
    expected_objects,
    letter_source,
    page_with_tables,
)
from tests.support.golden.rules import encode_path_part, knows, objects_by_rule

CASES = load_cases()
RULED = [
    case
    for case in CASES
    if knows(case.config)
    and (case.number not in SPECIAL or case.number in ("01", "01b", "22", "24b"))
]
JSON_KEY = "topics/gold-orders-packed/partition=0/gold-orders-packed+0+0000000000.json"


def name(case: GoldenCase) -> str:
    return case.name


def test_there_are_71_cases_of_3981_records_and_558_objects() -> None:
    assert len(CASES) == 71
    assert sum(len(case.records) for case in CASES) == 3981
    assert sum(len(case.objects) for case in CASES) == 558
    assert sum(len(data) for case in CASES for data in case.objects.values()) == 398_794


@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_stored_object_can_be_decoded_and_is_like_itself(case: GoldenCase) -> None:
    assert compare(case.objects, case.objects) == []


@pytest.mark.parametrize("case", RULED, ids=name)
def test_the_rules_give_the_objects_of_the_real_sink(case: GoldenCase) -> None:
    assert compare(case.objects, objects_by_rule(case, ours=False)) == []


def test_the_rules_are_tried_on_many_cases() -> None:
    assert len(RULED) >= 20


def test_what_failed_there_fails_or_works_here_and_nothing_else_fails() -> None:
    failed = {case.number for case in CASES if case.task != "RUNNING"}
    kinds = {number: EXPECTED[number].kind for number in EXPECTED}
    assert {n for n, kind in kinds.items() if kind is Kind.FAILS} <= failed
    assert {n for n in failed if kinds[n] not in (Kind.FAILS, Kind.WORKS)} == set()
    assert {n for n, kind in kinds.items() if kind is Kind.WORKS} - failed == {"20j", "49"}


def test_every_difference_has_a_sentence() -> None:
    assert all(e.sentence.endswith(".") for e in SPECIAL.values())
    assert all(bool(e.words) == (e.kind is Kind.FAILS) for e in SPECIAL.values())


@pytest.mark.parametrize("number", [n for n, e in EXPECTED.items() if e.kind is Kind.DIFFERS])
def test_a_case_that_differs_on_purpose_differs(number: str) -> None:
    case = load_case(number)
    assert compare(expected_objects(case), case.objects) != []


def test_dead_letters_of_the_real_sink_are_expected_where_nothing_differs() -> None:
    case = load_case("29")
    assert sorted(map(letter_source, case.dlq)) == sorted(expected_dead_letters(case))


def test_the_page_has_the_tables() -> None:
    page = PAGE.read_text()
    assert page_with_tables(page) == page, "run: python -m tests.support.golden.expected"


def test_path_parts_keep_what_is_harmless() -> None:
    assert encode_path_part("A/V 100%\\\n") == "A%2FV 100%25%5C%0A"
    assert encode_path_part("q?&# +=é") == "q?&# +=é"
    special = [encode_path_part(text) for text in ("", "null", ".", "..", "%empty")]
    assert special == ["%empty", "%6Eull", "%2E", "%2E%2E", "%25empty"]


def _json(change: Callable[[list[bytes]], list[bytes]]) -> list[str]:
    """Compare an object of JSON lines with a changed copy of itself."""
    data = load_case("01b").objects[JSON_KEY]
    lines = change(data.splitlines(keepends=True))
    return compare({JSON_KEY: data}, {JSON_KEY: b"".join(lines)})


def _with(document: bytes, other: bytes) -> list[str]:
    return compare({"a.json": document + b"\n"}, {"a.json": other + b"\n"})


def test_json_is_compared_by_value() -> None:
    assert _with(b'{"a":149.5,"b":1}', b'{"b": 1, "a": 149.50}') == []
    assert _with(b"[1.0E7]", b"[10000000]") == []
    assert _with(b'{"a":"\\uD83D\\uDE00"}', '{"a":"😀"}'.encode()) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"true", b"1"),
        (b"0.1", b"0.1000000000000000055511151231257827"),
        (b"18446744073709551615", b"18446744073709551616"),
        (b'{"a":null}', b"{}"),
        (b'"1"', b"1"),
        (b"[1,2]", b"[2,1]"),
        (b"1", b"NaN"),
    ],
)
def test_json_of_another_value_is_found(one: bytes, other: bytes) -> None:
    assert len(_with(one, other)) == 1


def test_lines_that_are_missing_swapped_or_not_ended_are_found() -> None:
    assert _json(lambda lines: lines) == []
    assert "expected 5 rows, found 4" in _json(lambda lines: lines[:-1])[0]
    assert "row 0" in _json(lambda lines: [lines[1], lines[0], *lines[2:]])[0]
    assert "has no end" in _json(lambda lines: [*lines[:-1], lines[-1].strip()])[0]
    assert "cannot be decoded" in _json(lambda lines: [*lines, b"\n"])[0]


def test_objects_that_are_missing_or_too_many_are_found() -> None:
    assert compare({"a.json": b""}, {}) == ["missing: a.json"]
    assert compare({}, {"a.json": b""}) == ["not expected: a.json"]
    assert compare({}, {f"{n}": b"" for n in range(20)}, most=3)[-1] == "and 17 more"


def test_bytes_are_compared_exactly() -> None:
    assert compare({"a.bin": b"x\n"}, {"a.bin": b"x\n"}) == []
    assert compare({"a.bin": b"x\n"}, {"a.bin": b"x"}) != []
    kept = {"a.json": Rows("bytes", (b"149.50\n",))}
    assert compare(kept, {"a.json": b"149.50\n"}) == []
    assert compare(kept, {"a.json": b"149.5\n"}) != []


def test_gzip_is_compared_by_content_and_must_be_whole() -> None:
    packed = gzip.compress(b"1\n")
    assert compare({"a.json.gz": packed}, {"a.json.gz": gzip.compress(b"1\n", 1, mtime=5)}) == []
    assert compare({"a.json.gz": packed}, {"a.json.gz": packed[:-4]}) != []
    assert compare({"a.json.gz": packed}, {"a.json.gz": b"1\n"}) != []


def _avro(schema: object, rows: list[object], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), rows, codec=codec)
    return out.getvalue()


ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "n", "type": "long"}]}


@pytest.mark.parametrize(
    "other",
    [
        _avro(ORDER, [{"n": 2}]),
        _avro(ORDER, [{"n": 1}, {"n": 1}]),
        _avro(ORDER, [{"n": 1}], "deflate"),
        _avro({**ORDER, "name": "Order"}, [{"n": 1}]),
        _avro({**ORDER, "fields": [{"name": "n", "type": "int"}]}, [{"n": 1}]),
        _avro({**ORDER, "fields": [{"name": "n", "type": ["null", "long"]}]}, [{"n": 1}]),
        _avro({**ORDER, "connect.name": "shop.Order"}, [{"n": 1}]),
        b"Obj\x01",
    ],
)
def test_avro_of_another_schema_codec_or_record_is_found(other: bytes) -> None:
    assert compare({"a.avro": _avro(ORDER, [{"n": 1}])}, {"a.avro": other}) != []


def test_avro_names_may_be_written_in_two_ways() -> None:
    split = {"type": "record", "name": "Order", "namespace": "shop"}
    split |= {"fields": [{"name": "n", "type": {"type": "long"}}]}
    assert compare({"a.avro": _avro(ORDER, [{"n": 1}])}, {"a.avro": _avro(split, [{"n": 1}])}) == []


def _parquet(column: pa.Array, codec: str = "snappy", *, nullable: bool = True) -> bytes:
    out = io.BytesIO()
    schema = pa.schema([pa.field("n", column.type, nullable)])
    pq.write_table(pa.table([column], schema=schema), out, compression=codec)
    return out.getvalue()


@pytest.mark.parametrize(
    "other",
    [
        _parquet(pa.array([1, 3])),
        _parquet(pa.array([1, 2], pa.int32())),
        _parquet(pa.array([1, 2]), "gzip"),
        _parquet(pa.array([1, 2]), nullable=False),
        _parquet(pa.array([1])),
        _parquet(pa.array([1, 2]))[:-1],
    ],
)
def test_parquet_of_another_schema_codec_or_row_is_found(other: bytes) -> None:
    wanted = _parquet(pa.array([1, 2]))
    assert compare({"a.parquet": wanted}, {"a.parquet": wanted}) == []
    assert compare({"a.parquet": wanted}, {"a.parquet": other}) != []


def test_a_case_shows_its_rows_decoded() -> None:
    case = load_case("14")
    rows = case.rows(next(iter(case.objects)))
    assert (rows.kind, len(rows.rows), rows.shape[0]) == ("avro", 20, "snappy")
    assert decode("a.json", b'{"a":1}\n').rows == ({"a": 1},)
