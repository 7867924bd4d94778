"""Connect's schemas as Avro schemas, and back: the mapping of Confluent's Avro converter.

What Avro has no place for stands in properties (``connect.name``, ``connect.version``, …), so that
``from_avro(to_avro(schema, …)) == schema``, except that without ``connect_meta`` they are left out.
Kept from Confluent: an optional value is a union with null; int8 and int16 are ints with a
``connect.type``; a map with string keys is an Avro map, any other an array of entries.

Ours: a name that Avro does not allow is scrubbed and the real one kept beside it, and two
different structs of one name get different Avro names; Confluent's converter fails on both.
"""

from __future__ import annotations

import json
from typing import Any

from kafkeep.records.avro import names
from kafkeep.records.avro.names import default_to_avro
from kafkeep.records.avro.schema_reader import AvroReading
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Kind, Schema

Avro = dict[str, Any] | list[Any] | str

FIELD_NAME = "connect.field.name"
"""A property of a field whose name had to be scrubbed: the real one."""

_LOGICAL = {
    (Kind.INT64, TIMESTAMP): "timestamp-millis",
    (Kind.INT32, DATE): "date",
    (Kind.INT32, TIME): "time-millis",
}


def anything() -> dict[str, Any]:
    """Return the Avro schema of values without a schema: one of its members holds the value."""
    members = [names.PRIMITIVES[kind] for kind in (Kind.BOOLEAN, Kind.BYTES, Kind.FLOAT64)]
    members += ["float", "int", "long", "string"]
    entry = {
        "type": "record",
        "name": names.MAP_ENTRY,
        "fields": [{"name": "key", "type": "Anything"}, {"name": "value", "type": "Anything"}],
    }
    fields: list[tuple[str, Any]] = [(name, name) for name in members]
    fields.append(("array", {"type": "array", "items": "Anything"}))
    fields.append(("map", {"type": "array", "items": entry}))
    return {
        "type": "record",
        "name": "Anything",
        "namespace": names.NAMESPACE,
        "fields": [
            {"name": name, "type": ["null", avro], "default": None} for name, avro in fields
        ],
    }


def to_avro(
    schema: Schema | None,
    *,
    enhanced: bool = True,
    connect_meta: bool = True,
    allow_optional_map_keys: bool = False,
) -> Avro:
    """Return the Avro schema, as JSON values, of columns of this schema; of None, ``anything``.

    ``enhanced`` keeps enums as enums, ``connect_meta`` the ``connect.*`` properties. The same
    schema always gives the same order of members.
    """
    if schema is None:
        return anything()
    return _Writing(enhanced, connect_meta, allow_optional_map_keys).convert(schema, "")


def from_avro(avro: Avro, *, enhanced: bool = True, connect_meta: bool = True) -> Schema | None:
    """Return the Connect schema of an Avro schema; None for ``anything``.

    ``enhanced`` takes full names of records and keeps the symbols of enums. RecordError for what
    Connect cannot express: a null type on its own, and types that contain themselves.
    """
    return AvroReading(enhanced, connect_meta).convert(avro)


def dump_avro(avro: Avro) -> str:
    """Return the text of an Avro schema, as it stands in files."""
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)


