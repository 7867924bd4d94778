"""SINETStream's transforms, and its two connectors over records that are in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.golden.cases import GoldenCase, GoldenRecord, GoldenTopic
from tests.support.sinetstream_cases import DATA, HOUR, TIMES, envelope
from tests.support.sink_offline import write_offline

from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.errors import RecordError
from kafkeep.options.option import ConfigErrors
from kafkeep.options.sink.transforms import parse_transforms
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import (
    DECIMAL,
    OPTIONAL_BYTES,
    TIMESTAMP,
    Column,
    Field,
    Kind,
    Schema,
    arrow_type,
)
from kafkeep.records.transforms.chain import open_chain

P = "jp.ad.sinet.sinetstream.connect.transforms."
MICROS = 86_401_234_123
"""Of SINETStream's own tests: 1970-01-02 00:00:01.234123."""
LONG = Schema(kind=Kind.INT64)
TEXT = Schema(kind=Kind.STRING)
BYTES = Schema(kind=Kind.BYTES)
MESSAGE = Schema(kind=Kind.STRUCT, fields=(Field("tstamp", LONG), Field("msg", BYTES)))


def typed(schema: Schema, *values: Any) -> Column:
    return Column(schema, pa.array(values, type=arrow_type(schema)))


def texts(*values: bytes | None) -> Column:
    return Column(None, pa.array(values, type=pa.binary()))


def applied(kind: str, column: Column, **options: str) -> Column:
    """Run one transform of values."""
    told = {f"transforms.a.{key.replace('_', '.')}": text for key, text in options.items()}
    spec = {"transforms": "a", "transforms.a.type": f"{P}{kind}$Value", **told}
    count = len(column)
    rows = Rows(
        topic="t",
        partition=0,
        offsets=np.arange(count),
        timestamps=np.zeros(count, dtype=np.int64),
        key=Column(OPTIONAL_BYTES, pa.nulls(count, pa.binary())),
        value=column,
        headers=pa.array([[]] * count, type=HEADERS_TYPE),
    )
    (found,) = open_chain(parse_transforms(spec)).apply(rows)
    return found.value


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("string", "1970 01 02 00 00 01 234 UTC"),
        ("unix", 86_401_234),
        ("Timestamp", 86_401_234),
        ("Date", 1),
        ("Time", 1234),
    ],
)
def test_microseconds_become_what_sinetstream_makes_of_them(target: str, expected: object) -> None:
    options = {"target_type": target, "format": "yyyy MM dd HH mm ss SSS z"}
    whole = applied("MicrosecondTimestampConverter", typed(LONG, MICROS), **options)
    assert whole.array.to_pylist() == [expected]
    assert (whole.schema or LONG).optional is False
    message = typed(MESSAGE, {"tstamp": MICROS, "msg": b"m"})
    field = applied("MicrosecondTimestampConverter", message, field="tstamp", **options)
    assert field.array.to_pylist() == [{"tstamp": expected, "msg": b"m"}]


def test_microseconds_are_cut_towards_zero_as_java_does() -> None:
    column = typed(LONG, -1999, 1999, -(2**63), 2**63 - 1)
    found = applied("MicrosecondTimestampConverter", column, target_type="unix")
    assert found.array.to_pylist() == [-1, 1, -9223372036854775, 9223372036854775]


def test_microseconds_without_a_schema_stay_json() -> None:
    column = texts(b'{"tstamp": 86401234123, "msg": 1.50}', b'{"msg":1}', None)
    found = applied("MicrosecondTimestampConverter", column, field="tstamp", target_type="unix")
    assert found.schema is None
    assert found.array.to_pylist() == [
        b'{"tstamp": 86401234, "msg": 1.50}',
        b'{"msg":1,"tstamp":null}',
        None,
    ]


