"""Which changes of schema begin a file, and older records in newer schemas."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.golden.cases import GoldenCase, load_case

from kafkeep.errors import RecordError
from kafkeep.records.compatibility import Mode, can_project, needs_new_file, project
from kafkeep.records.schema import Column, Field, Kind, Schema, arrow_type

TEXT = Schema(kind=Kind.STRING)
NUMBER = Schema(kind=Kind.FLOAT64)


def struct(*fields: Field, version: int | None = None, name: str = "shop.Order") -> Schema:
    return Schema(kind=Kind.STRUCT, name=name, version=version, fields=fields)


V1 = struct(Field("orderId", TEXT), Field("amount", NUMBER), version=1)
V2 = struct(*V1.fields, Field("discount", NUMBER.as_optional()), version=2)


def golden_schema(value: bytes) -> Schema:
    """Read the few schemas of the evolution cases, apart from the converter."""
    told = json.loads(value)["schema"]
    kinds = {"string": Kind.STRING, "double": Kind.FLOAT64}
    fields = [
        Field(one["field"], Schema(kind=kinds[one["type"]], optional=one["optional"]))
        for one in told["fields"]
    ]
    return struct(*fields, version=told.get("version"), name=told["name"])


def plan_files(case: GoldenCase, mode: Mode) -> dict[int, tuple[int, list[dict[str, Any]]]]:
    """Cut a partition into files as the sink does: on flush.size and when the schema says so."""
    flush = int(case.config["flush.size"])
    files: dict[int, tuple[int, list[dict[str, Any]]]] = {}
    current: Schema | None = None
    rows: list[dict[str, Any]] = []
    start = 0

    def close() -> None:
        files[start] = (len(rows), list(rows))
        rows.clear()

    for record in case.records:
        assert record.value is not None
        schema = golden_schema(record.value)
        if current is not None and rows and needs_new_file(current, schema, mode):
            close()
            current = None
        if not rows:
            current, start = schema, record.offset
        assert current is not None
        payload = json.loads(record.value)["payload"]
        column = Column(schema, pa.array([payload], arrow_type(schema)))
        rows += project(column, current).array.to_pylist()
        if len(rows) >= flush:
            close()
            current = None
    return files


@pytest.mark.parametrize(("number", "mode"), [("17", "NONE"), ("18", "BACKWARD"), ("18c", "FULL")])
def test_files_are_those_of_the_real_sink(number: str, mode: Mode) -> None:
    case = load_case(number)

    files = plan_files(case, mode)

    wanted = {int(key.rpartition("+")[2].split(".")[0]): key for key in case.objects}
    assert files.keys() == wanted.keys()
    for start, key in wanted.items():
        assert files[start][1] == list(case.rows(key).rows)


def test_schemas_without_versions_are_refused_as_the_real_sink_does() -> None:
    case = load_case("18d")
    schemas = [golden_schema(record.value) for record in case.records if record.value]
    one, other = schemas[0], next(schema for schema in schemas if schema != schemas[0])

    assert not needs_new_file(one, one, "BACKWARD")
    with pytest.raises(RecordError) as refusal:
        needs_new_file(one, other, "BACKWARD")

    assert refusal.value.message in (case.failure or "")
    assert refusal.value.message == "Schema version required for BACKWARD compatibility"


@pytest.mark.parametrize(
    ("mode", "from_old", "from_new"),
    [
        ("NONE", True, True),
        ("BACKWARD", True, False),
        ("FULL", True, False),
        ("FORWARD", False, True),
    ],
)
def test_the_mode_says_which_direction_begins_a_file(
    mode: Mode, from_old: bool, from_new: bool
) -> None:
    assert needs_new_file(V1, V2, mode) is from_old
    assert needs_new_file(V2, V1, mode) is from_new


@pytest.mark.parametrize(
    "changed",
    [
        replace(V1, doc="what a customer bought", version=None),
        struct(Field("orderId", replace(TEXT, parameters=(("Enum.NEW", "NEW"),))), V1.fields[1]),
        struct(Field("orderId", replace(TEXT, doc="its number")), V1.fields[1]),
    ],
)
@pytest.mark.parametrize("mode", ["BACKWARD", "FORWARD", "FULL"])
def test_a_change_of_words_is_neither_refused_nor_a_new_file(mode: Mode, changed: Schema) -> None:
    assert not needs_new_file(V1, changed, mode)
    assert not needs_new_file(changed, replace(V1, version=None), mode)


def test_a_change_that_cannot_be_projected_begins_a_file() -> None:
    other = struct(Field("orderId", Schema(kind=Kind.INT64)), version=1)

    assert needs_new_file(V2, other, "BACKWARD")


def test_values_with_and_without_a_schema_are_not_mixed() -> None:
    with pytest.raises(RecordError, match="with and without a schema"):
        needs_new_file(V1, None, "FULL")
    assert needs_new_file(V1, None, "NONE")


def test_project_fills_defaults_and_drops_what_is_not_wanted() -> None:
    target = struct(
        Field("amount", NUMBER),
        Field("currency", replace(TEXT, default="EUR")),
        Field("tags", Schema(kind=Kind.ARRAY, items=TEXT, default=("a",))),
        version=3,
    )
    rows = [{"orderId": "1", "amount": 1.5}, None]

    made = project(Column(V1, pa.array(rows, arrow_type(V1))), target)

    assert made.array.to_pylist() == [{"amount": 1.5, "currency": "EUR", "tags": ["a"]}, None]
    assert made.schema == target


def test_project_widens_numbers_inside_of_lists_and_maps() -> None:
    def schema(kind: Kind) -> Schema:
        inner = Schema(kind=kind, optional=True)
        mapped = Schema(kind=Kind.MAP, keys=TEXT, items=inner)
        return struct(Field("l", Schema(kind=Kind.ARRAY, items=inner)), Field("m", mapped))

    row = {"l": [1, None], "m": [("a", 2)]}
    column = Column(schema(Kind.INT16), pa.array([row], arrow_type(schema(Kind.INT16))))

    made = project(column, schema(Kind.FLOAT64))

    assert made.array.to_pylist() == [{"l": [1.0, None], "m": [("a", 2.0)]}]


def test_project_refuses_values_that_do_not_fit() -> None:
    with pytest.raises(RecordError, match=r"shop\.Order version 1 do not fit"):
        project(Column(V1, pa.array([], arrow_type(V1))), struct(Field("id", TEXT), version=2))


def test_project_copies_nothing_when_only_words_differ() -> None:
    column = Column(V1, pa.array([{"orderId": "1", "amount": 1.5}], arrow_type(V1)))

    made = project(column, replace(V1, doc="new", version=2))

    assert made.array is column.array


kinds = st.sampled_from([Kind.INT8, Kind.INT32, Kind.INT64, Kind.FLOAT64, Kind.STRING])
schemas = st.recursive(
    st.builds(Schema, kind=kinds, optional=st.booleans()),
    lambda inner: (
        st.builds(
            lambda items, optional: Schema(kind=Kind.ARRAY, items=items, optional=optional),
            inner,
            st.booleans(),
        )
        | st.builds(
            lambda members: struct(*(Field(f"f{i}", one) for i, one in enumerate(members))),
            st.lists(inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=5,
)


@given(schemas)
def test_every_schema_takes_its_own_values(schema: Schema) -> None:
    assert can_project(schema, schema)
    assert not needs_new_file(schema, schema, "FULL")


@given(schemas, schemas)
def test_projecting_an_empty_column_agrees_with_can_project(one: Schema, other: Schema) -> None:
    column = Column(one, pa.array([], arrow_type(one)))

    if can_project(one, other):
        assert project(column, other).schema == other
    else:
        with pytest.raises(RecordError):
            project(column, other)