class _Writing:
    """One schema on its way to Avro: which names were given out."""

    def __init__(self, enhanced: bool, connect_meta: bool, optional_keys: bool) -> None:
        self.enhanced = enhanced
        self.connect_meta = connect_meta
        self.optional_keys = optional_keys
        self.defined: dict[str, Schema] = {}
        self.anonymous = 0

    def convert(self, schema: Schema, space: str) -> Avro:
        """Return the Avro type inside of namespace ``space``."""
        if names.is_union(schema):
            members = [self.convert(f.schema.as_optional(False), space) for f in schema.fields]
            return ["null", *members] if schema.optional else members
        avro = self._base(schema, space)
        if not schema.optional:
            return avro
        return ["null", avro] if schema.default is None else [avro, "null"]

    def _base(self, schema: Schema, space: str) -> Avro:
        if self.enhanced and names.is_enum(schema):
            return self._enum(schema, space)
        if names.is_fixed(schema):
            return self._fixed(schema, space)
        match schema.kind:
            case Kind.STRUCT:
                return self._record(schema, space)
            case Kind.ARRAY:
                assert schema.items is not None
                avro = {"type": "array", "items": self.convert(schema.items, space)}
            case Kind.MAP:
                avro = self._map(schema, space)
            case _:
                avro = self._primitive(schema)
        avro |= self._properties(schema)
        avro |= self._logical_type(schema)
        return avro if len(avro) > 1 else str(avro["type"])

    def _primitive(self, schema: Schema) -> dict[str, Any]:
        avro: dict[str, Any] = {"type": names.PRIMITIVES[schema.kind]}
        if self.connect_meta and schema.kind in (Kind.INT8, Kind.INT16):
            avro["connect.type"] = str(schema.kind)
        if schema.kind is Kind.BYTES and schema.name == DECIMAL:
            avro["scale"] = int(schema.parameter("scale") or 0)
            precision = schema.parameter(names.PRECISION)
            avro["precision"] = int(precision or names.DEFAULT_PRECISION)
        return avro

    def _logical_type(self, schema: Schema) -> dict[str, str]:
        if schema.kind is Kind.BYTES and schema.name == DECIMAL:
            return {"logicalType": "decimal"}
        logical = _LOGICAL.get((schema.kind, schema.name or ""))
        return {"logicalType": logical} if logical else {}

    def _properties(self, schema: Schema) -> dict[str, Any]:
        if not self.connect_meta:
            return {}
        found = {
            "connect.doc": schema.doc,
            "connect.version": schema.version,
            "connect.parameters": dict(schema.parameters) or None,
            "connect.default": default_to_avro(schema, schema.default),
            "connect.name": schema.name,
        }
        return {key: value for key, value in found.items() if value is not None}

    def _map(self, schema: Schema, space: str) -> dict[str, Any]:
        assert schema.keys is not None and schema.items is not None
        if names.has_text_keys(schema, self.optional_keys):
            return {"type": "map", "values": self.convert(schema.items, space)}
        wanted = schema.name or f"{names.NAMESPACE}.{names.MAP_ENTRY}"
        alike = Schema(kind=Kind.MAP, name=schema.name, keys=schema.keys, items=schema.items)
        inner, entry = self._define(wanted, alike, space)
        if "fields" in entry:
            entry["fields"] = [
                {"name": "key"} | self._typed(schema.keys, inner),
                {"name": "value"} | self._typed(schema.items, inner),
            ]
            if schema.name or entry["name"] != names.MAP_ENTRY:
                entry["connect.internal.type"] = names.MAP_ENTRY
        return {"type": "array", "items": entry if "fields" in entry else entry["type"]}

    def _record(self, schema: Schema, space: str) -> Avro:
        wanted = schema.name
        if not wanted:
            self.anonymous += 1
            number = str(self.anonymous) if self.anonymous > 1 else ""
            wanted = f"{names.NAMESPACE}.{names.STRUCT_NAME}{number}"
        inner, record = self._define(wanted, schema.as_optional(False), space)
        if "fields" not in record:
            return str(record["type"])
        taken: set[str] = set()
        for field in schema.fields:
            name = names.scrub_name(field.name)
            while name in taken:
                name += "_"
            taken.add(name)
            avro = {"name": name} | self._typed(field.schema, inner)
            if name != field.name:
                avro[FIELD_NAME] = field.name
            record["fields"].append(avro)
        return record | self._properties(schema)

    def _typed(self, schema: Schema, space: str) -> dict[str, Any]:
        avro: dict[str, Any] = {"type": self.convert(schema, space)}
        if schema.default is not None:
            avro["default"] = default_to_avro(schema, schema.default)
        elif schema.optional:
            avro["default"] = None
        return avro

    def _define(self, wanted: str, schema: Schema, space: str) -> tuple[str, dict[str, Any]]:
        """Return the namespace and the beginning of a record; without fields when it is known."""
        inner, name = names.split_name(wanted)
        base, number = name, 1
        full = f"{inner}.{name}".lstrip(".")
        # Inside of a namespace nothing can refer to a type that has none.
        nameless = not inner and bool(space)
        while full in self.defined and (nameless or self.defined[full] != schema):
            number += 1
            name = f"{base}{number}"
            full = f"{inner}.{name}".lstrip(".")
        if full in self.defined:
            return inner, {"type": name if inner == space else full}
        self.defined[full] = schema
        record: dict[str, Any] = {"type": "record", "name": name}
        if inner != space:
            record["namespace"] = inner
        return inner, record | {"fields": []}

    def _enum(self, schema: Schema, space: str) -> Avro:
        wanted = schema.parameter(names.ENUM) or names.ENUM
        _, avro = self._define(wanted, schema.as_optional(False), space)
        if avro.pop("fields", None) is None:
            return str(avro["type"])
        symbols = {"type": "enum", "symbols": list(names.enum_symbols(schema))}
        return avro | symbols | self._properties(schema)

    def _fixed(self, schema: Schema, space: str) -> Avro:
        _, avro = self._define(schema.name or "", schema.as_optional(False), space)
        if avro.pop("fields", None) is None:
            return str(avro["type"])
        size = {"type": "fixed", "size": names.fixed_size(schema)}
        return avro | size | self._properties(schema)
