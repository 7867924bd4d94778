"""Match an Avro schema with a Connect schema, as a tree for encoding and decoding; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from kafkeep.errors import RecordError
from kafkeep.records.avro.schema import is_union
from kafkeep.records.avro.schema_reader import full_name
from kafkeep.records.schema import Field, Kind, Schema


class WireType(IntEnum):
    """The binary form of a value in Avro."""

    NUMBER = 0
    FLOAT = 1
    DOUBLE = 2
    BOOLEAN = 3
    BYTES = 4
    FIXED = 5
    ENUM = 6
    LIST = 7
    RECORD = 8
    UNION = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroNode:
    """One type: its binary form, its schema, and its children.

    ``null_branch`` and ``value_branch`` are the branch numbers in a union with null, or -1 without
    one. For a UNION, ``branches`` are the branch numbers of the children. A LIST has one child. For
    maps, this child is a RECORD of key and value.
    """

    wire_type: WireType
    schema: Schema
    children: tuple[AvroNode, ...] = ()
    branches: tuple[int, ...] = ()
    null_branch: int = -1
    value_branch: int = -1
    symbols: tuple[str, ...] = ()
    width: int = 0


_WIRE_TYPES = {
    "int": WireType.NUMBER,
    "long": WireType.NUMBER,
    "float": WireType.FLOAT,
    "double": WireType.DOUBLE,
    "boolean": WireType.BOOLEAN,
    "string": WireType.BYTES,
    "bytes": WireType.BYTES,
}
_TAKES = {
    "int": (Kind.INT8, Kind.INT16, Kind.INT32),
    "long": (Kind.INT64,),
    "float": (Kind.FLOAT32,),
    "double": (Kind.FLOAT64,),
    "boolean": (Kind.BOOLEAN,),
    "string": (Kind.STRING,),
    "bytes": (Kind.BYTES,),
    "fixed": (Kind.BYTES,),
    "enum": (Kind.STRING,),
    "array": (Kind.ARRAY, Kind.MAP),
    "map": (Kind.MAP,),
    "record": (Kind.STRUCT,),
    "error": (Kind.STRUCT,),
}


def plan(avro: Any, schema: Schema) -> AvroNode:
    """Return the tree that converts between columns of ``schema`` and values of ``avro``.

    ``schema`` must be ``from_avro(avro)``, or the schema from which ``to_avro`` made ``avro``.
    Raise RecordError if the two do not match.
    """
    return _Planning().node(avro, schema, "")


class _Planning:
    def __init__(self) -> None:
        self.known: dict[str, tuple[Any, str]] = {}

    def node(self, avro: Any, schema: Schema, space: str) -> AvroNode:
        if isinstance(avro, list):
            return self._union(avro, schema, space)
        if isinstance(avro, str) and avro not in _WIRE_TYPES:
            full = avro if "." in avro or not space else f"{space}.{avro}"
            if full not in self.known and avro not in self.known:
                raise RecordError(f"the Avro type {full} is not defined")
            avro, space = self.known.get(full) or self.known[avro]
        kind = avro if isinstance(avro, str) else avro["type"]
        if not isinstance(kind, str):
            return self.node(kind, schema, space)
        if kind not in _TAKES:  # a type name with properties
            return self.node(kind, schema, space)
        if schema.kind not in _TAKES[kind]:
            raise RecordError(f"an Avro {kind} does not hold a {schema.kind}")
        match kind:
            case "record" | "error" | "enum" | "fixed":
                full = full_name(avro, space)
                self.known[full] = avro, space
                return self._named(avro, schema, full.rpartition(".")[0])
            case "array" | "map":
                return self._list(avro, schema, space)
        return AvroNode(wire_type=_WIRE_TYPES[kind], schema=schema)

    def _named(self, avro: Any, schema: Schema, space: str) -> AvroNode:
        if avro["type"] == "enum":
            return AvroNode(wire_type=WireType.ENUM, schema=schema, symbols=tuple(avro["symbols"]))
        if avro["type"] == "fixed":
            return AvroNode(wire_type=WireType.FIXED, schema=schema, width=int(avro["size"]))
        if len(avro["fields"]) != len(schema.fields):
            raise RecordError(f"the Avro record {avro['name']} has other members than its schema")
        children = (
            self.node(member["type"], field.schema, space)
            for member, field in zip(avro["fields"], schema.fields, strict=True)
        )
        return AvroNode(wire_type=WireType.RECORD, schema=schema, children=tuple(children))

    def _list(self, avro: Any, schema: Schema, space: str) -> AvroNode:
        assert schema.items is not None
        if schema.kind is Kind.ARRAY:
            child = self.node(avro["items"], schema.items, space)
            return AvroNode(wire_type=WireType.LIST, schema=schema, children=(child,))
        assert schema.keys is not None
        keys = schema.keys if avro["type"] == "array" else schema.keys.as_optional(False)
        fields = (Field("key", keys), Field("value", schema.items))
        entry = Schema(kind=Kind.STRUCT, fields=fields)
        if avro["type"] == "array":
            child = self.node(avro["items"], entry, space)
        else:
            values = self.node(avro["values"], schema.items, space)
            key = AvroNode(wire_type=WireType.BYTES, schema=keys)
            child = AvroNode(wire_type=WireType.RECORD, schema=entry, children=(key, values))
        return AvroNode(wire_type=WireType.LIST, schema=schema, children=(child,))

    def _union(self, avro: list[Any], schema: Schema, space: str) -> AvroNode:
        null = avro.index("null") if "null" in avro else -1
        places = [place for place in range(len(avro)) if place != null]
        if len(places) == 1 and not (is_union(schema) and len(schema.fields) == 1):
            inner = self.node(avro[places[0]], schema.as_optional(False), space)
            return replace(inner, null_branch=null, value_branch=places[0], schema=schema)
        if not is_union(schema) or len(schema.fields) != len(places):
            raise RecordError("an Avro union has other members than its schema")
        children = tuple(
            self.node(avro[place], field.schema.as_optional(False), space)
            for place, field in zip(places, schema.fields, strict=True)
        )
        return AvroNode(
            wire_type=WireType.UNION,
            schema=schema,
            children=children,
            branches=tuple(places),
            null_branch=null,
        )
