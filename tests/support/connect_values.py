"""Random Connect schemas, and columns of them, for property tests."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from kafkeep.records.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Column,
    Field,
    Kind,
    Schema,
    arrow_type,
)

INT_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
PLAIN = (
    Kind.INT8,
    Kind.INT16,
    Kind.INT32,
    Kind.INT64,
    Kind.FLOAT32,
    Kind.FLOAT64,
    Kind.BOOLEAN,
    Kind.STRING,
    Kind.BYTES,
)
PRECISION = "connect.decimal.precision"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def _logical(kind: Kind, name: str, **parameters: str) -> Schema:
    return Schema(kind=kind, name=name, version=1, parameters=tuple(sorted(parameters.items())))


LOGICAL = (
    _logical(Kind.INT64, TIMESTAMP),
    _logical(Kind.INT32, DATE),
    _logical(Kind.INT32, TIME),
    _logical(Kind.BYTES, DECIMAL, scale="2", **{PRECISION: "9"}),
    _logical(Kind.BYTES, DECIMAL, scale="3"),
)


def leaves() -> st.SearchStrategy[Schema]:
    """Return schemas without members."""
    plain = st.sampled_from(PLAIN).map(lambda kind: Schema(kind=kind))
    named = st.builds(
        lambda kind, name, version, doc: Schema(kind=kind, name=name, version=version, doc=doc),
        st.sampled_from(PLAIN),
        st.sampled_from([None, "shop.Kind", "odd name-1"]),
        st.none() | st.integers(1, 9),
        st.none() | texts,
    )
    return plain | named | st.sampled_from(LOGICAL)


@st.composite
def _with_optional(draw: st.DrawFn, schemas: st.SearchStrategy[Schema]) -> Schema:
    return draw(schemas).as_optional(draw(st.booleans()))


@st.composite
def structs(draw: st.DrawFn, members: st.SearchStrategy[Schema]) -> Schema:
    """Return structs; some have no name, and some members names that Avro does not allow."""
    names = draw(
        st.lists(
            st.sampled_from(["a", "b", "order-id", "a.b", "Größe", "0", "a_x2eb", "A"]),
            unique_by=str.lower,
            max_size=4,
        )
    )
    fields = tuple(Field(name, draw(members)) for name in names)
    name = draw(st.sampled_from([None, "shop.Order", "Order", "a b.c-d"]))
    return Schema(kind=Kind.STRUCT, name=name, fields=fields)


def schemas() -> st.SearchStrategy[Schema]:
    """Return any schema that has columns."""
    keys = st.sampled_from([Schema(kind=Kind.STRING), Schema(kind=Kind.INT32)])
    return st.recursive(
        _with_optional(leaves()),
        lambda inner: _with_optional(
            structs(inner)
            | st.builds(lambda items: Schema(kind=Kind.ARRAY, items=items), inner)
            | st.builds(lambda k, items: Schema(kind=Kind.MAP, keys=k, items=items), keys, inner)
        ),
        max_leaves=6,
    )


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Return values of a schema, as ``pa.array`` takes them."""
    found = _present(schema)
    return st.none() | found if schema.optional else found


def _present(schema: Schema) -> st.SearchStrategy[Any]:  # noqa: PLR0911
    match schema.kind:
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64:
            half = 1 << (INT_BITS[schema.kind] - 1)
            return st.integers(-half, half - 1)
        case Kind.FLOAT32 | Kind.FLOAT64:
            return st.floats(width=32, allow_nan=False)
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.STRING:
            return texts
        case Kind.BYTES if schema.name == DECIMAL:
            return st.integers(-(10**9) + 1, 10**9 - 1).map(unscaled)
        case Kind.BYTES:
            return st.binary(max_size=8)
        case Kind.ARRAY:
            assert schema.items is not None
            return st.lists(values(schema.items), max_size=3)
        case Kind.MAP:
            assert schema.items is not None and schema.keys is not None
            pairs = st.tuples(values(schema.keys), values(schema.items))
            return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    return st.fixed_dictionaries({f.name: values(f.schema) for f in schema.fields})


def unscaled(number: int) -> bytes:
    """Return a number as Connect's Decimal has it."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


@st.composite
def columns(draw: st.DrawFn, of: st.SearchStrategy[Schema] | None = None) -> Column:
    """Return a column, often a slice of a longer one."""
    schema = draw(of if of is not None else schemas())
    rows = draw(st.lists(values(schema), max_size=12))
    array = pa.array(rows, arrow_type(schema))
    start = draw(st.integers(0, min(3, len(rows))))
    return Column(schema, array.slice(start))


@st.composite
def cuts(draw: st.DrawFn, count: int) -> list[tuple[int, int]]:
    """Return ranges that tile ``count`` rows."""
    places = draw(st.lists(st.integers(0, count), max_size=4).map(sorted))
    edges = [0, *places, count]
    return list(pairwise(edges))


def same(one: Any, other: Any) -> bool:
    """Compare values; -0.0 is not 0.0."""
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("d", one) == struct.pack("d", other) or math.isnan(one)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)
