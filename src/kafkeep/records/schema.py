"""A column of keys, values or headers: an Arrow array, and Connect's schema if there is one.

Kafka Connect's schemas, and the Arrow types that values of them have here.

Logical types (Decimal, Timestamp, Date, Time) are plain values with a schema name, as in Connect:
a Decimal is its unscaled number as big-endian two's complement bytes, a Timestamp an int64 of ms,
a Date an int32 of days, a Time an int32 of ms. Formats give them their own logical types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

import pyarrow as pa

DECIMAL = "org.apache.kafka.connect.data.Decimal"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"


class Kind(StrEnum):
    """Connect's types, by the names its JSON form has."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Field:
    """A named member of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One Connect schema; equal schemas are equal values, so they can be compared and cached.

    ``parameters`` are pairs in order of their names. ``default`` is a plain value: None, bool,
    int, float, str, bytes, or tuples of these for arrays, maps (pairs) and structs.
    """

    kind: Kind
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    default: Any = None
    parameters: tuple[tuple[str, str], ...] = ()
    fields: tuple[Field, ...] = ()
    items: Schema | None = None
    """Of an array; of a map, its values."""
    keys: Schema | None = None
    """Of a map."""

    def parameter(self, name: str) -> str | None:
        """Return one parameter, or None."""
        return dict(self.parameters).get(name)

    def field(self, name: str) -> Field | None:
        """Return the member of that name, or None."""
        return next((f for f in self.fields if f.name == name), None)

    def as_optional(self, optional: bool = True) -> Schema:
        """Return the same schema, optional or not."""
        return self if self.optional == optional else replace(self, optional=optional)


_PLAIN: Mapping[Kind, pa.DataType] = {
    Kind.INT8: pa.int8(),
    Kind.INT16: pa.int16(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.FLOAT32: pa.float32(),
    Kind.FLOAT64: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.BYTES: pa.binary(),
}


@cache
def arrow_type(schema: Schema) -> pa.DataType:
    """Return the Arrow type of a column of this schema."""
    match schema.kind:
        case Kind.ARRAY:
            assert schema.items is not None
            return pa.list_(pa.field("item", arrow_type(schema.items), schema.items.optional))
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            value = pa.field("value", arrow_type(schema.items), schema.items.optional)
            return pa.map_(arrow_type(schema.keys), value)
        case Kind.STRUCT:
            return pa.struct(
                [pa.field(f.name, arrow_type(f.schema), f.schema.optional) for f in schema.fields]
            )
        case _:
            return _PLAIN[schema.kind]


@cache
def has_decimals(schema: Schema) -> bool:
    """Tell whether there are Decimals in values of this schema, however deep."""
    inner = [part for part in (schema.items, schema.keys) if part is not None]
    inner += [field.schema for field in schema.fields]
    return schema.name == DECIMAL or any(map(has_decimals, inner))


OPTIONAL_BYTES = Schema(kind=Kind.BYTES, optional=True)
OPTIONAL_STRING = Schema(kind=Kind.STRING, optional=True)


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one schema.

    With a schema, ``array`` has ``arrow_type(schema)``. Without one the values are schemaless:
    ``array`` is ``pa.binary()``, each value one valid JSON document as UTF-8 without a line break,
    exactly as it came otherwise. Null is null in either case (a tombstone, a missing key), and is
    not the JSON document ``null``.
    """

    schema: Schema | None
    array: pa.Array

    def __post_init__(self) -> None:
        wanted = pa.binary() if self.schema is None else arrow_type(self.schema)
        if self.array.type != wanted:
            raise TypeError(f"a column of {self.schema} is {wanted}, not {self.array.type}")

    def __len__(self) -> int:
        return len(self.array)

    def slice(self, start: int, stop: int) -> Column:
        """Return some rows, without a copy."""
        return Column(self.schema, self.array.slice(start, stop - start))

    def take(self, indices: pa.Array) -> Column:
        """Return the rows at ``indices``, in that order."""
        return Column(self.schema, self.array.take(indices))
