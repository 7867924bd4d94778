"""Names and properties of Confluent's Avro schemas, and default values as they hold them."""

from __future__ import annotations

import re
from typing import Any

from kafkeep.records.schema import DECIMAL, Kind, Schema

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


def scrub_name(name: str) -> str:
    """Return a name that Avro allows: other characters as ``_x`` and their UTF-8 bytes in hex.

    Names that are fine already come back as they are.
    """
    scrubbed = _NOT_IN_NAMES.sub(lambda m: "".join(f"_x{b:02x}" for b in m[0].encode()), name)
    return scrubbed if _NAME.fullmatch(scrubbed) else "_" + scrubbed


def split_name(full_name: str) -> tuple[str, str]:
    """Return namespace and name, both allowed in Avro."""
    *space, name = full_name.split(".")
    return ".".join(scrub_name(part) for part in space if part), scrub_name(name)


def is_union(schema: Schema) -> bool:
    """Say whether a struct stands for a union: at most one of its members is not null."""
    return schema.kind is Kind.STRUCT and schema.name == UNION


def is_enum(schema: Schema) -> bool:
    """Say whether a string was an Avro enum."""
    return schema.kind is Kind.STRING and bool(schema.parameter(ENUM))


def is_fixed(schema: Schema) -> bool:
    """Say whether bytes are an Avro fixed; a Decimal is none."""
    return fixed_size(schema) is not None and bool(schema.name) and schema.name != DECIMAL


def has_text_keys(schema: Schema, optional_keys: bool) -> bool:
    """Say whether a map is an Avro map; any other is an array of entries."""
    assert schema.keys is not None
    plain = schema.keys.kind is Kind.STRING and schema.keys.name is None
    return plain and (optional_keys or not schema.keys.optional)


def enum_symbols(schema: Schema) -> tuple[str, ...]:
    """Return the symbols of a string that was an Avro enum, in order of their names."""
    start = ENUM + "."
    return tuple(name[len(start) :] for name, _ in schema.parameters if name.startswith(start))


def fixed_size(schema: Schema) -> int | None:
    """Return the size of bytes that were an Avro fixed, or None."""
    size = schema.parameter(FIXED_SIZE)
    return int(size) if size is not None and schema.kind is Kind.BYTES else None


def default_to_avro(schema: Schema, value: Any) -> Any:  # noqa: PLR0911
    """Return a plain default as Avro's JSON: bytes as text of their code points."""
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


def default_from_avro(schema: Schema, value: Any) -> Any:  # noqa: PLR0911
    """Return the plain default that ``default_to_avro`` wrote; None when it has another form."""
    if value is None:
        return None
    match schema.kind:
        case Kind.BYTES:
            return value.encode("latin-1") if isinstance(value, str) else None
        case Kind.ARRAY:
            assert schema.items is not None
            return tuple(default_from_avro(schema.items, item) for item in value)
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            pairs = (
                value.items()
                if isinstance(value, dict)
                else [(entry["key"], entry["value"]) for entry in value]
            )
            return tuple(
                (default_from_avro(schema.keys, key), default_from_avro(schema.items, item))
                for key, item in pairs
            )
        case Kind.STRUCT:
            return tuple(
                default_from_avro(field.schema, value.get(field.name, field.schema.default))
                for field in schema.fields
            )
        case Kind.FLOAT32 | Kind.FLOAT64:
            return float(value)
        case _:
            return value
