"""JsonConverter beside the real one: schemas, payloads, what it refuses, and the way back."""

from __future__ import annotations

import base64
import json
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from tests.support.golden.cases import GoldenCase, load_case

from kafkeep.errors import RecordError
from kafkeep.records.converters.converter import ConvertedRange
from kafkeep.records.converters.json import JsonConverter
from kafkeep.records.json.schema import parse_schema, schema_from_json, schema_to_json
from kafkeep.records.schema import DECIMAL, TIMESTAMP, Column, Field, Kind, Schema

STRING = {"type": "string", "optional": False}


def convert(*values: bytes | None, schemas_enable: bool = True) -> list[ConvertedRange]:
    array = pa.array([b"0", *values], pa.binary()).slice(1)
    pieces = list(JsonConverter(schemas_enable).convert(array))
    assert [piece.start for piece in pieces] == [0, *[piece.stop for piece in pieces]][:-1]
    assert sum(piece.stop - piece.start for piece in pieces) == len(values)
    return pieces


def envelope(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def column_of(piece: ConvertedRange) -> Column:
    assert isinstance(piece.result, Column), piece.result
    piece.result.array.validate(full=True)
    return piece.result


def error_of(piece: ConvertedRange) -> str:
    assert isinstance(piece.result, RecordError)
    assert piece.stop == piece.start + 1
    return piece.result.message


def decode_one(schema: Any, payload: Any) -> Any:
    (piece,) = convert(envelope(schema, payload))
    return column_of(piece).array[0].as_py()


def refusal(schema: Any, payload: Any) -> str:
    (piece,) = convert(envelope(schema, payload))
    return error_of(piece)


def struct(**fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"field": n, **f} for n, f in fields.items()]}


def values_of(case: GoldenCase) -> list[bytes | None]:
    return [record.value for record in case.records if record.partition == 0]


# Beside the real converter


def test_rich_values_are_what_the_real_sink_wrote() -> None:
    case = load_case("37b")
    values = values_of(case)
    (piece,) = convert(*values)
    column = column_of(piece)
    written = b"".join(case.objects[key] for key in sorted(case.objects)).splitlines()
    ours = JsonConverter(schemas_enable=False).restore(column).to_pylist()
    assert len(written) == 40
    assert [json.loads(x) for x in ours[:40]] == [json.loads(x) for x in written]


def test_a_rich_schema_comes_through_whole() -> None:
    (piece, *_) = convert(*values_of(load_case("37b")))
    schema = column_of(piece).schema
    assert schema is not None
    assert (schema.name, schema.version, schema.doc) == ("shop.RichOrder", 3, "a rich order")
    price, placed = schema.field("price"), schema.field("placed")
    assert price is not None and placed is not None
    parameters = (("connect.decimal.precision", "12"), ("scale", "2"))
    assert (price.schema.name, price.schema.parameters) == (DECIMAL, parameters)
    assert (placed.schema.kind, placed.schema.name) == (Kind.INT64, TIMESTAMP)


@pytest.mark.parametrize("number", ["07", "13", "13f", "15", "16", "16c", "17", "17c", "18", "18c"])
def test_there_is_a_piece_for_each_change_of_schema(number: str) -> None:
    values = values_of(load_case(number))
    told = [json.loads(value)["schema"] for value in values if value]
    changes = [len(list(same)) for _, same in groupby(told)]
    pieces = convert(*values)
    assert [piece.stop - piece.start for piece in pieces] == changes
    assert all(column_of(piece).schema is not None for piece in pieces)


@pytest.mark.parametrize("number", ["13", "17", "18", "22c", "37b"])
def test_restored_envelopes_say_the_same(number: str) -> None:
    values = values_of(load_case(number))
    converter = JsonConverter(schemas_enable=True)
    for piece in convert(*values):
        column = column_of(piece)
        (again,) = convert(*converter.restore(column).to_pylist())
        assert again.result == column
    nulls = [value is None for value in values]
    restored = [text for piece in convert(*values) for text in _restored(converter, piece)]
    assert [text is None for text in restored] == nulls


def _restored(converter: JsonConverter, piece: ConvertedRange) -> list[bytes | None]:
    texts: list[bytes | None] = converter.restore(column_of(piece)).to_pylist()
    return texts


def test_plain_json_is_refused_in_the_words_of_connect() -> None:
    case = load_case("46")
    pieces = convert(*values_of(case))
    assert len(pieces) == 20
    assert case.failure is not None
    assert case.failure.split(": ", 1)[1] == error_of(pieces[0])


