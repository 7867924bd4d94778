"""The protocols of transforms and predicates, and the functions that all transforms share; pure.

A transform changes one side of a record: its key or its value. Typed values are split into columns
and joined again. Schemaless JSON is edited as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.records.arrow import number_array, valid_flags
from kafkeep.records.json.edit import JsonMember, kind_of, split_object
from kafkeep.records.rows import Rows
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


class Transform(Protocol):
    """One step of a chain. It has no state and no side effects."""

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the remaining rows in order, in batches of one schema and topic each.

        Raise RecordError if a record cannot be transformed. The caller then retries with smaller
        batches to find the record. A transform must therefore keep no state between calls.
        """


class Predicate(Protocol):
    """Selects the records that a transform applies to."""

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each record whether it is selected."""


_JSON_CLASSES = {
    "array": "java.util.ArrayList",
    "string": "java.lang.String",
    "boolean": "java.lang.Boolean",
    "integer": "java.lang.Long",
    "float": "java.lang.Double",
    "object": "java.util.HashMap",
    "null": "null",
}
_CLASSES = {
    Kind.INT8: "java.lang.Byte",
    Kind.INT16: "java.lang.Short",
    Kind.INT32: "java.lang.Integer",
    Kind.INT64: "java.lang.Long",
    Kind.FLOAT32: "java.lang.Float",
    Kind.FLOAT64: "java.lang.Double",
    Kind.BOOLEAN: "java.lang.Boolean",
    Kind.STRING: "java.lang.String",
    Kind.BYTES: "[B",
    Kind.ARRAY: "java.util.ArrayList",
    Kind.MAP: "java.util.HashMap",
    Kind.STRUCT: "org.apache.kafka.connect.data.Struct",
}
_LOGICAL_CLASSES = {
    DECIMAL: "java.math.BigDecimal",
    TIMESTAMP: "java.util.Date",
    DATE: "java.util.Date",
    TIME: "java.util.Date",
}


def get_column(rows: Rows, side: str) -> Column:
    """Return the key or value column."""
    return rows.key if side == "Key" else rows.value


def set_column(rows: Rows, side: str, column: Column) -> Rows:
    """Return the rows with the key or value column replaced."""
    return replace(rows, key=column) if side == "Key" else replace(rows, value=column)


def java_class(schema: Schema) -> str:
    """Return Connect's Java class for values of the schema.

    Error messages name it, as Connect's do.
    """
    return _LOGICAL_CLASSES.get(schema.name or "", _CLASSES[schema.kind])


def json_class(text: bytes) -> str:
    """Return Connect's Java class for a schemaless value."""
    return _JSON_CLASSES[kind_of(text)]


def is_json_null(text: bytes) -> bool:
    """Return whether a document is ``null``, which Connect treats like a missing value."""
    return len(text) < 16 and text.strip() == b"null"


def members_of(text: bytes | None, purpose: str) -> list[JsonMember]:
    """Split a schemaless value into members; raise RecordError if it is not an object."""
    if text is not None and kind_of(text) == "object":
        return split_object(text)
    found = "null" if text is None else json_class(text)
    raise RecordError(
        f"only Map objects supported in absence of schema for [{purpose}], found: {found}"
    )


def edit_texts(column: Column, edit: Callable[[bytes], bytes | None]) -> Column:
    """Edit every schemaless value, except nulls and ``null`` documents."""
    texts = [
        text if text is None or is_json_null(text) else edit(text)
        for text in column.array.to_pylist()
    ]
    return Column(None, pa.array(texts, type=pa.binary()))


def copy_basics(source: Schema, kind: Kind) -> Schema:
    """Return a schema of ``kind`` with the name, version, doc and parameters of ``source``.

    As in Connect, ``optional`` and ``default`` are not copied.
    """
    return Schema(
        kind=kind,
        name=source.name,
        version=source.version,
        doc=source.doc,
        parameters=source.parameters,
    )


def require_struct(column: Column, purpose: str, *, nulls: bool = True) -> Schema:
    """Return the schema of a column of structs; raise RecordError if it holds other values.

    ``nulls`` allows null values.
    """
    schema = column.schema
    assert schema is not None
    missing = column.array.null_count
    found = None
    if schema.kind is not Kind.STRUCT and missing < len(column):
        found = java_class(schema)
    elif not nulls and missing:
        found = "null"
    if found is not None:
        raise RecordError(f"only Struct objects supported for [{purpose}], found: {found}")
    return schema


def get_children(array: pa.StructArray) -> list[pa.Array]:
    """Return the columns of the fields; a field is null where its struct is null."""
    if array.null_count:
        children: list[pa.Array] = array.flatten()
        return children
    return [array.field(i) for i in range(array.type.num_fields)]


def get_fields(column: Column, *, defaults: bool) -> list[pa.Array]:
    """Return the columns of a struct's fields; ``defaults`` replaces nulls with schema defaults."""
    assert column.schema is not None
    children = get_children(column.array)
    if not defaults:
        return children
    return [
        fill_default(child, field.schema)
        for child, field in zip(children, column.schema.fields, strict=True)
    ]


def copy_fields(source: Schema, fields: Sequence[Field]) -> Schema:
    """Return a struct schema with other fields; raise RecordError if a name is repeated."""
    return struct_schema(fields, copy_basics(source, Kind.STRUCT))


def struct_schema(fields: Sequence[Field], basics: Schema | None = None) -> Schema:
    """Return a struct schema with these fields; raise RecordError if a name is repeated."""
    names: set[str] = set()
    for field in fields:
        if field.name in names:
            raise RecordError(f"cannot create field because of field name duplication {field.name}")
        names.add(field.name)
    return replace(basics or Schema(kind=Kind.STRUCT), fields=tuple(fields))


def with_children(schema: Schema, children: Sequence[pa.Array], like: pa.Array) -> Column:
    """Return structs of ``schema`` with the length and the nulls of ``like``."""
    valid = like.is_valid().buffers()[1] if like.null_count else None
    kind = arrow_type(schema)
    array = pa.Array.from_buffers(kind, len(like), [valid], children=list(children))
    return Column(schema, array)


def fill_default(array: pa.Array, schema: Schema) -> pa.Array:
    """Replace nulls with the schema's default, if it has one."""
    if schema.default is None or array.null_count == 0:
        return array
    default = pa.array([to_plain(schema, schema.default)], type=array.type)
    if not pa.types.is_nested(array.type):
        return pc.fill_null(array, default[0])
    places = np.where(valid_flags(array), np.arange(len(array)), len(array))
    return pa.concat_arrays([array, default]).take(number_array(pa.int64(), places))


def to_plain(schema: Schema, value: Any) -> Any:
    """Return a default, which consists of tuples, in the form Arrow takes."""
    if value is None:
        return None
    match schema.kind:
        case Kind.ARRAY:
            assert schema.items is not None
            return [to_plain(schema.items, item) for item in value]
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            return [(to_plain(schema.keys, k), to_plain(schema.items, v)) for k, v in value]
        case Kind.STRUCT:
            pairs = zip(schema.fields, value, strict=True)
            return {field.name: to_plain(field.schema, item) for field, item in pairs}
        case _:
            return value
