"""Convert Connect schemas from and to JsonConverter's ``{"type": "struct", "fields": [...]}``.

Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kafkeep.errors import RecordError
from kafkeep.records.schema import DECIMAL, Field, Kind, Schema

_BITS = {Kind.INT8: 7, Kind.INT16: 15, Kind.INT32: 31, Kind.INT64: 63}
_MAX_DIGITS = 4_000


def parse_schema(text: bytes) -> Schema | None:
    """Return the schema that a valid JSON text describes, or None if the text is ``null``."""
    try:
        return schema_from_json(json.loads(text, parse_float=_exact))
    except (RecursionError, ValueError) as error:  # too deep, or a number with too many digits
        raise RecordError(f"a schema cannot be read: {error}") from error


def _exact(text: str) -> Decimal | float:
    number = float(text)
    return number if math.isinf(number) else Decimal(text)


def schema_from_json(document: object) -> Schema | None:
    """Return the schema of a parsed JSON document; raise RecordError if it is invalid."""
    if document is None:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        raise RecordError("Schema must contain 'type' field")
    try:
        kind = Kind(document["type"])
    except ValueError:
        raise RecordError(f"Unknown schema type: {document['type']}") from None
    schema = Schema(
        kind=kind,
        optional=document.get("optional") is True,
        name=_text(document, "name"),
        version=_version(document),
        doc=_text(document, "doc"),
        parameters=_parameters(document),
        fields=_fields(document) if kind is Kind.STRUCT else (),
        items=_items(document, kind),
        keys=_part(document, "keys", "Map", "key") if kind is Kind.MAP else None,
    )
    if schema.name == DECIMAL and kind is Kind.BYTES:
        decimal_scale(schema)
    default = document.get("default")
    return schema if default is None else replace(schema, default=plain_from_json(schema, default))


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _version(document: Mapping[str, Any]) -> int | None:
    value = document.get("version")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parameters(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    value = document.get("parameters")
    if value is None:
        return ()
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise RecordError("Schema parameters must be an object of strings")
    return tuple(sorted(value.items()))


def _fields(document: Mapping[str, Any]) -> tuple[Field, ...]:
    members = document.get("fields")
    if not isinstance(members, list):
        raise RecordError('Struct schema\'s "fields" argument is not an array.')
    fields = []
    for member in members:
        schema = schema_from_json(member)
        name = member.get("field") if isinstance(member, dict) else None
        if schema is None or not isinstance(name, str):
            raise RecordError("Struct schema's field name not specified properly")
        fields.append(Field(name, schema))
    if len({field.name for field in fields}) < len(fields):
        raise RecordError("a struct schema has two fields of one name")
    return tuple(fields)


def _items(document: Mapping[str, Any], kind: Kind) -> Schema | None:
    match kind:
        case Kind.ARRAY:
            return _part(document, "items", "Array", "element")
        case Kind.MAP:
            return _part(document, "values", "Map", "value")
        case _:
            return None


def _part(document: Mapping[str, Any], name: str, owner: str, part: str) -> Schema:
    schema = schema_from_json(document.get(name))
    if schema is None:
        raise RecordError(f"{owner} schema did not specify the {part} type")
    return schema


def decimal_scale(schema: Schema) -> int:
    """Return the number of digits after a Decimal's point."""
    scale = schema.parameter("scale")
    if scale is None:
        raise RecordError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(scale)
    except ValueError:
        raise RecordError(f"Invalid Decimal schema: the scale {scale} is not a number") from None