def test_dead_letters_have_the_reason_behind_the_words_of_connect() -> None:
    case = load_case("29")
    headers = dict(case.dlq[0].headers)
    connects = headers["__connect.errors.exception.message"]
    assert connects is not None
    (piece,) = convert(case.dlq[0].value, schemas_enable=False)
    assert error_of(piece).startswith(connects.decode().rstrip(": "))


# Schemaless


def test_schemaless_values_are_cut_at_records_at_fault_only() -> None:
    pieces = convert(b"1", None, b"{", b"}", b'{\n"a":2}', None, schemas_enable=False)
    assert [(p.start, p.stop) for p in pieces] == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert column_of(pieces[0]) == Column(None, pa.array([b"1", None], pa.binary()))
    assert error_of(pieces[1]) == (
        "Converting byte[] to Kafka Connect data failed due to serialization error:"
        " it ends too early, at byte 1"
    )
    assert column_of(pieces[3]).array.to_pylist() == [b'{"a":2}', None]


@pytest.mark.parametrize("blank", [b"", b" ", b" \r\n\t "])
def test_a_value_of_no_bytes_is_null_without_schemas(blank: bytes) -> None:
    """As Connect 4.1 has it: white space alone too."""
    (piece,) = convert(b"1", None, blank, b"{}", schemas_enable=False)
    assert column_of(piece).array.to_pylist() == [b"1", None, None, b"{}"]
    (piece,) = convert(blank, schemas_enable=False)
    assert column_of(piece).array.to_pylist() == [None]


@pytest.mark.parametrize("blank", [b"", b" \n"])
def test_a_value_of_no_bytes_is_no_envelope_with_schemas(blank: bytes) -> None:
    good = envelope(STRING, "x")
    first, second, third = convert(good, blank, good)
    assert 'requires "schema" and "payload" fields' in error_of(second)
    assert column_of(first) == column_of(third)


def test_nothing_gives_no_piece() -> None:
    assert convert(schemas_enable=False) == convert(schemas_enable=True) == []


def test_a_null_schema_leaves_the_payload_as_it_came() -> None:
    pieces = convert(
        b'{"payload": {"n": 1.50, "n": 1e400} , "schema":null}',
        None,
        b'{"\\u0073chema" : null,\n"payload":null}',
    )
    assert len(pieces) == 1
    column = column_of(pieces[0])
    assert column.array.to_pylist() == [b'{"n": 1.50, "n": 1e400}', None, b"null"]
    texts = JsonConverter(schemas_enable=True).restore(column)
    assert [column_of(p) for p in convert(*texts.to_pylist())] == [column]
    assert JsonConverter(schemas_enable=False).restore(column) == column.array


def test_values_that_are_all_null_are_one_schemaless_piece() -> None:
    (piece,) = convert(None, None)
    assert column_of(piece) == Column(None, pa.array([None, None], pa.binary()))


# Pieces


@pytest.mark.parametrize(
    "wrong",
    [
        b'{"schema":null}',
        b'{"payload":1}',
        b'{"schema":null,"payload":1,"x":2}',
        b'{"schema":null,"schema":null}',
        b"[null,1]",
        b'"schema"',
        b"null",
        b"{}",
    ],
)
def test_what_is_no_envelope_is_refused_alone(wrong: bytes) -> None:
    good = envelope(STRING, "x")
    pieces = convert(good, wrong, good)
    assert [(p.start, p.stop) for p in pieces] == [(0, 1), (1, 2), (2, 3)]
    assert 'requires "schema" and "payload" fields' in error_of(pieces[1])


def test_equal_schemas_in_other_words_are_one_piece_with_the_nulls_between() -> None:
    one = b'{"schema":{"type":"string","optional":false},"payload":"a"}'
    two = b'{"schema": { "optional":false, "type":"string" } ,"payload":"b"}'
    (piece,) = convert(None, one, None, two, None)
    assert column_of(piece).array.to_pylist() == [None, "a", None, "b", None]


def test_a_record_that_does_not_fit_its_schema_is_at_fault_alone() -> None:
    schema = struct(n={"type": "int8"})
    rows = [envelope(schema, {"n": n}) for n in (1, "2", 3, 400, 5)]
    pieces = convert(*rows, None)
    assert [(p.start, p.stop) for p in pieces] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6)]
    assert error_of(pieces[1]) == "n should be int8 but is string"
    assert error_of(pieces[3]) == "n does not fit into int8"
    assert column_of(pieces[4]).array.to_pylist() == [{"n": 5}, None]


