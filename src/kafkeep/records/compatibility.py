"""``schema.compatibility``: decide when a schema change starts a new file, and project rows; pure.

NONE starts a new file at every change. The other modes write records of two schema versions into
one file. That file has the newer schema under BACKWARD and FULL, and the older one under FORWARD.
These modes compare version numbers, so they fail for different schemas without versions. They
ignore a change that affects no value, such as a new doc or new enum symbols.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.records.schema import Column, Field, Kind, Schema, arrow_type

Mode = Literal["NONE", "BACKWARD", "FORWARD", "FULL"]

_WIDENING = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.FLOAT32, Kind.FLOAT64)


def needs_new_file(current: Schema | None, new: Schema | None, mode: Mode) -> bool:
    """Return whether a record of schema ``new`` cannot go into a file of schema ``current``.

    Raise RecordError if the mode cannot decide: a schema has no version, or only one of the two
    exists. If the result is False and the schemas differ, write the record with ``project``.
    """
    if current == new:
        return False
    if mode == "NONE":
        return True
    if (current is None) != (new is None):
        raise RecordError(f"values with and without a schema cannot be mixed under {mode}")
    assert current is not None and new is not None
    if same_values(current, new):
        return False
    if current.version is None or new.version is None:
        raise RecordError(f"Schema version required for {mode} compatibility")
    older_first = new.version > current.version
    newer_first = new.version < current.version
    if newer_first if mode == "FORWARD" else older_first:
        return True
    source, target = new, current
    return not can_project(source, target)


def same_values(one: Schema, other: Schema) -> bool:
    """Return whether two schemas differ only in docs, versions, parameters and defaults."""
    return _bare(one) == _bare(other)


def can_project(source: Schema, target: Schema) -> bool:
    """Return whether every value of ``source`` can be written as a value of ``target``."""
    if source.name != target.name or (source.optional and not _takes_null(target)):
        return False
    match target.kind:
        case Kind.STRUCT:
            return source.kind is Kind.STRUCT and all(
                _can_fill(source.field(field.name), field) for field in target.fields
            )
        case Kind.ARRAY:
            return source.kind is Kind.ARRAY and _both(source.items, target.items)
        case Kind.MAP:
            return source.kind is Kind.MAP and (
                _both(source.keys, target.keys) and _both(source.items, target.items)
            )
        case _:
            return _widens(source.kind, target.kind)


def project(column: Column, to: Schema) -> Column:
    """Return the column in schema ``to``: drop extra fields and fill missing ones with defaults.

    Raise RecordError if the column's schema cannot be projected to ``to``.
    """
    if column.schema == to:
        return column
    if column.schema is None:
        raise RecordError("values without a schema cannot be written into a file that has one")
    if not can_project(column.schema, to):
        raise RecordError(f"values of {_title(column.schema)} do not fit {_title(to)}")
    if arrow_type(column.schema) == arrow_type(to) and not _may_fill(column.schema, to):
        return Column(to, column.array)
    source = column.schema
    rows = [_projected(value, source, to) for value in column.array.to_pylist()]
    return Column(to, pa.array(rows, arrow_type(to)))


def _bare(schema: Schema) -> Schema:
    """Return the schema without the attributes that affect no value."""
    return replace(
        schema,
        version=None,
        doc=None,
        default=None,
        parameters=tuple(pair for pair in schema.parameters if pair[0] == "scale"),
        fields=tuple(Field(field.name, _bare(field.schema)) for field in schema.fields),
        items=None if schema.items is None else _bare(schema.items),
        keys=None if schema.keys is None else _bare(schema.keys),
    )


def _both(source: Schema | None, target: Schema | None) -> bool:
    return source is not None and target is not None and can_project(source, target)


def _takes_null(schema: Schema) -> bool:
    return schema.optional or schema.default is not None


def _can_fill(source: Field | None, target: Field) -> bool:
    if source is None:
        return _takes_null(target.schema)
    return can_project(source.schema, target.schema)


def _widens(source: Kind, target: Kind) -> bool:
    if source is target:
        return True
    if source in _WIDENING and target in _WIDENING:
        return _WIDENING.index(source) < _WIDENING.index(target)
    return False


def _may_fill(source: Schema, target: Schema) -> bool:
    """Return whether projecting can replace a null with a default."""
    if source.optional and not target.optional:
        return True
    inner = [(source.items, target.items), (source.keys, target.keys)]
    inner += [(field.schema, _member(target, field.name)) for field in source.fields]
    return any(_may_fill(a, b) for a, b in inner if a is not None and b is not None)


def _member(schema: Schema, name: str) -> Schema | None:
    field = schema.field(name)
    return None if field is None else field.schema


def _projected(value: Any, source: Schema, target: Schema, *, top: bool = True) -> Any:
    """Return one value in the form ``pa.array`` takes.

    Keep a top-level null, which is a tombstone.
    """
    if value is None:
        return None if top or target.optional else plain_default(target)
    match target.kind:
        case Kind.STRUCT:
            return {f.name: _filled(value, source.field(f.name), f) for f in target.fields}
        case Kind.ARRAY:
            assert source.items is not None and target.items is not None
            return [_projected(one, source.items, target.items, top=False) for one in value]
        case Kind.MAP:
            assert source.items is not None and target.items is not None
            assert source.keys is not None and target.keys is not None
            keys = [_projected(key, source.keys, target.keys, top=False) for key, _ in value]
            items = [_projected(one, source.items, target.items, top=False) for _, one in value]
            return list(zip(keys, items, strict=True))
        case Kind.FLOAT32 | Kind.FLOAT64:
            return float(value)
        case _:
            return value


def _filled(value: dict[str, Any], source: Field | None, target: Field) -> Any:
    if source is None:
        return plain_default(target.schema)
    return _projected(value[source.name], source.schema, target.schema, top=False)


def plain_default(schema: Schema) -> Any:
    """Return the default of a schema in the form ``pa.array`` takes."""
    value = schema.default
    if value is None:
        return None
    match schema.kind:
        case Kind.STRUCT:
            members = zip(schema.fields, value, strict=True)
            return {f.name: plain_default(replace(f.schema, default=one)) for f, one in members}
        case Kind.ARRAY | Kind.MAP:
            return list(value)
        case _:
            return value


def _title(schema: Schema) -> str:
    version = "" if schema.version is None else f" version {schema.version}"
    return f"{schema.name or schema.kind}{version}"
