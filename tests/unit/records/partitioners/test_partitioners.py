"""Partitioners: the directory and the time of each record."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.support.partition_rows import json_column, make_rows, struct_column

from kafkeep.errors import RecordError
from kafkeep.options.option import parse_group
from kafkeep.options.sink.partitioners import PartitionOptions
from kafkeep.records.partitioners.partitioners import RowDirectories, open_partitioner
from kafkeep.records.rows import Rows
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Kind, Schema

TEN = 1733220000000  # 2024-12-03T10:00:00Z
HOURLY = "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"


def place(rows: Rows, *, at_ms: int = TEN, **given: str) -> RowDirectories:
    options = parse_group(PartitionOptions, {k.replace("_", "."): v for k, v in given.items()})
    return open_partitioner(options).place(rows, at_ms=at_ms)


def paths(rows: Rows, *, at_ms: int = TEN, **given: str) -> list[str]:
    placed = place(rows, at_ms=at_ms, **given)
    return [placed.paths[code] for code in placed.codes]


def by_field(rows: Rows, names: str, **given: str) -> list[str]:
    return paths(rows, partitioner_class="field", partition_field_name=names, **given)


def by_time(rows: Rows, *, at_ms: int = TEN, **given: str) -> list[str]:
    more = {"partition_duration_ms": "3600000", "path_format": HOURLY, **given}
    return paths(rows, at_ms=at_ms, partitioner_class="time", **more)


def one_field(schema: Schema) -> Schema:
    return Schema(kind=Kind.STRUCT, optional=True, fields=(Field("f", schema),))


@pytest.mark.parametrize(
    ("schema", "values", "wanted"),
    [
        (Schema(kind=Kind.INT8, optional=True), [-5, None], ["-5", "null"]),
        (Schema(kind=Kind.INT64), [2**62, 0], [str(2**62), "0"]),
        (Schema(kind=Kind.BOOLEAN, optional=True), [True, False, None], ["true", "false", "null"]),
        (
            Schema(kind=Kind.STRING, optional=True),
            ["a b=c", "a/b", "", "null", None, "..", "ü"],
            ["a b=c", "a%2Fb", "%empty", "%6Eull", "null", "%2E%2E", "ü"],
        ),
        (Schema(kind=Kind.FLOAT64), [1.5, 0.1], ["1.5", "0.1"]),
        (Schema(kind=Kind.FLOAT32), [0.1], ["0.1"]),
        (Schema(kind=Kind.INT32, name=DATE), [0, 20060, -1], ["1970-01-01", "2024-12-03"]),
        (Schema(kind=Kind.INT64, name=TIMESTAMP), [TEN + 5], ["2024-12-03T10:00:00.005Z"]),
        (Schema(kind=Kind.INT32, name=TIME), [3_661_001], ["01:01:01.001"]),
        (
            Schema(kind=Kind.BYTES, name=DECIMAL, parameters=(("scale", "2"),)),
            [(-12345).to_bytes(2, "big", signed=True), (5).to_bytes(1, "big")],
            ["-123.45", "0.05"],
        ),
        (Schema(kind=Kind.BYTES), [b"abc"], ["abc"]),
    ],
)
def test_typed_fields_are_written(schema: Schema, values: list[object], wanted: list[str]) -> None:
    rows = make_rows(struct_column(one_field(schema), [{"f": value} for value in values]))
    assert by_field(rows, "f")[: len(wanted)] == [f"f={text}" for text in wanted]


def test_json_fields_are_written_as_they_came() -> None:
    texts = [
        "1.50",
        "1e3",
        '"a\\u00fc\\/"',
        "true",
        "null",
        '"null"',
        '""',
        "123456789012345678901",
    ]
    rows = make_rows([f'{{"x": 1, "f": {text}}}'.encode() for text in texts])
    wanted = ["1.50", "1e3", "aü%2F", "true", "null", "%6Eull", "%empty", "123456789012345678901"]
    assert by_field(rows, "f") == [f"f={text}" for text in wanted]


def test_nested_fields_and_fields_with_dots_in_their_names_are_found() -> None:
    rows = make_rows(
        [b'{"a": {"b": {"c": 1}}}', b'{"a.b": {"c": 2}}', b'{"a": null}', b'{"a.b.c": 4}']
    )
    assert by_field(rows, "a.b.c") == ["a.b.c=1", "a.b.c=2", "a.b.c=null", "a.b.c=4"]
    inner = Schema(kind=Kind.STRUCT, optional=True, fields=(Field("b", Schema(kind=Kind.INT32)),))
    outer = Schema(
        kind=Kind.STRUCT, fields=(Field("a", inner), Field("x.y", Schema(kind=Kind.STRING)))
    )
    rows = make_rows(struct_column(outer, [{"a": {"b": 7}, "x.y": "q"}, {"a": None, "x.y": "r"}]))
    assert by_field(rows, "a.b,x.y") == ["a.b=7/x.y=q", "a.b=null/x.y=r"]
    assert by_field(rows.slice(1, 2), "a.b") == ["a.b=null"]


def test_several_fields_stand_in_the_order_they_were_named() -> None:
    rows = make_rows(
        [b'{"a":1,"b":"x"}', b'{"a":2,"b":"x"}', b'{"a":1,"b":"y"}', b'{"a":1,"b":"x"}']
    )
    assert by_field(rows, "b,a") == ["b=x/a=1", "b=x/a=2", "b=y/a=1", "b=x/a=1"]
    assert len(place(rows, partitioner_class="field", partition_field_name="b,a").paths) == 3


@pytest.mark.parametrize(
    "value", [b"{}", b"[1]", b"3", b'{"f":{}}', b'{"f":[]}', b'{"f":"\\ud800"}']
)
def test_a_json_record_without_the_field_is_named(value: bytes) -> None:
    rows = make_rows([b'{"f":1}', value, b'{"f":1}'], topic="t", partition=3)
    with pytest.raises(RecordError, match="t-3 offset 101: error encoding partition: "):
        by_field(rows, "f")


def test_a_typed_record_without_the_field_is_named() -> None:
    schema = one_field(Schema(kind=Kind.ARRAY, items=Schema(kind=Kind.INT32)))
    rows = make_rows(struct_column(schema, [None, {"f": [1]}]))
    with pytest.raises(RecordError, match=r"orders-0 offset 101: .*'g' does not exist"):
        by_field(rows, "g")
    with pytest.raises(RecordError, match=r"offset 101: .*type array"):
        by_field(rows, "f")
    text = struct_column(Schema(kind=Kind.STRING, optional=True), ["x"])
    with pytest.raises(RecordError, match=r"'f' does not exist: .* gives string,") as refused:
        by_field(make_rows(text), "f")
    assert refused.value.hint == "Choose a converter that reads fields, such as JsonConverter."


ALL_LETTERS = "xxxx/'W'ww/e/EEE/EEEE/D/hh/K/kk/a/Z/ZZ/z/MMM/MMMM/G"


@pytest.mark.parametrize(
    ("locale", "wanted"),
    [
        ("de", ["2024/W49/2/Di./Dienstag/338/10/10/10/AM/+0100/+01:00/MEZ/Dez./Dezember/n. Chr.",
                "2024/W27/3/Mi./Mittwoch/185/11/11/11/AM/+0200/+02:00/MESZ/Juli/Juli/n. Chr."]),
        ("fr", ["2024/W49/2/mar./mardi/338/10/10/10/AM/+0100/+01:00/CET/déc./décembre/ap. J.-C.",
                "2024/W27/3/mer./mercredi/185/11/11/11/AM/+0200/+02:00/CEST/juil./juillet/"
                "ap. J.-C."]),
        ("en-US", ["2024/W49/2/Tue/Tue/338/10/10/10/AM/+0100/+01:00/CET/Dec/Dec/CE",
                   "2024/W27/3/Wed/Wed/185/11/11/11/AM/+0200/+02:00/CEST/Jul/Jul/CE"]),
    ],
)  # fmt: skip
def test_all_letters_of_a_path_and_the_locale_de_are_taken(locale: str, wanted: list[str]) -> None:
    """As Joda 2.12.7 writes them on Java 17; names other than English were refused."""
    found = [
        by_time(make_rows([b"1"]), at_ms=time, path_format=ALL_LETTERS, timezone="Europe/Berlin",
                locale=locale)[0]
        for time in (1733219880000, 1720000000000)
    ]  # fmt: skip
    assert found == wanted


def test_tombstones_have_null_fields_and_kafkas_time() -> None:
    rows = make_rows([None, b'{"f":1,"timestamp":0}'], timestamps=[TEN, TEN])
    assert by_field(rows, "f") == ["f=null", "f=1"]
    assert by_time(rows, timestamp_extractor="RecordField", path_format="YYYY") == ["2024", "1970"]
    typed = struct_column(one_field(Schema(kind=Kind.INT64)), [None, {"f": 1}])
    rows = make_rows(typed, timestamps=[TEN, TEN])
    wanted = ["2024", "1970"]
    more = {"timestamp_extractor": "RecordField", "timestamp_field": "f", "path_format": "YYYY"}
    assert by_time(rows, **more) == wanted
    with pytest.raises(RecordError, match=r"offset 100: .*has no timestamp"):
        by_time(replace(rows, timestamps=np.array([-1, 0])), **more)


def test_keys_and_headers_are_fields_too() -> None:
    headers = [
        [(b"tenant", b"old"), (b"other", b"x"), (b"tenant", b"new/1")],
        [],
        [(b"tenant", None)],
        [(b"tenant", b"null")],
    ]
    rows = make_rows(
        [b"{}"] * 4,
        key=json_column([b'{"id": 5}', b'{"id": 6}', None, b'{"id": 5}']),
        headers=headers,
    )
    wanted = [
        "tenant=new%2F1/id=5",
        "tenant=null/id=6",
        "tenant=null/id=null",
        "tenant=%6Eull/id=5",
    ]
    assert by_field(rows, "header:tenant,key:id") == wanted
    assert by_field(rows.slice(1, 4), "header:tenant,key:id") == wanted[1:]
    whole = struct_column(Schema(kind=Kind.BYTES, optional=True), [b"k", None, b"k", b"null"])
    assert by_field(replace(rows, key=whole), "key:") == [
        "key=k",
        "key=null",
        "key=k",
        "key=%6Eull",
    ]


def test_bytes_that_are_no_text_are_refused() -> None:
    rows = make_rows([b"{}", b"{}"], headers=[[], [(b"h", b"\xff")]])
    with pytest.raises(RecordError, match=r"offset 101: .*header 'h': bytes that are not UTF-8"):
        by_field(rows, "header:h")


def test_equal_directories_are_one() -> None:
    rows = make_rows(
        [b'{"f":"a"}', b'{"f":"\\u0061"}', b'{"f":5}', b'{"f":"5"}', b"null", b'{"f":null}']
    )
    placed = place(rows, partitioner_class="field", partition_field_name="f")
    assert placed.paths == ("f=a", "f=5", "f=null")
    assert placed.codes.tolist() == [0, 0, 1, 1, 2, 2]
    rows = make_rows([b"1"] * 3, headers=[[(b"h", None)], [], [(b"h", b"null")]])
    given = {"partitioner_class": "field", "partition_field_name": "header:h"}
    assert place(rows, partition_path_encoding="raw", **given).paths == ("h=null",)
    assert place(rows.slice(2, 3), **given).paths == ("h=%6Eull",)


def test_a_value_field_may_be_called_key() -> None:
    assert by_field(make_rows([b'{"key": 1}']), "key") == ["key=1"]


def test_raw_values_make_directories_of_their_own() -> None:
    rows = make_rows([b'{"f":"a/b%"}', b'{"f":""}', b'{"f":null}', b'{"f":"null"}'])
    wanted = ["f=a/b%", "f=", "f=null", "f=null"]
    assert by_field(rows, "f", partition_path_encoding="raw") == wanted


def test_fields_stand_before_the_time() -> None:
    rows = make_rows([b'{"c":"de"}', b'{"c":"fr"}', b'{"c":"de"}'], timestamps=[TEN, TEN, 0])
    wanted = ["c=de/2024/12", "c=fr/2024/12", "c=de/1970/01"]
    more = {"partition_field_name": "c", "timestamp_extractor": "Record", "path_format": "YYYY/MM"}
    assert paths(rows, partitioner_class="field-time", partition_duration_ms="1", **more) == wanted


def test_the_default_directory_is_the_partition_and_has_kafkas_times() -> None:
    placed = place(make_rows([b"1", b"2"], partition=7, timestamps=[5, -1]))
    assert (placed.paths, placed.codes.tolist()) == (("partition=7",), [0, 0])
    assert placed.times is not None and placed.times.tolist() == [5, -1]


def test_other_partitioners_take_the_extractors_time_when_it_is_set() -> None:
    rows = make_rows([b'{"timestamp": 3}', b"{}"], timestamps=[5, 6])
    placed = place(rows, timestamp_extractor="RecordField")
    assert placed.times is not None and placed.times.tolist() == [3, 6]
    placed = place(rows, timestamp_extractor="Wallclock", at_ms=9)
    assert placed.times is not None and placed.times.tolist() == [9, 9]


def test_wallclock_is_the_reading_it_is_given() -> None:
    rows = make_rows([b"1", b"2"], timestamps=[-1, 0])
    assert set(by_time(rows)) == {"year=2024/month=12/day=03/hour=10"}


def test_a_record_without_a_timestamp_is_named() -> None:
    rows = make_rows([b"1", b"2"], timestamps=[0, -1])
    with pytest.raises(RecordError, match=r"offset 101: .*has no timestamp"):
        by_time(rows, timestamp_extractor="Record")
    with pytest.raises(RecordError, match="in no calendar"):
        by_time(make_rows([b"1"], timestamps=[2**63 - 1]), timestamp_extractor="Record")


def test_times_in_nanoseconds_have_a_year() -> None:
    rows = make_rows([b"1"], timestamps=[TEN * 1_000_000])
    more = {
        "timestamp_extractor": "Record",
        "timezone": "Europe/Berlin",
        "path_format": "YYYY/MM/dd/HH",
    }
    assert by_time(rows, **more) == ["54925525/05/10/18"]  # as Joda writes it


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (b"1733220000000", TEN),
        (b"1733220000000.9", TEN),
        (b"1.73322e12", TEN),
        (b'"1733220000000"', TEN),
        (b'"2024-12-03T10:00:00Z"', TEN),
        (b'"2024-12-03T10:00:00.123456+00:00"', TEN + 123),
        (b'"2024-12-03T11:00:00+01:00"', TEN),
        (b'"2024-12-03T10:00"', TEN),
        (b'"2024-12-03"', TEN - 36_000_000),
        (b'"2024\\u002d12-03"', TEN - 36_000_000),
        (b"-1", -1),
    ],
)
def test_fields_hold_times_as_numbers_and_texts(value: bytes, time: int) -> None:
    rows = make_rows([b'{"a":{"t":' + value + b"}}"] * 2 + [b'{"a":{"t":7}}'])
    more = {"partitioner_class": "hourly", "timestamp_extractor": "RecordField"}
    for some in (rows, rows.slice(0, 2)):
        times = place(some, timestamp_field="a.t", **more).times
        assert times is not None and times.tolist()[:2] == [time, time]


@pytest.mark.parametrize(
    "value",
    [b"true", b"null", b"{}", b'"yesterday"', b'"2023-02-29T00:00:00Z"', b"1e999999999", b"1e30",
     b'"2024-12-03 10:00:00"', b'"\\ud800"', b'""'],
)  # fmt: skip
def test_a_field_that_is_no_time_is_named(value: bytes) -> None:
    rows = make_rows([b'{"timestamp":1}', b'{"timestamp":' + value + b"}"])
    with pytest.raises(RecordError, match=r"offset 101: .*'timestamp' is not a time"):
        by_time(rows, timestamp_extractor="RecordField")


@pytest.mark.parametrize(
    ("schema", "value", "time"),
    [
        (Schema(kind=Kind.INT64), 5, 5),
        (Schema(kind=Kind.INT32), 5, 5),
        (Schema(kind=Kind.INT64, name=TIMESTAMP), 5, 5),
        (Schema(kind=Kind.INT32, name=DATE), 2, 2 * 86_400_000),
        (Schema(kind=Kind.STRING), "5", 5),
        (Schema(kind=Kind.STRING), "1970-01-01T00:00:01Z", 1000),
        (Schema(kind=Kind.INT32, name=TIME), 5, None),
        (Schema(kind=Kind.FLOAT64), 5.0, None),
        (Schema(kind=Kind.BOOLEAN), True, None),
        (Schema(kind=Kind.INT64, optional=True), None, None),
    ],
)
def test_typed_fields_hold_times(schema: Schema, value: object, time: int | None) -> None:
    rows = make_rows(struct_column(one_field(schema), [{"f": value}]))
    given = {"partitioner_class": "daily", "timestamp_extractor": "RecordField"}
    if time is None:
        with pytest.raises(RecordError, match="'f' is not a time"):
            place(rows, timestamp_field="f", **given)
    else:
        times = place(rows, timestamp_field="f", **given).times
        assert times is not None and times.tolist() == [time]


@pytest.mark.parametrize(("affix", "wanted"), [("PREFIX", "{}/{}"), ("SUFFIX", "{1}/{0}")])
def test_the_schemas_name_stands_around_the_directory(affix: str, wanted: str) -> None:
    schema = replace(one_field(Schema(kind=Kind.INT32)), name="shop/Order")
    rows = make_rows(struct_column(schema, [{"f": 1}]))
    named = wanted.format("schema_name=shop%2FOrder", "partition=0")
    assert paths(rows, s3_schema_partition_affix_type=affix) == [named]
    none = wanted.format("schema_name=null", "partition=0")
    assert paths(make_rows([b"1"]), s3_schema_partition_affix_type=affix) == [none]


def test_no_rows_have_no_place() -> None:
    rows = make_rows([])
    for given in ({"partitioner_class": "hourly"}, {"partitioner_class": "field"}):
        placed = place(rows, partition_field_name="a,header:b", **given)
        assert len(placed.codes) == 0


def test_a_million_records_are_placed_without_a_loop_over_them() -> None:
    """By counting what is written, not by the clock."""
    count = 1_000_000
    schema = one_field(Schema(kind=Kind.STRING))
    names = pa.array([f"v{i}" for i in range(1000)]).take(pa.array(np.arange(count) % 1000))
    column = struct_column(schema, [{"f": "x"}])
    values = pa.StructArray.from_arrays([names], fields=list(column.array.type))
    rows = make_rows([b"1"])
    rows = replace(
        rows,
        offsets=np.arange(count),
        timestamps=TEN + np.arange(count) * 20,
        value=replace(column, array=values),
        headers=pa.array([[]] * 1, rows.headers.type).take(pa.array(np.zeros(count, np.int64))),
    )
    given = {"timestamp_extractor": "Record", "timezone": "America/New_York"}
    hours = place(rows, partitioner_class="hourly", **given)
    assert len(hours.paths) == 6
    fields = place(rows, partitioner_class="field", partition_field_name="f")
    assert len(fields.paths) == 1000
    assert fields.paths[fields.codes[4321]] == "f=v321"


def test_partitioners_do_not_import_pandas() -> None:
    code = (
        "import pickle, sys\n"
        "rows, options = pickle.load(sys.stdin.buffer)\n"
        "from kafkeep.records.partitioners.partitioners import open_partitioner\n"
        "print(open_partitioner(options).place(rows, at_ms=0).paths)\n"
        "assert 'pandas' not in sys.modules\n"
    )
    options = PartitionOptions(
        partitioner_class="field-time",
        path_format="YYYY",
        partition_duration_ms=1,
        partition_field_name=("a", "header:h", "key:"),
        timestamp_extractor="RecordField",
    )
    rows = make_rows([b'{"a":1,"timestamp":"2024-12-03"}'], headers=[[(b"h", b"x")]])
    given = pickle.dumps((rows, options))
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, check=True, capture_output=True
    )
    assert done.stdout == b"('a=1/h=x/key=null/2024',)\n"