@pytest.mark.parametrize(
    "column", [typed(TEXT, "2020"), typed(Schema(kind=Kind.INT32), 1), texts(b"1.5"), texts(b'"x"')]
)
def test_a_time_that_is_no_long_is_a_bad_record(column: Column) -> None:
    with pytest.raises(RecordError, match="to be a Long"):
        applied("MicrosecondTimestampConverter", column, target_type="unix")


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (BYTES, b"\xff\x00\n", b"\xff\x00\n"),
        (TEXT, "結果", "結果".encode()),
        (LONG, -7, b"-7"),
        (Schema(kind=Kind.BOOLEAN), True, b"true"),
        (Schema(kind=Kind.FLOAT64), 1e10, b"1.0E10"),
        (
            Schema(kind=Kind.BYTES, name=DECIMAL, parameters=(("scale", "2"),)),
            b"\x04\xd2",
            b"12.34",
        ),
        (Schema(kind=Kind.INT64, name=TIMESTAMP), MICROS // 1000, b"1970-01-02T00:00:01.234Z"),
    ],
)
def test_values_are_cast_to_bytes(schema: Schema, value: object, expected: bytes) -> None:
    schema = schema.as_optional()
    found = applied("ByteArrayCast", typed(schema, value, None))
    assert found.array.to_pylist() == [expected, None]
    assert found.schema == OPTIONAL_BYTES


def test_one_field_is_cast_and_the_others_stay() -> None:
    column = typed(MESSAGE, {"tstamp": 5, "msg": b"\xffa"})
    assert applied("ByteArrayCast", column, field="tstamp").array.to_pylist() == [
        {"tstamp": b"5", "msg": b"\xffa"}
    ]
    found = applied("StringCast", column, field="msg")
    assert found.array.to_pylist() == [{"tstamp": 5, "msg": "�a"}]
    assert found.schema is not None and found.schema.fields == (
        Field("tstamp", LONG),
        Field("msg", TEXT),
    )


def test_a_cast_of_something_with_parts_names_what_to_do() -> None:
    for kind in ("ByteArrayCast", "StringCast"):
        with pytest.raises(RecordError, match=f"{kind} does not cast STRUCT: name a field"):
            applied(kind, typed(MESSAGE, {"tstamp": 5, "msg": b"a"}))


def test_json_is_cast_to_bytes_and_to_strings() -> None:
    column = texts(b'"a\\u00e9"', b" 1.50", b'{"a":1}', b"null", None)
    assert applied("ByteArrayCast", column).array.to_pylist() == [
        "aé".encode(),
        b"1.50",
        b'{"a":1}',
        None,
        None,
    ]
    found = applied("StringCast", column)
    expected = [b'"a\\u00e9"', b'"1.50"', b'"{\\"a\\":1}"', b"null", None]
    assert found.array.to_pylist() == expected
    inside = applied("ByteArrayCast", texts(b'{"msg":"abc","n":1}'), field="msg")
    assert inside.array.to_pylist() == [b'{"msg":"YWJj","n":1}']


def test_a_payload_is_read_as_json() -> None:
    column = typed(
        MESSAGE.as_optional(), {"tstamp": 5, "msg": b'{"n": 1.50,\n"b": []}'}, None,
        {"tstamp": 6, "msg": b"null"},
    )  # fmt: skip
    found = applied("ParseJson", column, field="msg")
    assert found.schema is None
    assert found.array.to_pylist() == [
        b'{"tstamp":5,"msg":{"n": 1.50,"b": []}}',
        None,
        b'{"tstamp":6,"msg":null}',
    ]
    assert applied("ParseJson", typed(TEXT, "[1]")).array.to_pylist() == [b"[1]"]
    string = texts(b'{"msg":"[1, \\"\xc3\xa9\\"]"}')
    assert applied("ParseJson", string, field="msg").array.to_pylist() == [
        '{"msg":[1, "é"]}'.encode()
    ]