def unscaled_bytes(number: Decimal, scale: int) -> bytes | None:
    """Return a number as the bytes of a Connect Decimal, or None if the scale would lose digits."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return None
    shift = exponent + scale
    if abs(shift) > _MAX_DIGITS or len(digits) > _MAX_DIGITS:
        return None if any(digits) else b"\0"
    unscaled = int("".join(map(str, digits)))
    power: int = 10 ** abs(shift)
    if shift < 0 and unscaled % power:
        return None
    unscaled = unscaled * power if shift >= 0 else unscaled // power
    unscaled = -unscaled if sign else unscaled
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def plain_from_json(schema: Schema, value: Any) -> Any:
    """Return a parsed JSON value in the form of ``Schema.default``."""
    if value is None:
        if schema.default is None and not schema.optional:
            raise RecordError(f"Invalid null value for required {schema.kind} field")
        return schema.default
    try:
        return _READ[schema.kind](schema, value)
    except (TypeError, ValueError, KeyError, ArithmeticError) as error:
        raise RecordError(f"a default is not of its type {schema.kind}: {value!r}") from error


def _read_int(schema: Schema, value: Any) -> int:
    if isinstance(value, bool | str) or not -(1 << 63) <= value < 1 << 63 or value != int(value):
        raise ValueError(value)
    number = int(value)
    if (number if number >= 0 else ~number) >> _BITS[schema.kind]:
        raise ValueError(value)
    return number


def _read_float(schema: Schema, value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    if isinstance(value, str):
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[value]
    return float(value)


def _read_bytes(schema: Schema, value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError(value) from error
    if schema.name != DECIMAL or isinstance(value, bool):
        raise TypeError(value)
    exact = Decimal(repr(value) if isinstance(value, float) else value)
    unscaled = unscaled_bytes(exact, decimal_scale(schema))
    if unscaled is None:
        raise ValueError(value)
    return unscaled


def _read_exactly(kind: type) -> Callable[[Schema, Any], Any]:
    def read(schema: Schema, value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(value)
        return value

    return read


def _read_array(schema: Schema, value: Any) -> tuple[Any, ...]:
    assert schema.items is not None
    return tuple(plain_from_json(schema.items, part) for part in _read_exactly(list)(schema, value))


def _read_map(schema: Schema, value: Any) -> tuple[Any, ...]:
    keys, items = schema.keys, schema.items
    assert keys is not None and items is not None
    pairs = value.items() if isinstance(value, dict) else _read_exactly(list)(schema, value)
    return tuple((plain_from_json(keys, k), plain_from_json(items, v)) for k, v in pairs)


def _read_struct(schema: Schema, value: Any) -> tuple[Any, ...]:
    members = _read_exactly(dict)(schema, value)
    return tuple(plain_from_json(f.schema, members.get(f.name)) for f in schema.fields)


_READ: Mapping[Kind, Callable[[Schema, Any], Any]] = {
    **dict.fromkeys(_BITS, _read_int),
    Kind.FLOAT32: _read_float,
    Kind.FLOAT64: _read_float,
    Kind.BOOLEAN: _read_exactly(bool),
    Kind.STRING: _read_exactly(str),
    Kind.BYTES: _read_bytes,
    Kind.ARRAY: _read_array,
    Kind.MAP: _read_map,
    Kind.STRUCT: _read_struct,
}


def schema_to_json(schema: Schema | None) -> dict[str, Any] | None:
    """Return the JSON form of a schema, with its members in Connect's order."""
    if schema is None:
        return None
    document: dict[str, Any] = {"type": str(schema.kind)}
    match schema.kind:
        case Kind.STRUCT:
            document["fields"] = [
                {**(schema_to_json(f.schema) or {}), "field": f.name} for f in schema.fields
            ]
        case Kind.ARRAY:
            document["items"] = schema_to_json(schema.items)
        case Kind.MAP:
            document["keys"] = schema_to_json(schema.keys)
            document["values"] = schema_to_json(schema.items)
    document["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            document[name] = getattr(schema, name)
    if schema.parameters:
        document["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        document["default"] = plain_to_json(schema, schema.default)
    return document


def plain_to_json(schema: Schema, value: Any) -> Any:  # noqa: PLR0911
    """Return a plain value in the form ``plain_from_json`` reads; bytes and Decimals as base64."""
    if value is None:
        return None
    match schema.kind:
        case Kind.BYTES:
            return base64.b64encode(value).decode()
        case Kind.FLOAT32 | Kind.FLOAT64 if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Kind.ARRAY if schema.items is not None:
            return [plain_to_json(schema.items, part) for part in value]
        case Kind.MAP if schema.items is not None and schema.keys is not None:
            keys, items = schema.keys, schema.items
            pairs = [[plain_to_json(keys, k), plain_to_json(items, v)] for k, v in value]
            return dict(pairs) if keys.kind is Kind.STRING else pairs
        case Kind.STRUCT:
            parts = zip(schema.fields, value, strict=True)
            return {f.name: plain_to_json(f.schema, part) for f, part in parts}
        case _:
            return value
