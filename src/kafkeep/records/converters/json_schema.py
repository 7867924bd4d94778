"""JsonSchemaConverter: decode JSON documents whose JSON Schema is in a schema registry."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import orjson
import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.converter_settings import JsonSchemaSettings
from kafkeep.records.converters.converter import (
    ConvertedRange,
    Decoder,
    TopicSubject,
    convert_framed,
    read_schema_id,
)
from kafkeep.records.converters.json_schema_types import (
    ONE_OF,
    UnsupportedSchemaError,
    read_json_schema,
)
from kafkeep.records.schema import DECIMAL, Column, Kind, Schema
from kafkeep.registry.client import Registry

Change = Callable[[Any], Any]


class JsonSchemaConverter:
    """Keys or values of one topic in Confluent's JSON Schema format."""

    def __init__(
        self, settings: JsonSchemaSettings, registry: Registry, subject: TopicSubject
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.subject = subject
        self._decoders: dict[int, Decoder] = {}

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield a column for each run of one schema id.

        Raise TransientError if the registry is down. If Connect cannot express a schema, its values
        are schemaless JSON texts.
        """
        return convert_framed(values, self._decoder, read_schema_id)

    def restore(self, column: Column) -> pa.BinaryArray:
        """Raise RecordError, because the archive does not keep the original document."""
        raise RecordError(
            f"values of {self.subject.role}s cannot be produced in JSON Schema's form",
            hint="Restore with value.converter=org.apache.kafka.connect.json.JsonConverter, or "
            "keep such topics in the segment format.",
        )

    def _decoder(self, schema_id: int) -> Decoder:
        if schema_id not in self._decoders:
            self._decoders[schema_id] = self._open(schema_id)
        return self._decoders[schema_id]

    def _open(self, schema_id: int) -> Decoder:
        found = self.registry.schema(schema_id)
        if found.type != "JSON":
            raise RecordError(f"schema id {schema_id} is of type {found.type}, not JSON")
        try:
            schema = read_json_schema(
                found,
                self.registry.references(found),
                optional_for_nonrequired=self.settings.optional_for_nonrequired,
            )
        except UnsupportedSchemaError:
            return _Texts()
        if schema.version is None:
            schema = replace(schema, version=self.subject.version(self.registry, schema_id))
        return _Documents(schema)


class _Texts:
    """Returns documents as JSON texts."""

    schema = None

    def decode(self, data: bytes) -> bytes:
        _check(data)
        # JSON requires line breaks in strings to be escaped, so these are between tokens.
        return data.replace(b"\r", b"").replace(b"\n", b"").strip()


class _Documents:
    """Returns documents as values of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._change = to_column(schema)

    def decode(self, data: bytes) -> Any:
        return self._change(_load(data))


def _load(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RecordError(f"a value is not JSON: {error}") from error


def _check(data: bytes) -> None:
    """Raise RecordError unless this is one JSON document; numbers can have any size."""
    try:
        json.loads(data.decode(), parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"a value is not JSON: {error}") from error


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number")


@cache
def to_column(schema: Schema) -> Change:
    """Return a function from a parsed document to a column value; it raises RecordError."""
    change = _union(schema) if schema.name == ONE_OF else _BY_KIND[schema.kind](schema)

    def checked(value: Any) -> Any:
        if value is not None:
            return change(value)
        if schema.default is not None:
            return schema.default
        if not schema.optional:
            raise RecordError(
                f"a value of type {schema.kind} is missing",
                hint="Set use.optional.for.nonrequired=true if the property is not required.",
            )
        return None

    return checked


def _integer(schema: Schema) -> Change:
    def change(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise RecordError(f"{value!r} is not of type {schema.kind}")
        return int(value)

    return change


def _number(schema: Schema) -> Change:
    def change(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RecordError(f"{value!r} is not of type {schema.kind}")
        return float(value)

    return change


def _boolean(schema: Schema) -> Change:
    def change(value: Any) -> bool:
        if not isinstance(value, bool):
            raise RecordError(f"{value!r} is not a boolean")
        return value

    return change


def _text(schema: Schema) -> Change:
    def change(value: Any) -> str:
        if not isinstance(value, str):
            raise RecordError(f"{value!r} is not a text")
        return value

    return change


def _bytes(schema: Schema) -> Change:
    def change(value: Any) -> bytes:
        if schema.name == DECIMAL and isinstance(value, int | float):
            return unscaled(Decimal(str(value)), int(schema.parameter("scale") or 0))
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise RecordError(f"{value!r} is not base64") from error

    return change


def unscaled(number: Decimal, scale: int) -> bytes:
    """Return the bytes of a Connect Decimal; raise RecordError if the scale would lose digits."""
    whole = number.scaleb(scale)
    if whole != whole.to_integral_value():
        raise RecordError(f"{number} has more than {scale} digits behind the point")
    value = int(whole)
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def _array(schema: Schema) -> Change:
    assert schema.items is not None
    item = to_column(schema.items)

    def change(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise RecordError("a value is not an array")
        return [item(one) for one in value]

    return change


def _map(schema: Schema) -> Change:
    assert schema.keys is not None and schema.items is not None
    key, item = to_column(schema.keys), to_column(schema.items)

    def change(value: Any) -> list[tuple[Any, Any]]:
        if isinstance(value, dict):
            return [(key(k), item(one)) for k, one in value.items()]
        if isinstance(value, list):
            return [(key(entry.get("key")), item(entry.get("value"))) for entry in value]
        raise RecordError("a value is not a map")

    return change


def _struct(schema: Schema) -> Change:
    fields = [(field.name, to_column(field.schema)) for field in schema.fields]

    def change(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise RecordError("a value is not an object")
        try:
            name = ""
            made = {}
            for name, field in fields:
                made[name] = field(value.get(name))
        except RecordError as error:
            raise RecordError(f"field {name}: {error.message}", hint=error.hint) from error
        return made

    return change


def _union(schema: Schema) -> Change:
    """Select the first member that fits; for objects, the one with the most names in common."""
    fields = [(field, to_column(field.schema)) for field in schema.fields]

    def likeness(value: Any, member: Schema) -> int:
        names = {field.name for field in member.fields}
        return -len(names & value.keys()) if isinstance(value, dict) else 0

    def change(value: Any) -> dict[str, Any]:
        for field, convert in sorted(fields, key=lambda one: likeness(value, one[0].schema)):
            try:
                return {field.name: convert(value)}
            except RecordError:
                continue
        raise RecordError("a value fits none of the types its schema allows")

    return change


_BY_KIND: dict[Kind, Callable[[Schema], Change]] = {
    Kind.INT8: _integer,
    Kind.INT16: _integer,
    Kind.INT32: _integer,
    Kind.INT64: _integer,
    Kind.FLOAT32: _number,
    Kind.FLOAT64: _number,
    Kind.BOOLEAN: _boolean,
    Kind.STRING: _text,
    Kind.BYTES: _bytes,
    Kind.ARRAY: _array,
    Kind.MAP: _map,
    Kind.STRUCT: _struct,
}
