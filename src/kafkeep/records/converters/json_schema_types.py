"""Convert JSON Schema to Connect schemas, as Confluent's JSON Schema converter does; pure.

Objects become structs, or maps if ``connect.type`` requires it. Fields are sorted by
``connect.index``. A choice between null and one type becomes that type, optional. Other choices
become structs with one member for each alternative. Some schemas have no counterpart: an empty
schema, a tuple, or a recursive type. They raise ``UnsupportedSchemaError``, and their values stay
JSON texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Kind, Schema

ONE_OF = "io.confluent.connect.json.OneOf"
ENUM = "io.confluent.connect.json.Enum"

_CONNECT_TYPES = {
    "int8": Kind.INT8,
    "int16": Kind.INT16,
    "int32": Kind.INT32,
    "int64": Kind.INT64,
    "float32": Kind.FLOAT32,
    "float64": Kind.FLOAT64,
    "bytes": Kind.BYTES,
}
_LOGICAL = (DECIMAL, TIMESTAMP, DATE, TIME)


class UnsupportedSchemaError(Exception):
    """Connect cannot express this JSON Schema."""


def read_json_schema(
    schema: RegisteredSchema,
    references: Mapping[str, RegisteredSchema],
    *,
    optional_for_nonrequired: bool = False,
) -> Schema:
    """Return the Connect schema; raise NoSchema with the reason if there is none."""
    try:
        root = orjson.loads(schema.text)
        others = {name: orjson.loads(one.text) for name, one in references.items()}
    except orjson.JSONDecodeError as error:
        raise UnsupportedSchemaError("its text is not JSON") from error
    return _Reading(root, others, optional_for_nonrequired).convert(root)


class _Reading:
    def __init__(self, root: Any, others: Mapping[str, Any], loose: bool) -> None:
        self.root = root
        self.others = others
        self.loose = loose
        self.open: list[str] = []

    def convert(self, node: Any, *, optional: bool = False) -> Schema:
        """Return the Connect schema of a JSON Schema.

        The context decides whether it is optional.
        """
        if not isinstance(node, dict):
            raise UnsupportedSchemaError("a schema is true or false")
        if "$ref" in node:
            return self._reference(str(node["$ref"]), optional)
        for word in ("oneOf", "anyOf"):
            if word in node:
                return self._choice(node, node[word], optional)
        if "allOf" in node:
            return self._all(node, optional)
        if isinstance(node.get("type"), list):
            parts = [node | {"type": one} for one in node["type"]]
            return self._choice({}, parts, optional)
        return _described(self._base(node), node, optional)

    def _base(self, node: Mapping[str, Any]) -> Schema:  # noqa: PLR0911
        if "const" in node or "enum" in node:
            return _enum(node)
        connect = node.get("connect.type")
        match node.get("type"):
            case "boolean":
                return Schema(kind=Kind.BOOLEAN)
            case "integer":
                return Schema(kind=_CONNECT_TYPES.get(str(connect), Kind.INT64))
            case "number":
                return Schema(kind=_CONNECT_TYPES.get(str(connect), Kind.FLOAT64))
            case "string":
                return Schema(kind=Kind.BYTES if connect == "bytes" else Kind.STRING)
            case "array":
                return self._array(node)
            case "object":
                return self._object(node)
            case other:
                if "properties" in node:
                    return self._object(node)
                raise UnsupportedSchemaError(f"a schema has the type {other}")

    def _array(self, node: Mapping[str, Any]) -> Schema:
        items = node.get("items")
        if node.get("connect.type") == "map" and isinstance(items, dict):
            parts = items.get("properties", {})
            if {"key", "value"} <= parts.keys():
                keys, values = self.convert(parts["key"]), self.convert(parts["value"])
                return Schema(kind=Kind.MAP, keys=keys, items=values)
        if not isinstance(items, dict) or not items:
            raise UnsupportedSchemaError("an array does not say what is in it")
        return Schema(kind=Kind.ARRAY, items=self.convert(items))

    def _object(self, node: Mapping[str, Any]) -> Schema:
        if node.get("connect.type") == "map":
            values = self.convert(node.get("additionalProperties"))
            return Schema(kind=Kind.MAP, keys=Schema(kind=Kind.STRING), items=values)
        properties = node.get("properties") or {}
        if not properties:
            raise UnsupportedSchemaError("an object has no properties")
        return self._struct(properties, node.get("required") or ())

    def _struct(self, properties: Mapping[str, Any], required: Any) -> Schema:
        fields = tuple(
            Field(name, self.convert(one, optional=self.loose and name not in required))
            for name, one in _ordered(properties)
        )
        return Schema(kind=Kind.STRUCT, fields=fields)

    def _choice(self, node: Mapping[str, Any], parts: list[Any], optional: bool) -> Schema:
        members = [one for one in parts if one != {"type": "null"} and not _is_null(one)]
        if len(members) == 1:
            nullable = len(parts) > 1
            outer = {key: node[key] for key in ("title", "description", "default") if key in node}
            schema = self.convert(members[0], optional=optional or nullable)
            return _described(schema, outer, schema.optional)
        fields = tuple(
            Field(f"{ONE_OF}.field.{i}", self.convert(one, optional=True))
            for i, one in enumerate(members)
        )
        schema = Schema(kind=Kind.STRUCT, name=ONE_OF, fields=fields)
        return _described(schema, node, optional or len(members) < len(parts))

    def _all(self, node: Mapping[str, Any], optional: bool) -> Schema:
        parts = [self._resolved(one) for one in node["allOf"]] + [node]
        properties: dict[str, Any] = {}
        required: set[str] = set()
        for part in parts:
            properties |= part.get("properties") or {}
            required |= set(part.get("required") or ())
        if properties:
            return _described(self._struct(properties, required), node, optional)
        merged: dict[str, Any] = {}
        for part in parts:
            merged |= {key: value for key, value in part.items() if key != "allOf"}
        return self.convert(merged, optional=optional)

    def _reference(self, ref: str, optional: bool) -> Schema:
        if ref in self.open:
            raise UnsupportedSchemaError(f"{ref} contains itself")
        self.open.append(ref)
        try:
            return self._inside(ref).convert(self._find(ref), optional=optional)
        finally:
            self.open.pop()

    def _resolved(self, node: Any) -> dict[str, Any]:
        found = self._find(str(node["$ref"])) if "$ref" in node else node
        if not isinstance(found, dict):
            raise UnsupportedSchemaError("a part of allOf is not a schema")
        return found

    def _inside(self, ref: str) -> _Reading:
        """Return the reader of the document that a reference points to."""
        name = ref.partition("#")[0]
        if not name:
            return self
        other = _Reading(self._document(name), self.others, self.loose)
        other.open = self.open
        return other

    def _document(self, name: str) -> Any:
        short = name.rpartition("/")[2]
        for known, document in self.others.items():
            if known in (name, short) or document.get("$id") == name:
                return document
        if isinstance(self.root, dict) and self.root.get("$id") == name:
            return self.root
        raise UnsupportedSchemaError(f"{name} is not among the schema's references")

    def _find(self, ref: str) -> Any:
        name, _, pointer = ref.partition("#")
        found = self._document(name) if name else self.root
        for part in pointer.split("/"):
            if part:
                key = part.replace("~1", "/").replace("~0", "~")
                if not isinstance(found, dict) or key not in found:
                    raise UnsupportedSchemaError(f"{ref} leads nowhere")
                found = found[key]
        return found


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def _ordered(properties: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return properties sorted by ``connect.index``, or else by position."""
    placed = [
        (one.get("connect.index", i) if isinstance(one, dict) else i, i, name, one)
        for i, (name, one) in enumerate(properties.items())
    ]
    return [(name, one) for _, _, name, one in sorted(placed, key=lambda place: place[:2])]