def test_a_record_whose_schema_is_none_is_at_fault_alone() -> None:
    good = envelope(STRING, "x")
    bad = envelope({"type": "text"}, "y")
    pieces = convert(bad, good, None, bad, bad, good)
    assert [(p.start, p.stop) for p in pieces] == [(0, 1), (1, 3), (3, 4), (4, 5), (5, 6)]
    assert error_of(pieces[0]) == error_of(pieces[3]) == "Unknown schema type: text"


# Types


@pytest.mark.parametrize(
    ("kind", "payload", "expected"),
    [
        ("int8", -128, -128),
        ("int64", 9223372036854775807, 9223372036854775807),
        ("int64", -9223372036854775808, -9223372036854775808),
        ("int32", 3.0, 3),
        ("float", 1, 1.0),
        ("double", 0.1, 0.1),
        ("double", "-Infinity", float("-inf")),
        ("boolean", False, False),
        ("string", 'a\n"\\/é😀\u2028\0', 'a\n"\\/é😀\u2028\0'),
        ("bytes", "AP8=", b"\0\xff"),
        ("bytes", "", b""),
    ],
)
def test_plain_types_are_read(kind: str, payload: Any, expected: Any) -> None:
    assert decode_one({"type": kind}, payload) == expected


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("int8", 128),
        ("int32", 2147483648),
        ("int64", 9223372036854775808),
        ("int64", 1.5),
        ("int64", "1"),
        ("int32", True),
        ("double", "1.5"),
        ("boolean", 1),
        ("string", 1),
        ("string", "\ud800"),
        ("bytes", "A"),
        ("bytes", "A*=="),
        ("bytes", 1),
        ("array", []),
    ],
)
def test_other_values_are_refused_not_bent(kind: str, payload: Any) -> None:
    refusal({"type": kind}, payload)


def test_numbers_of_absurd_exponents_are_refused_quickly() -> None:
    value = b'{"schema":{"type":"int64"},"payload":1e999999999999999999}'
    assert error_of(convert(value)[0]) == "the value does not fit into int64"