@pytest.mark.parametrize(
    ("column", "field", "why"),
    [
        (typed(BYTES, b"{"), "", "not JSON"),
        (typed(BYTES, b"{} {}"), "", "not JSON"),
        (typed(LONG, 5), "", "byte.. or String, but found class java.lang.Long"),
        (texts(b"5"), "", "byte.. or String, but found class java.lang.Long"),
        (typed(MESSAGE, {"tstamp": 5, "msg": b"{}"}), "mgs", "mgs is not a valid field name"),
    ],
)
def test_what_cannot_be_read_as_json_is_a_bad_record(column: Column, field: str, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        applied("ParseJson", column, field=field)


@given(st.lists(st.none() | st.binary()))
def test_a_cast_changes_no_bytes(values: list[bytes | None]) -> None:
    if values:
        column = typed(OPTIONAL_BYTES, *values)
        assert applied("ByteArrayCast", column).array.to_pylist() == values


@pytest.mark.parametrize("name", ["Cast$Value", "CalcEtag$Value", "ByteArrayCast"])
def test_other_names_in_their_package_are_refused(name: str) -> None:
    with pytest.raises(ConfigErrors) as refusal:
        parse_transforms({"transforms": "a", "transforms.a.type": P + name})
    assert list(refusal.value.by_key) == ["transforms.a.type"]


def read(config: Mapping[str, object], **more: object) -> ConnectorConfig:
    given_keys = {**config, "topics": "sensor", "s3.bucket.name": "bucket", **more}
    return ConnectorConfig.from_map(given_keys, environ={})


def test_a_payload_alone_in_its_object_has_no_separator_unless_one_is_set() -> None:
    separator = "format.bytearray.separator"
    assert read(DATA).sink.texts[separator] == ""
    assert read(TIMES).sink.texts[separator] == ""
    assert separator not in read(DATA, **{"flush.size": "2"}).sink.texts
    assert (
        separator
        not in read(
            DATA,
            **{"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"},
        ).sink.texts
    )
    assert read(DATA, **{separator: "|"}).sink.texts[separator] == "|"


def written(config: Mapping[str, object], values: Sequence[tuple[int, bytes]]) -> dict[str, bytes]:
    """Return the objects a connector makes of times and values of one partition."""
    records = [
        GoldenRecord("sensor", 3, offset, time_ms, b"k", value, ())
        for offset, (time_ms, value) in enumerate(values)
    ]
    posted = {"topics": "sensor"} | {key: str(value) for key, value in config.items()}
    case = GoldenCase(
        name="sinetstream", connector="c", config=posted,
        topics={"sensor": GoldenTopic(4, {}, {3: len(records)})}, records=tuple(records),
        objects={}, tags={}, committed={}, task="", failure=None, phases=(), dlq=(),
    )  # fmt: skip
    return write_offline(case, records)


def test_both_connectors_write_what_the_guide_says() -> None:
    sent_us = (HOUR + 1234) * 1000 + 567
    values = [
        (HOUR, envelope(b"\xff\xd8 picture\n", sent_us)),
        (HOUR + 3_600_000, b"not in an envelope"),
        (HOUR, envelope(b"", sent_us)),
    ]
    first, second = (f"topics/sensor/year=2022/month=04/day=18/hour={h}/" for h in (10, 11))
    assert written(DATA, values) == {
        first + "sensor+3+0000000000.bin": b"\xff\xd8 picture\n",
        second + "sensor+3+0000000001.bin": b"not in an envelope",
        first + "sensor+3+0000000002.bin": b"",
    }
    assert written(TIMES, values) == {
        first + "sensor+3+0000000000-timestamp.txt": b"2022-04-18T01:00:01.234",
        second + "sensor+3+0000000001-timestamp.txt": b"2022-04-18T02:00:00.000",
        first + "sensor+3+0000000002-timestamp.txt": b"2022-04-18T01:00:01.234",
    }


def test_payloads_that_are_json_can_be_lines_of_json() -> None:
    config = {key: value for key, value in DATA.items() if not key.startswith("transforms.")}
    config |= {
        "format.class": "json",
        "flush.size": "2",
        "transforms": "parse",
        "transforms.parse.type": "ParseJson$Value",
        "transforms.parse.field": "msg",
    }
    values = [(HOUR, envelope(b'{"t":\n21.50}', 5)), (HOUR, b"[]")]
    (lines,) = written(config, values).values()
    assert lines == b'{"tstamp":5,"msg":{"t":21.50}}\n{"tstamp":1650243600000000,"msg":[]}\n'


def test_the_guide_shows_what_is_tested() -> None:
    page = (Path(__file__).parents[4] / "docs" / "sinetstream.md").read_text()
    shown = [json.loads(part.partition("```")[0]) for part in page.split("```json\n")[1:]]
    for document, config in zip(shown, (DATA, TIMES), strict=True):
        places = {"topics", "s3.bucket.name", "store.url", "format.bytearray.separator"}
        assert document["config"]["format.bytearray.separator"] == ""
        kept = {k: v for k, v in document["config"].items() if k not in places}
        assert kept == {k: v for k, v in config.items() if k not in places}