def _enum(node: Mapping[str, Any]) -> Schema:
    values = node["enum"] if "enum" in node else [node["const"]]
    if not all(isinstance(value, str) for value in values):
        if node.get("type") in ("integer", "number", "boolean"):
            kinds = {"integer": Kind.INT64, "number": Kind.FLOAT64, "boolean": Kind.BOOLEAN}
            return Schema(kind=kinds[node["type"]])
        raise UnsupportedSchemaError("an enum has values that are no texts")
    parameters = [(ENUM, "")] + [(f"{ENUM}.{value}", value) for value in values]
    return Schema(kind=Kind.STRING, parameters=tuple(sorted(parameters)))


def _described(schema: Schema, node: Mapping[str, Any], optional: bool) -> Schema:
    """Add the title, version, description, parameters and default to a schema."""
    changes: dict[str, Any] = {"optional": optional}
    if node.get("title") and schema.name is None:
        changes["name"] = str(node["title"])
    if isinstance(node.get("connect.version"), int):
        changes["version"] = node["connect.version"]
    if node.get("description"):
        changes["doc"] = str(node["description"])
    if isinstance(node.get("connect.parameters"), dict):
        given = {key: str(value) for key, value in node["connect.parameters"].items()}
        changes["parameters"] = tuple(sorted((dict(schema.parameters) | given).items()))
    default = node.get("default")
    if isinstance(default, bool | int | float | str) and schema.name not in _LOGICAL:
        changes["default"] = default if schema.kind is not Kind.BYTES else None
    return replace(schema, **changes)
