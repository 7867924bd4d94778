"""Typed values taken apart into columns and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import RecordError
from kafkeep.records.arrow import number_array, valid_flags
from kafkeep.records.schema import Column, Field, Kind, Schema, arrow_type
from kafkeep.records.transforms.transform import java_class


def copy_basics(source: Schema, kind: Kind) -> Schema:
    """Return an empty schema with name, version, doc and parameters of ``source``, as Connect does.

    Whether it was optional and what its default was is not copied.
    """
    return Schema(
        kind=kind,
        name=source.name,
        version=source.version,
        doc=source.doc,
        parameters=source.parameters,
    )


def require_struct(column: Column, purpose: str, *, nulls: bool = True) -> Schema:
    """Return the schema of a column of structs; RecordError when values are something else.

    ``nulls``: whether they may be missing.
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
    """Return the fields' columns; where the struct is null they are null too."""
    if array.null_count:
        children: list[pa.Array] = array.flatten()
        return children
    return [array.field(i) for i in range(array.type.num_fields)]


def get_fields(column: Column, *, defaults: bool) -> list[pa.Array]:
    """Return the fields' columns of structs, nulls replaced by ``defaults`` if that is wanted."""
    assert column.schema is not None
    children = get_children(column.array)
    if not defaults:
        return children
    return [
        fill_default(child, field.schema)
        for child, field in zip(children, column.schema.fields, strict=True)
    ]


def copy_fields(source: Schema, fields: Sequence[Field]) -> Schema:
    """Return a struct's schema with other fields; RecordError when a name stands twice."""
    return struct_schema(fields, copy_basics(source, Kind.STRUCT))


def struct_schema(fields: Sequence[Field], basics: Schema | None = None) -> Schema:
    """Return a schema with these fields; RecordError when a name stands twice."""
    names: set[str] = set()
    for field in fields:
        if field.name in names:
            raise RecordError(f"cannot create field because of field name duplication {field.name}")
        names.add(field.name)
    return replace(basics or Schema(kind=Kind.STRUCT), fields=tuple(fields))


def with_children(schema: Schema, children: Sequence[pa.Array], like: pa.Array) -> Column:
    """Return structs of ``schema``, as many as ``like`` has values and null where it is null."""
    valid = like.is_valid().buffers()[1] if like.null_count else None
    kind = arrow_type(schema)
    array = pa.Array.from_buffers(kind, len(like), [valid], children=list(children))
    return Column(schema, array)


def fill_default(array: pa.Array, schema: Schema) -> pa.Array:
    """Replace nulls by the schema's default, if it has one."""
    if schema.default is None or array.null_count == 0:
        return array
    default = pa.array([to_plain(schema, schema.default)], type=array.type)
    if not pa.types.is_nested(array.type):
        return pc.fill_null(array, default[0])
    places = np.where(valid_flags(array), np.arange(len(array)), len(array))
    return pa.concat_arrays([array, default]).take(number_array(pa.int64(), places))


def to_plain(schema: Schema, value: Any) -> Any:
    """Turn a default, which is made of tuples, into what Arrow takes for such a value."""
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
