"""Convert Connect schemas to Avro schemas with the mapping of Confluent's Avro converter; pure.

Attributes that Avro does not have become properties (``connect.name``, ``connect.version``, …).
Therefore ``from_avro(to_avro(schema, …)) == schema``. Without ``connect_meta``, the properties are
omitted. As in Confluent's converter, an optional value is a union with null. An int8 or int16 is an
int with a ``connect.type``. A map with string keys is an Avro map, and any other map is an array of
entries.

Two cases differ from Confluent's converter, which fails on both. A name that Avro does not allow is
escaped, and a property keeps the original. Two different structs with the same name get different
Avro names.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Kind, Schema

Avro = dict[str, Any] | list[Any] | str

NAMESPACE = "io.confluent.connect.avro"
ANYTHING = f"{NAMESPACE}.Anything"
UNION = f"{NAMESPACE}.Union"
ENUM = f"{NAMESPACE}.Enum"
FIXED_SIZE = "connect.fixed.size"
PRECISION = "connect.decimal.precision"
DEFAULT_PRECISION = 64
MAP_ENTRY = "MapEntry"
STRUCT_NAME = "ConnectDefault"

PRIMITIVES = {
    Kind.INT8: "int",
    Kind.INT16: "int",
    Kind.INT32: "int",
    Kind.INT64: "long",
    Kind.FLOAT32: "float",
    Kind.FLOAT64: "double",
    Kind.BOOLEAN: "boolean",
    Kind.STRING: "string",
    Kind.BYTES: "bytes",
}

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

FIELD_NAME = "connect.field.name"
"""The property that holds the original name of a field whose name was escaped."""

_LOGICAL = {
    (Kind.INT64, TIMESTAMP): "timestamp-millis",
    (Kind.INT32, DATE): "date",
    (Kind.INT32, TIME): "time-millis",
}


def anything() -> dict[str, Any]:
    """Return the Avro schema for schemaless values; one of its members holds the value."""
    members = [PRIMITIVES[kind] for kind in (Kind.BOOLEAN, Kind.BYTES, Kind.FLOAT64)]
    members += ["float", "int", "long", "string"]
    entry = {
        "type": "record",
        "name": MAP_ENTRY,
        "fields": [{"name": "key", "type": "Anything"}, {"name": "value", "type": "Anything"}],
    }
    fields: list[tuple[str, Any]] = [(name, name) for name in members]
    fields.append(("array", {"type": "array", "items": "Anything"}))
    fields.append(("map", {"type": "array", "items": entry}))
    return {
        "type": "record",
        "name": "Anything",
        "namespace": NAMESPACE,
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
    """Return the Avro schema of this schema as JSON values, or ``anything`` for None.

    ``enhanced`` keeps enums as enums. ``connect_meta`` keeps the ``connect.*`` properties. The
    order of members is the same for equal schemas.
    """
    if schema is None:
        return anything()
    return _Writing(enhanced, connect_meta, allow_optional_map_keys).convert(schema, "")


def dump_avro(avro: Avro) -> str:
    """Return the text of an Avro schema, in the form used in files."""
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)


class _Writing:
    """The state of one conversion to Avro: the names defined so far."""

    def __init__(self, enhanced: bool, connect_meta: bool, optional_keys: bool) -> None:
        self.enhanced = enhanced
        self.connect_meta = connect_meta
        self.optional_keys = optional_keys
        self.defined: dict[str, Schema] = {}
        self.anonymous = 0

    def convert(self, schema: Schema, space: str) -> Avro:
        """Return the Avro type within the namespace ``space``."""
        if is_union(schema):
            members = [self.convert(f.schema.as_optional(False), space) for f in schema.fields]
            return ["null", *members] if schema.optional else members
        avro = self._base(schema, space)
        if not schema.optional:
            return avro
        return ["null", avro] if schema.default is None else [avro, "null"]

    def _base(self, schema: Schema, space: str) -> Avro:
        if self.enhanced and is_enum(schema):
            return self._enum(schema, space)
        if is_fixed(schema):
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
        avro: dict[str, Any] = {"type": PRIMITIVES[schema.kind]}
        if self.connect_meta and schema.kind in (Kind.INT8, Kind.INT16):
            avro["connect.type"] = str(schema.kind)
        if schema.kind is Kind.BYTES and schema.name == DECIMAL:
            avro["scale"] = int(schema.parameter("scale") or 0)
            precision = schema.parameter(PRECISION)
            avro["precision"] = int(precision or DEFAULT_PRECISION)
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
        if has_text_keys(schema, self.optional_keys):
            return {"type": "map", "values": self.convert(schema.items, space)}
        wanted = schema.name or f"{NAMESPACE}.{MAP_ENTRY}"
        alike = Schema(kind=Kind.MAP, name=schema.name, keys=schema.keys, items=schema.items)
        inner, entry = self._define(wanted, alike, space)
        if "fields" in entry:
            entry["fields"] = [
                {"name": "key"} | self._typed(schema.keys, inner),
                {"name": "value"} | self._typed(schema.items, inner),
            ]
            if schema.name or entry["name"] != MAP_ENTRY:
                entry["connect.internal.type"] = MAP_ENTRY
        return {"type": "array", "items": entry if "fields" in entry else entry["type"]}

    def _record(self, schema: Schema, space: str) -> Avro:
        wanted = schema.name
        if not wanted:
            self.anonymous += 1
            number = str(self.anonymous) if self.anonymous > 1 else ""
            wanted = f"{NAMESPACE}.{STRUCT_NAME}{number}"
        inner, record = self._define(wanted, schema.as_optional(False), space)
        if "fields" not in record:
            return str(record["type"])
        taken: set[str] = set()
        for field in schema.fields:
            name = scrub_name(field.name)
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
        """Return the namespace and the start of a record, or a reference if it is defined."""
        inner, name = split_name(wanted)
        base, number = name, 1
        full = f"{inner}.{name}".lstrip(".")
        # Inside a namespace, no reference to a type without a namespace is possible.
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
        wanted = schema.parameter(ENUM) or ENUM
        _, avro = self._define(wanted, schema.as_optional(False), space)
        if avro.pop("fields", None) is None:
            return str(avro["type"])
        symbols = {"type": "enum", "symbols": list(enum_symbols(schema))}
        return avro | symbols | self._properties(schema)

    def _fixed(self, schema: Schema, space: str) -> Avro:
        _, avro = self._define(schema.name or "", schema.as_optional(False), space)
        if avro.pop("fields", None) is None:
            return str(avro["type"])
        size = {"type": "fixed", "size": fixed_size(schema)}
        return avro | size | self._properties(schema)


def scrub_name(name: str) -> str:
    """Return a name that Avro allows; other characters become ``_x`` and their UTF-8 bytes in hex.

    Valid names are unchanged.
    """
    scrubbed = _NOT_IN_NAMES.sub(lambda m: "".join(f"_x{b:02x}" for b in m[0].encode()), name)
    return scrubbed if _NAME.fullmatch(scrubbed) else "_" + scrubbed


def split_name(full_name: str) -> tuple[str, str]:
    """Return namespace and name, both escaped for Avro."""
    *space, name = full_name.split(".")
    return ".".join(scrub_name(part) for part in space if part), scrub_name(name)


def is_union(schema: Schema) -> bool:
    """Return whether a struct represents a union: at most one member is not null."""
    return schema.kind is Kind.STRUCT and schema.name == UNION


def is_enum(schema: Schema) -> bool:
    """Return whether a string schema comes from an Avro enum."""
    return schema.kind is Kind.STRING and bool(schema.parameter(ENUM))


def is_fixed(schema: Schema) -> bool:
    """Return whether a bytes schema is an Avro fixed; a Decimal is not."""
    return fixed_size(schema) is not None and bool(schema.name) and schema.name != DECIMAL


def has_text_keys(schema: Schema, optional_keys: bool) -> bool:
    """Return whether a map becomes an Avro map instead of an array of entries."""
    assert schema.keys is not None
    plain = schema.keys.kind is Kind.STRING and schema.keys.name is None
    return plain and (optional_keys or not schema.keys.optional)


def enum_symbols(schema: Schema) -> tuple[str, ...]:
    """Return the symbols of a string schema that comes from an Avro enum, sorted by name."""
    start = ENUM + "."
    return tuple(name[len(start) :] for name, _ in schema.parameters if name.startswith(start))


def fixed_size(schema: Schema) -> int | None:
    """Return the size of a bytes schema that comes from an Avro fixed, or None."""
    size = schema.parameter(FIXED_SIZE)
    return int(size) if size is not None and schema.kind is Kind.BYTES else None


def default_to_avro(schema: Schema, value: Any) -> Any:  # noqa: PLR0911
    """Return a plain default in Avro's JSON form; bytes become a text of their code points."""
    if value is None:
        return None
    match schema.kind:
        case Kind.BYTES:
            return bytes(value).decode("latin-1")
        case Kind.ARRAY:
            assert schema.items is not None
            return [default_to_avro(schema.items, item) for item in value]
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            pairs = [
                (default_to_avro(schema.keys, key), default_to_avro(schema.items, item))
                for key, item in value
            ]
            if schema.keys.kind is Kind.STRING and not schema.keys.optional:
                return dict(pairs)
            return [{"key": key, "value": item} for key, item in pairs]
        case Kind.STRUCT:
            members = zip(schema.fields, value, strict=True)
            return {field.name: default_to_avro(field.schema, item) for field, item in members}
        case _:
            return value
