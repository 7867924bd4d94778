"""Avro schemas out of a registry: what they refer to is put in its place, so each stands alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.data.avro_names import is_union
from kafkeep.data.avro_reading import full_name
from kafkeep.data.schema import Field, Schema
from kafkeep.errors import RecordError

_NAMED = ("record", "error", "enum", "fixed")


def load_avro(schema: RegisteredSchema, references: Mapping[str, RegisteredSchema]) -> Any:
    """Return the Avro schema as JSON values, with everything it refers to written out."""
    return _Inlining({name: _parse(one.text) for name, one in references.items()}).walk(
        _parse(schema.text), ""
    )


def shorten_members(schema: Schema) -> Schema:
    """Return the schema with members of unions named without their namespaces."""
    fields = tuple(
        Field(
            field.name.rpartition(".")[2] if is_union(schema) else field.name,
            shorten_members(field.schema),
        )
        for field in schema.fields
    )
    items = None if schema.items is None else shorten_members(schema.items)
    keys = None if schema.keys is None else shorten_members(schema.keys)
    return replace(schema, fields=fields, items=items, keys=keys)


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if text.isidentifier():  # a bare "string", as some registries keep it
            return text
        raise RecordError(f"a schema in the registry is not Avro: {text[:100]}") from error


class _Inlining:
    """One schema being put together; each name is written out where it is met first."""

    def __init__(self, references: Mapping[str, Any]) -> None:
        self.references = dict(references)
        self.placed: set[str] = set()

    def walk(self, avro: Any, space: str) -> Any:
        if isinstance(avro, list):
            return [self.walk(one, space) for one in avro]
        if isinstance(avro, str):
            return self._named(avro, space)
        if avro.get("type") in _NAMED:
            return self._definition(avro, space)
        inner = {
            key: self.walk(avro[key], space) for key in ("type", "items", "values") if key in avro
        }
        return avro | inner

    def _definition(self, avro: dict[str, Any], space: str) -> dict[str, Any]:
        full = full_name(avro, space)
        self.placed.add(full)
        if "fields" not in avro:
            return avro
        inner = full.rpartition(".")[0]
        fields = [field | {"type": self.walk(field["type"], inner)} for field in avro["fields"]]
        return avro | {"fields": fields}

    def _named(self, name: str, space: str) -> Any:
        for full in (f"{space}.{name}", name):
            if full in self.placed:
                return name
            if full in self.references:
                found = self.references[full]
                if not isinstance(found, dict):
                    return self.walk(found, "")
                # Its own namespace, also where the one around it would be taken.
                whole = full_name(found, "")
                return self.walk(
                    found | {"name": whole.rpartition(".")[2], "namespace": _space(whole)}, ""
                )
        return name


def _space(full: str) -> str:
    return full.rpartition(".")[0]
