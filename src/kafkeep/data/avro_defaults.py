"""Default values of Connect schemas in the JSON form they have in Avro schemas, and back."""

from __future__ import annotations

from typing import Any

from kafkeep.data.schema import Kind, Schema


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
