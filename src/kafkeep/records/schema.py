"""Kafka Connect schemas, their Arrow types, and columns that pair an array with a schema; pure.

Logical types (Decimal, Timestamp, Date, Time) are plain values with a schema name, as in Connect. A
Decimal is its unscaled number as big-endian two's complement bytes. A Timestamp is an int64 in
milliseconds, a Date an int32 in days, and a Time an int32 in milliseconds. Each output format maps
them to its own logical types.
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
    """Connect's types. The values are the names that Connect uses in JSON schemas."""

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
    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A Connect schema that can be hashed, compared and cached by value.

    ``parameters`` are pairs sorted by name. ``default`` is a plain value: None, bool, int, float,
    str or bytes. Defaults of arrays, maps (as pairs) and structs are tuples of plain values.
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
    """The schema of an array's items or of a map's values."""
    keys: Schema | None = None
    """The schema of a map's keys."""

    def parameter(self, name: str) -> str | None:
        """Return the value of a parameter, or None if it is not set."""
        return dict(self.parameters).get(name)

    def field(self, name: str) -> Field | None:
        """Return the field with this name, or None if there is none."""
        return next((f for f in self.fields if f.name == name), None)

    def as_optional(self, optional: bool = True) -> Schema:
        """Return this schema with ``optional`` set or cleared."""
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
    """Return the Arrow type of a column with this schema."""
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
    """Return whether the schema contains a Decimal at any depth."""
    inner = [part for part in (schema.items, schema.keys) if part is not None]
    inner += [field.schema for field in schema.fields]
    return schema.name == DECIMAL or any(map(has_decimals, inner))


OPTIONAL_BYTES = Schema(kind=Kind.BYTES, optional=True)
OPTIONAL_STRING = Schema(kind=Kind.STRING, optional=True)


@dataclass(frozen=True, slots=True)
class Column:
    """An array of values that share one schema.

    With a schema, ``array`` has the type ``arrow_type(schema)``. Without a schema, ``array`` is
    ``pa.binary()`` and each value is one valid JSON document in UTF-8. The document contains no
    line break and is otherwise unchanged. In both cases an Arrow null is a missing key or a
    tombstone. It is not the JSON document ``null``.
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
        """Return the rows from ``start`` up to ``stop`` without copying."""
        return Column(self.schema, self.array.slice(start, stop - start))

    def take(self, indices: pa.Array) -> Column:
        """Return the rows at ``indices``, in that order."""
        return Column(self.schema, self.array.take(indices))
