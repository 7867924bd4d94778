import base64
import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from tests.support.connect_values import schemas
from tests.support.golden.cases import GoldenCase, load_cases

from kafkeep.errors import RecordError
from kafkeep.records.avro.schema import UNION, to_avro
from kafkeep.records.avro.schema_reader import from_avro
from kafkeep.records.schema import DECIMAL, Field, Kind, Schema

TEXT = Schema(kind=Kind.STRING)
INT = Schema(kind=Kind.INT32)


def writer_schema(data: bytes) -> Any:
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def golden_schemas() -> list[tuple[GoldenCase, Any]]:
    found = {}
    for case in load_cases():
        for key, data in case.objects.items():
            if key.endswith(".avro"):
                schema = writer_schema(data)
                found[case.name, json.dumps(schema)] = (case, schema)
    return list(found.values())


def connect_schema(told: dict[str, Any]) -> Schema:
    """Read the schema of Connect's JsonConverter, for the cases that were made with it."""
    kind = Kind(told["type"])
    return Schema(
        kind=kind,
        optional=told.get("optional", False),
        name=told.get("name"),
        version=told.get("version"),
        doc=told.get("doc"),
        default=told.get("default"),
        parameters=tuple(sorted(told.get("parameters", {}).items())),
        fields=tuple(Field(f["field"], connect_schema(f)) for f in told.get("fields", ())),
        items=connect_schema(told["items" if kind is Kind.ARRAY else "values"])
        if kind in (Kind.ARRAY, Kind.MAP)
        else None,
        keys=connect_schema(told["keys"]) if kind is Kind.MAP else None,
    )


def first_schema(number: str) -> Schema:
    case = next(case for case in load_cases() if case.number == number)
    value = case.records[0].value
    assert value is not None
    return connect_schema(json.loads(value)["schema"])


@pytest.mark.parametrize(
    ("case", "avro"), [pytest.param(*pair, id=pair[0].name) for pair in golden_schemas()]
)
def test_schemas_of_the_real_sink_are_read_and_written_the_same(
    case: GoldenCase, avro: Any
) -> None:
    meta = case.config.get("connect.meta.data", "true") == "true"
    assert to_avro(from_avro(avro), connect_meta=meta) == avro


def test_the_real_sink_wrote_this_for_a_rich_connect_schema() -> None:
    case = next(case for case in load_cases() if case.number == "13f")
    avro = writer_schema(next(iter(case.objects.values())))
    assert to_avro(first_schema("13f"), connect_meta=False) == avro


def test_a_rich_connect_schema_comes_back_whole_with_meta_data() -> None:
    schema = first_schema("13f")
    assert from_avro(to_avro(schema)) == schema


def test_properties_are_those_confluent_writes() -> None:
    decimal = Schema(kind=Kind.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))
    assert to_avro(decimal) == {
        "type": "bytes",
        "scale": 2,
        "precision": 64,
        "connect.version": 1,
        "connect.parameters": {"scale": "2"},
        "connect.name": DECIMAL,
        "logicalType": "decimal",
    }
    state = Schema(kind=Kind.STRING, default="on", name="shop.State", doc="is it")
    assert to_avro(Schema(kind=Kind.STRUCT, name="A", fields=(Field("s", state),))) == {
        "type": "record",
        "name": "A",
        "fields": [
            {
                "name": "s",
                "type": {
                    "type": "string",
                    "connect.doc": "is it",
                    "connect.default": "on",
                    "connect.name": "shop.State",
                },
                "default": "on",
            }
        ],
        "connect.name": "A",
    }


def test_small_integers_are_ints_that_say_so() -> None:
    assert to_avro(Schema(kind=Kind.INT8)) == {"type": "int", "connect.type": "int8"}
    assert to_avro(Schema(kind=Kind.INT16), connect_meta=False) == "int"


def test_maps_without_text_keys_are_arrays_of_entries() -> None:
    by_number = Schema(kind=Kind.MAP, keys=INT, items=TEXT.as_optional())
    avro = to_avro(by_number)
    assert isinstance(avro, dict) and avro["items"]["name"] == "MapEntry"
    assert from_avro(avro) == by_number
    optional_keys = replace(by_number, keys=TEXT.as_optional())
    assert from_avro(to_avro(optional_keys)) == optional_keys
    avro = to_avro(optional_keys, allow_optional_map_keys=True)
    assert isinstance(avro, dict) and avro["type"] == "map"