def decimal(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": str(scale)}}


@pytest.mark.parametrize(
    ("number", "unscaled"),
    [("12.34", 1234), ("-0.01", -1), ("1e3", 100000), ("0", 0), ("1.280", 128), ("-1.28", -128)],
)
def test_decimals_are_numbers_or_base64(number: str, unscaled: int) -> None:
    schema = json.dumps(decimal(2))
    (piece,) = convert(f'{{"schema":{schema},"payload":{number}}}'.encode())
    column = column_of(piece)
    value = column.array[0].as_py()
    assert int.from_bytes(value, "big", signed=True) == unscaled
    assert decode_one(decimal(2), base64.b64encode(value).decode()) == value
    numeric = JsonConverter(False, "NUMERIC").restore(column)[0].as_py()
    assert float(numeric) == float(number)


def test_a_decimal_that_its_scale_cannot_hold_is_refused() -> None:
    assert "2 digits" in refusal(decimal(2), 0.125)


def test_a_decimal_without_a_scale_is_no_schema() -> None:
    schema = {**decimal(2), "parameters": {}}
    assert refusal(schema, 1) == "Invalid Decimal schema: scale parameter not found."


def test_nulls_are_defaults_or_null_or_refused() -> None:
    schema = struct(
        a={"type": "string", "optional": True},
        b={"type": "int32", "default": 7},
        c={"type": "array", "items": STRING, "optional": True, "default": ["x", "y"]},
        d=struct(e=STRING) | {"optional": True},
    )
    expected = {"a": None, "b": 7, "c": ["x", "y"], "d": None}
    assert decode_one(schema, {}) == expected
    assert decode_one(schema, {"a": None, "b": None, "c": None, "d": None}) == expected
    assert refusal(schema, {"d": {}}) == "Invalid null value for required string field: d.e"
    assert refusal(STRING, None) == "Invalid null value for required string field: the value"
    assert decode_one(STRING | {"optional": True}, None) is None
    assert decode_one(STRING | {"default": "z"}, None) == "z"


def test_structs_take_the_last_of_equal_members_and_pass_over_others() -> None:
    schema = json.dumps(struct(a={"type": "int32"}, b=STRING))
    payload = '{"x":[{"a":9}],"b":"q","a":1,"\\u0061":2}'
    (piece,) = convert(f'{{"schema":{schema},"payload":{payload}}}'.encode())
    assert column_of(piece).array.to_pylist() == [{"a": 2, "b": "q"}]


def test_maps_are_objects_or_arrays_of_pairs() -> None:
    words = {"type": "map", "keys": STRING, "values": {"type": "int64", "optional": True}}
    assert decode_one(words, {"é\n": 1, "b": None}) == [("é\n", 1), ("b", None)]
    numbers = {"type": "map", "keys": {"type": "int32"}, "values": STRING}
    assert decode_one(numbers, [[1, "a"], [-2, "b"]]) == [(1, "a"), (-2, "b")]
    assert decode_one(numbers, []) == []
    assert "pairs" in refusal(numbers, [[1]])
    assert "pairs" in refusal(numbers, ["ab"])
    assert refusal(numbers, {"1": "a"}) == "the value should be map but is object"
    assert "a key of the value" in refusal(numbers, [[None, "a"]])
    assert refusal(words, {"a": "b"}) == "the value{} should be int64 but is string"


def test_nested_lists_keep_their_lengths_between_faults_and_nulls() -> None:
    schema = struct(l={"type": "array", "items": {"type": "array", "items": {"type": "int8"}}})
    rows = [envelope(schema, {"l": v}) for v in ([[1], [], [2, 3]], [], [["x"]], [[4]])]
    pieces = convert(rows[0], None, *rows[1:])
    arrays = [column_of(p).array.to_pylist() for p in pieces if isinstance(p.result, Column)]
    assert arrays == [[{"l": [[1], [], [2, 3]]}, None, {"l": []}], [{"l": [[4]]}]]
    assert error_of(pieces[1]) == "l[][] should be int8 but is string"


# Schemas


def test_schemas_go_to_json_and_back() -> None:
    plain = Schema(kind=Kind.STRING, default="é")
    schema = Schema(
        kind=Kind.STRUCT,
        name="n",
        version=2,
        doc="d",
        optional=True,
        parameters=(("a", "1"), ("b", "2")),
        fields=(
            Field("s", plain),
            Field("m", Schema(kind=Kind.MAP, keys=Schema(kind=Kind.INT8), items=plain)),
            Field("l", Schema(kind=Kind.ARRAY, items=Schema(kind=Kind.FLOAT32, default=0.5))),
            Field("b", Schema(kind=Kind.BYTES, default=b"\0\xff")),
            Field("t", Schema(kind=Kind.ARRAY, items=plain, default=("p", "q"))),
            Field("k", Schema(kind=Kind.MAP, keys=plain, items=plain, default=(("x", "y"),))),
        ),
    )
    document = schema_to_json(schema)
    assert schema_from_json(document) == parse_schema(json.dumps(document).encode()) == schema
    assert parse_schema(b"null") is None


def test_a_schema_is_written_as_connect_writes_it() -> None:
    schema = Schema(kind=Kind.STRUCT, fields=(Field("f", Schema(kind=Kind.INT8, version=1)),))
    assert json.dumps(schema_to_json(schema)) == (
        '{"type": "struct", "fields": [{"type": "int8", "optional": false, "version": 1,'
        ' "field": "f"}], "optional": false}'
    )


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("x", "Schema must contain 'type' field"),
        ({}, "Schema must contain 'type' field"),
        ({"type": "uuid"}, "Unknown schema type: uuid"),
        ({"type": "array"}, "Array schema did not specify the element type"),
        ({"type": "map", "keys": STRING}, "Map schema did not specify the value type"),
        ({"type": "map", "values": STRING}, "Map schema did not specify the key type"),
        ({"type": "struct"}, 'Struct schema\'s "fields" argument is not an array.'),
        ({"type": "struct", "fields": [STRING]}, "Struct schema's field name not specified"),
        ({"type": "int8", "parameters": {"a": 1}}, "Schema parameters must be"),
        ({"type": "int8", "default": 300}, "a default is not of its type int8"),
        ({"type": "string", "default": 1}, "a default is not of its type string"),
        (struct(a=STRING, b=STRING) | {"default": {"a": "x"}}, "Invalid null value for required"),
    ],
)
def test_what_is_no_schema_is_refused_in_words(document: Any, sentence: str) -> None:
    with pytest.raises(RecordError) as caught:
        schema_from_json(document)
    assert caught.value.message.startswith(sentence)
