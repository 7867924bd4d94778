"""Values as fastavro reads and writes them, and as columns of a Connect schema hold them.

Most are the same. A map whose keys are no plain texts is a list of entries in Avro, and a union of
several types is a struct in Connect, with one member for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kafkeep.data.avro_names import is_union, scrub_name
from kafkeep.data.schema import Field, Kind, Schema
from kafkeep.errors import RecordError

Change = Callable[[Any], Any]


@cache
def to_column(schema: Schema) -> Change | None:
    """Return what turns values that fastavro read into those of a column; None for "nothing"."""
    if is_union(schema):
        return _Union(schema).to_column
    match schema.kind:
        case Kind.STRUCT:
            renamed = any(scrub_name(f.name) != f.name for f in schema.fields)
            changes = [(f.name, scrub_name(f.name), to_column(f.schema)) for f in schema.fields]
            if not renamed and all(change is None for _, _, change in changes):
                return None
            return lambda v: (
                v
                and {
                    name: _apply(change, v.get(name, v.get(avro))) for name, avro, change in changes
                }
            )
        case Kind.ARRAY:
            assert schema.items is not None
            change = to_column(schema.items)
            return None if change is None else lambda v: v and [_apply(change, one) for one in v]
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            key, item = to_column(schema.keys), to_column(schema.items)
            return lambda v: v and [(_apply(key, k), _apply(item, one)) for k, one in _pairs(v)]
        case _:
            return None


@cache
def from_column(schema: Schema) -> Change | None:
    """Return what turns values of a column into those fastavro writes; None for "nothing"."""
    if is_union(schema):
        return _Union(schema).from_column
    match schema.kind:
        case Kind.STRUCT:
            changes = [(f.name, scrub_name(f.name), from_column(f.schema)) for f in schema.fields]
            return lambda v: v and {avro: _apply(change, v[name]) for name, avro, change in changes}
        case Kind.ARRAY:
            assert schema.items is not None
            change = from_column(schema.items)
            return None if change is None else lambda v: v and [_apply(change, one) for one in v]
        case Kind.MAP:
            return _map_from_column(schema)
        case _:
            return None


def _map_from_column(schema: Schema) -> Change:
    assert schema.keys is not None and schema.items is not None
    key, item = from_column(schema.keys), from_column(schema.items)
    if schema.keys.kind is Kind.STRING and not schema.keys.optional:
        return lambda v: v if v is None else {k: _apply(item, one) for k, one in v}
    return lambda v: v and [{"key": _apply(key, k), "value": _apply(item, one)} for k, one in v]


def _apply(change: Change | None, value: Any) -> Any:
    return value if change is None or value is None else change(value)


def _pairs(value: Any) -> Any:
    if isinstance(value, dict):
        return value.items()
    return [(entry["key"], entry["value"]) for entry in value]


class _Union:
    """A union of several types; fastavro names the branch of records, enums and fixed alone."""

    def __init__(self, schema: Schema) -> None:
        self.members = {field.name: field for field in schema.fields}

    def to_column(self, value: Any) -> Any:
        if isinstance(value, tuple):
            name, value = value
            field = self.members.get(name) or self.members.get(name.rpartition(".")[2])
        else:
            field = next((f for f in self.members.values() if _takes(f, value)), None)
        if field is None:
            raise RecordError(f"a {type(value).__name__} is none of {', '.join(self.members)}")
        return {field.name: _apply(to_column(field.schema), value)}

    def from_column(self, value: Any) -> Any:
        for name, field in self.members.items():
            if value.get(name) is not None:
                found = _apply(from_column(field.schema), value[name])
                return (name, found) if field.schema.kind is Kind.STRUCT else found
        return None


_PYTHON = {
    Kind.BOOLEAN: (bool,),
    Kind.INT8: (int,),
    Kind.INT16: (int,),
    Kind.INT32: (int,),
    Kind.INT64: (int,),
    Kind.FLOAT32: (float,),
    Kind.FLOAT64: (float,),
    Kind.STRING: (str,),
    Kind.BYTES: (bytes,),
    Kind.ARRAY: (list,),
    Kind.MAP: (dict, list),
    Kind.STRUCT: (dict,),
}
_LIMITS = {Kind.INT8: 2**7, Kind.INT16: 2**15, Kind.INT32: 2**31, Kind.INT64: 2**63}


def _takes(field: Field, value: Any) -> bool:
    kind = field.schema.kind
    if isinstance(value, bool) != (kind is Kind.BOOLEAN):
        return False
    if kind in _LIMITS and isinstance(value, int):
        return -_LIMITS[kind] <= value < _LIMITS[kind]
    if kind is Kind.STRUCT and isinstance(value, dict):
        return value.keys() <= {f.name for f in field.schema.fields}
    return isinstance(value, _PYTHON[kind])