@settings(max_examples=50, deadline=None)
@given(schema=schemas())
def test_schemas_come_back_and_every_avro_library_takes_them(schema: Schema) -> None:
    avro = to_avro(schema)
    fastavro.parse_schema(json.loads(json.dumps(avro)))
    assert from_avro(avro) == schema


def test_two_structs_of_one_name_get_two_avro_names() -> None:
    one = Schema(kind=Kind.STRUCT, name="x.P", fields=(Field("a", INT),))
    other = Schema(kind=Kind.STRUCT, name="x.P", fields=(Field("b", TEXT),))
    whole = Schema(
        kind=Kind.STRUCT,
        name="x.All",
        fields=(Field("p", one), Field("q", other), Field("r", one)),
    )
    avro = to_avro(whole)
    assert isinstance(avro, dict)
    names = [f["type"] if isinstance(f["type"], str) else f["type"]["name"] for f in avro["fields"]]
    assert names == ["P", "P2", "P"]
    assert from_avro(avro) == whole


def test_a_struct_without_namespace_is_defined_again_inside_of_one() -> None:
    line = Schema(kind=Kind.STRUCT, name="Line", fields=(Field("a", INT),))
    whole = Schema(kind=Kind.STRUCT, name="x.All", fields=(Field("p", line), Field("q", line)))
    avro = to_avro(whole)
    fastavro.parse_schema(json.loads(json.dumps(avro)))
    assert from_avro(avro) == whole


def test_names_that_avro_does_not_allow_are_kept_beside_those_it_does() -> None:
    odd = Schema(kind=Kind.STRUCT, fields=(Field("order-id", TEXT), Field("order_x2did", INT)))
    avro = to_avro(odd)
    assert isinstance(avro, dict)
    assert [f["name"] for f in avro["fields"]] == ["order_x2did", "order_x2did_"]
    assert from_avro(avro) == odd


def test_enums_keep_their_symbols_when_asked() -> None:
    avro = {"type": "enum", "name": "Suit", "namespace": "cards", "symbols": ["CLUBS", "HEARTS"]}
    schema = from_avro(avro)
    assert schema is not None and schema.kind is Kind.STRING
    assert to_avro(schema, connect_meta=False) == avro
    assert to_avro(schema, enhanced=False, connect_meta=False) == "string"


def test_fixed_and_unions_come_back() -> None:
    avro = ["null", "string", {"type": "fixed", "name": "Hash", "size": 4}, "long"]
    schema = from_avro(avro)
    assert schema is not None and schema.name == UNION and schema.optional
    assert [field.name for field in schema.fields] == ["string", "Hash", "long"]
    again = to_avro(schema, connect_meta=False)
    assert again == avro


@pytest.mark.parametrize(
    "avro",
    [
        "null",
        {"type": "array", "items": "null"},
        {
            "type": "record",
            "name": "Tree",
            "fields": [{"name": "next", "type": ["null", "Tree"]}],
        },
        {"type": "array", "items": "Unknown"},
    ],
)
def test_what_connect_cannot_express_is_refused_by_name(avro: Any) -> None:
    with pytest.raises(RecordError):
        from_avro(avro)


def test_values_without_a_schema_are_anything() -> None:
    case = next(case for case in load_cases() if case.number == "13e")
    avro = writer_schema(next(iter(case.objects.values())))
    assert to_avro(None) == avro
    assert from_avro(avro) is None


def test_defaults_of_every_kind_come_back() -> None:
    data = base64.b64decode("AP8=")
    address = Schema(kind=Kind.STRUCT, name="Ad", fields=(Field("zip", INT.as_optional()),))
    fields = (
        Field("i", replace(INT, default=7)),
        Field("d", Schema(kind=Kind.FLOAT64, default=1.0)),
        Field("b", Schema(kind=Kind.BYTES, default=data, optional=True)),
        Field("l", Schema(kind=Kind.ARRAY, items=TEXT, default=("x", "y"))),
        Field("m", Schema(kind=Kind.MAP, keys=TEXT, items=INT, default=(("k", 1),))),
        Field("s", replace(address, default=(5,))),
    )
    schema = Schema(kind=Kind.STRUCT, name="D", fields=fields)
    assert from_avro(json.loads(json.dumps(to_avro(schema)))) == schema
