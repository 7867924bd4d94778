"""Convert Avro schemas to Connect schemas, the inverse of ``to_avro`` in ``schema``; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafkeep.errors import RecordError
from kafkeep.records.avro.schema import (
    ANYTHING,
    DEFAULT_PRECISION,
    ENUM,
    FIXED_SIZE,
    MAP_ENTRY,
    NAMESPACE,
    PRECISION,
    STRUCT_NAME,
    UNION,
    Avro,
)
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Kind, Schema

_KINDS = {
    "int": Kind.INT32,
    "long": Kind.INT64,
    "float": Kind.FLOAT32,
    "double": Kind.FLOAT64,
    "boolean": Kind.BOOLEAN,
    "string": Kind.STRING,
    "bytes": Kind.BYTES,
}
_SMALL = {"int8": Kind.INT8, "int16": Kind.INT16}
_LOGICAL = {
    ("long", "timestamp-millis"): TIMESTAMP,
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
}


def from_avro(avro: Avro, *, enhanced: bool = True, connect_meta: bool = True) -> Schema | None:
    """Return the Connect schema of an Avro schema, or None for ``anything``.

    ``enhanced`` uses the full names of records and keeps the symbols of enums. Raise RecordError
    for types that Connect cannot express: a null type on its own, and recursive types.
    """
    return _AvroReading(enhanced, connect_meta).convert(avro)


class _AvroReading:
    """The state of one conversion to Connect: the named types read so far."""

    def __init__(self, enhanced: bool, connect_meta: bool) -> None:
        self.enhanced = enhanced
        self.connect_meta = connect_meta
        self.known: dict[str, Schema | None] = {}

    def convert(self, avro: Any) -> Schema | None:
        """Return the schema of a whole file or message, or None for schemaless values."""
        bare = avro[0] if isinstance(avro, list) and len(avro) == 1 else avro
        if isinstance(bare, list) and len(bare) == 2 and "null" in bare:
            bare = next(branch for branch in bare if branch != "null")
        if isinstance(bare, dict) and full_name(bare, "") == ANYTHING:
            return None
        return self._convert(avro, "")

    def _convert(self, avro: Any, space: str) -> Schema:
        if isinstance(avro, list):
            return self._union(avro, space)
        if isinstance(avro, str):
            return self._named(avro, space)
        if isinstance(avro["type"], dict | list):  # {"type": {"type": "string"}}
            return self._convert(avro["type"], space)
        match avro["type"]:
            case "record" | "error":
                schema = self._record(avro, space)
            case "enum":
                schema = self._enum(avro, space)
            case "fixed":
                schema = self._fixed(avro, space)
            case "array":
                schema = self._array(avro, space)
            case "map":
                text = Schema(kind=Kind.STRING)
                schema = Schema(
                    kind=Kind.MAP, keys=text, items=self._convert(avro["values"], space)
                )
            case other:
                schema = self._primitive(other, avro, space)
        schema = self._with_properties(schema, avro)
        if avro["type"] in ("record", "error", "enum", "fixed"):
            self.known[full_name(avro, space)] = schema
        return schema

    def _named(self, name: str, space: str) -> Schema:
        if name in _KINDS:
            return Schema(kind=_KINDS[name])
        full = name if "." in name or not space else f"{space}.{name}"
        schema = self.known.get(full, self.known.get(name))
        if schema is not None:
            return schema
        if full in self.known or name in self.known:
            raise RecordError(f"the Avro type {full} contains itself, which no column can")
        if name == "null":
            raise RecordError("an Avro null type on its own has no Connect schema")
        raise RecordError(f"the Avro type {full} is not defined")

    def _primitive(self, name: str, avro: Mapping[str, Any], space: str) -> Schema:
        schema = self._named(name, space)
        logical = avro.get("logicalType")
        if (name, logical) in _LOGICAL:
            return replace(schema, name=_LOGICAL[name, str(logical)], version=1)
        if name == "bytes" and logical == "decimal":
            return self._decimal(avro)
        small = _SMALL.get(avro.get("connect.type", ""))
        return replace(schema, kind=small) if small is not None and name == "int" else schema

    def _decimal(self, avro: Mapping[str, Any]) -> Schema:
        parameters = [("scale", str(avro.get("scale", 0)))]
        precision = avro.get("precision", DEFAULT_PRECISION)
        if precision != DEFAULT_PRECISION:
            parameters.insert(0, (PRECISION, str(precision)))
        return Schema(kind=Kind.BYTES, name=DECIMAL, version=1, parameters=tuple(parameters))

    def _array(self, avro: Mapping[str, Any], space: str) -> Schema:
        items = self._convert(avro["items"], space)
        entry = avro["items"]
        if isinstance(entry, str):
            full = entry if "." in entry or not space else f"{space}.{entry}"
            internal = self.known.get("map entry " + full) is not None
        else:
            internal = isinstance(entry, dict) and (
                entry.get("connect.internal.type") == MAP_ENTRY
                or full_name(entry, space) == f"{NAMESPACE}.{MAP_ENTRY}"
            )
            if internal:
                self.known["map entry " + full_name(entry, space)] = items
        if internal and [f.name for f in items.fields] == ["key", "value"]:
            keys, values = (f.schema for f in items.fields)
            return Schema(kind=Kind.MAP, keys=keys, items=values)
        return Schema(kind=Kind.ARRAY, items=items)

    def _record(self, avro: Mapping[str, Any], space: str) -> Schema:
        full = full_name(avro, space)
        if full in self.known:
            raise RecordError(f"the Avro type {full} is defined twice")
        self.known[full] = None
        inner = full.rpartition(".")[0]
        fields = tuple(self._field(field, inner) for field in avro["fields"])
        name: str | None = full if self.enhanced else full.rpartition(".")[2]
        if full.startswith(f"{NAMESPACE}.{STRUCT_NAME}"):
            name = None
        return Schema(kind=Kind.STRUCT, name=name, fields=fields, doc=avro.get("doc"))

    def _field(self, avro: Mapping[str, Any], space: str) -> Field:
        schema = self._convert(avro["type"], space)
        if avro.get("doc") is not None:
            schema = replace(schema, doc=avro["doc"])
        if avro.get("default") is not None:
            default = _default_from_avro(schema, avro["default"])
            schema = replace(schema, default=default)
        return Field(avro.get("connect.field.name", avro["name"]), schema)

    def _enum(self, avro: Mapping[str, Any], space: str) -> Schema:
        if not self.connect_meta:
            return Schema(kind=Kind.STRING)
        parameters = [(ENUM, full_name(avro, space))]
        parameters += [(f"{ENUM}.{symbol}", symbol) for symbol in avro["symbols"]]
        return Schema(kind=Kind.STRING, doc=avro.get("doc"), parameters=tuple(sorted(parameters)))

    def _fixed(self, avro: Mapping[str, Any], space: str) -> Schema:
        if avro.get("logicalType") == "decimal":
            return self._decimal(avro)
        size = ((FIXED_SIZE, str(avro["size"])),)
        return Schema(kind=Kind.BYTES, name=full_name(avro, space), parameters=size)

    def _union(self, avro: list[Any], space: str) -> Schema:
        branches = [branch for branch in avro if branch != "null"]
        optional = len(branches) < len(avro)
        if len(branches) == 1:
            return self._convert(branches[0], space).as_optional(optional)
        members = [self._convert(branch, space) for branch in branches]
        fields = [
            Field(self._member_name(branch, space), member.as_optional())
            for branch, member in zip(branches, members, strict=True)
        ]
        return Schema(kind=Kind.STRUCT, name=UNION, fields=tuple(fields), optional=optional)

    def _member_name(self, branch: Any, space: str) -> str:
        kind = branch if isinstance(branch, str) else branch["type"]
        if isinstance(branch, dict) and kind in ("record", "error", "enum", "fixed"):
            full = full_name(branch, space)
            return full if self.enhanced else full.rpartition(".")[2]
        return str(kind)

    def _with_properties(self, schema: Schema, avro: Mapping[str, Any]) -> Schema:
        changes: dict[str, Any] = {}
        if "connect.name" in avro:
            changes["name"] = avro["connect.name"]
        if "connect.version" in avro:
            changes["version"] = int(avro["connect.version"])
        if "connect.doc" in avro:
            changes["doc"] = avro["connect.doc"]
        if "connect.parameters" in avro:
            given = {key: str(value) for key, value in avro["connect.parameters"].items()}
            changes["parameters"] = tuple(sorted((dict(schema.parameters) | given).items()))
        if "connect.default" in avro:
            changes["default"] = _default_from_avro(schema, avro["connect.default"])
        return replace(schema, **changes) if changes else schema


def full_name(avro: Mapping[str, Any], space: str) -> str:
    """Return the full name of a record, enum or fixed that is defined in namespace ``space``."""
    name = str(avro.get("name", ""))
    inner = str(avro.get("namespace", space) or "")
    return name if "." in name or not inner else f"{inner}.{name}"


def _default_from_avro(schema: Schema, value: Any) -> Any:  # noqa: PLR0911
    """Return the plain default that ``default_to_avro`` wrote, or None if it has another form."""
    if value is None:
        return None
    match schema.kind:
        case Kind.BYTES:
            return value.encode("latin-1") if isinstance(value, str) else None
        case Kind.ARRAY:
            assert schema.items is not None
            return tuple(_default_from_avro(schema.items, item) for item in value)
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            pairs = (
                value.items()
                if isinstance(value, dict)
                else [(entry["key"], entry["value"]) for entry in value]
            )
            return tuple(
                (_default_from_avro(schema.keys, key), _default_from_avro(schema.items, item))
                for key, item in pairs
            )
        case Kind.STRUCT:
            return tuple(
                _default_from_avro(field.schema, value.get(field.name, field.schema.default))
                for field in schema.fields
            )
        case Kind.FLOAT32 | Kind.FLOAT64:
            return float(value)
        case _:
            return value
