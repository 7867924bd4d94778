"""Names that Avro allows, and the names and properties Confluent's Avro schemas have."""

from __future__ import annotations

import re

from kafkeep.data.schema import DECIMAL, Kind, Schema

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
