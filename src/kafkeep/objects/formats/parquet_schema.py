"""How rows of one schema lie in a Parquet file: which columns, and what the file says of them.

A struct has its members as columns. Anything else is wrapped, as Connect does it: keys in
``RecordKey{key}``, headers in ``RecordHeaders{headers}``, values in ``RecordValue{value}``.

A struct that is optional has columns that can all be null: a null row is null in each. If no member
is required, a row of nulls would look the same, so a column ``_null`` is true for null rows.

The file's metadata have the schema as the real sink writes it (``parquet.avro.schema``).

The schema of a Parquet file as parquet-avro has it: groups, columns, and what annotates them.

Confluent's sink writes lists of two levels (``tags.array``), and of three (``tags.list.element``)
where the items of any list may be null. Both have the same levels in the pages of a column, so that
Arrow, which only knows the latter, writes the pages, and the footer is given this schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import DamagedError
from kafkeep.objects.formats.parquet_columns import (
    EMPTY,
    PLAIN_RULES,
    ColumnRules,
    decimal_digits,
    fill_required,
    from_parquet,
    member_name,
    parquet_type,
    to_parquet,
)
from kafkeep.objects.formats.parquet_pages import Value, flag, i32, listed, struct, text
from kafkeep.records.avro.names import fixed_size, has_text_keys, is_enum, is_fixed, is_union
from kafkeep.records.avro.schema import from_avro
from kafkeep.records.schema import DATE, TIME, TIMESTAMP, Field, Kind, Schema, arrow_type


class PhysicalType(IntEnum):
    """How values lie in pages."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED = 7


class Repetition(IntEnum):
    """How often a node comes in the one around it."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


class Annotation(NamedTuple):
    """What values mean: by the old number, and by the logical type where there is one."""

    converted: int
    logical: Value | None
    digits: tuple[int, int] | None = None


def _named(number: int) -> Value:
    return struct({number: struct({})})


_UTC_MILLIS = struct({1: flag(True), 2: _named(1)})
_STRING = Annotation(0, _named(1))
_MAP = Annotation(1, _named(2))
_MAP_KEY_VALUE = Annotation(2, None)
_LIST = Annotation(3, _named(3))
_ENUM = Annotation(4, _named(4))
_LOGICAL = {
    (Kind.INT32, DATE): Annotation(6, _named(6)),
    (Kind.INT32, TIME): Annotation(7, struct({7: _UTC_MILLIS})),
    (Kind.INT64, TIMESTAMP): Annotation(9, struct({8: _UTC_MILLIS})),
}
_PHYSICAL = {
    Kind.INT8: PhysicalType.INT32,
    Kind.INT16: PhysicalType.INT32,
    Kind.INT32: PhysicalType.INT32,
    Kind.INT64: PhysicalType.INT64,
    Kind.FLOAT32: PhysicalType.FLOAT,
    Kind.FLOAT64: PhysicalType.DOUBLE,
    Kind.BOOLEAN: PhysicalType.BOOLEAN,
    Kind.STRING: PhysicalType.BYTE_ARRAY,
    Kind.BYTES: PhysicalType.BYTE_ARRAY,
}


@dataclass(frozen=True, slots=True)
class Node:
    """A column, or a group of nodes."""

    name: str
    repetition: Repetition | None
    """None for the root."""
    physical: PhysicalType | None = None
    annotation: Annotation | None = None
    width: int | None = None
    children: tuple[Node, ...] = ()

    @property
    def is_decimal(self) -> bool:
        """Whether it is a column of decimals."""
        return self.annotation is not None and self.annotation.digits is not None

    def iter_nodes(self) -> Iterator[Node]:
        """Yield this node, then those below it, in the order of a footer."""
        yield self
        for child in self.children:
            yield from child.iter_nodes()

    def iter_columns(self, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """Yield the columns and the names that lead to each; the root's is none of them."""
        for child in self.children:
            path = (*before, child.name)
            if child.physical is not None:
                yield path, child
            yield from child.iter_columns(path)

    def to_thrift(self) -> Value:
        """Return the list of all nodes, as it stands in a footer."""
        return listed([node._element() for node in self.iter_nodes()])

    def _element(self) -> Value:
        told = self.annotation
        digits = None if told is None else told.digits
        return struct(
            {
                1: None if self.physical is None else i32(self.physical),
                2: None if self.width is None else i32(self.width),
                3: None if self.repetition is None else i32(self.repetition),
                4: text(self.name),
                5: i32(len(self.children)) if self.children else None,
                6: None if told is None else i32(told.converted),
                7: None if digits is None else i32(digits[1]),
                8: None if digits is None else i32(digits[0]),
                10: None if told is None else told.logical,
            }
        )


def make_nodes(layout: Layout, name: str, *, three_levels: bool | None = None) -> Node:
    """Return the schema of a file with the columns of a layout; ``name`` is that of its record.

    Unless ``three_levels`` says so, lists have as many as Confluent's sink would give them.
    """
    if three_levels is None:
        three_levels = _has_optional_items(layout.struct)
    maker = _NodeMaker(layout.rules, three_levels)
    children = maker.members(layout.struct)
    if layout.struct.optional:
        children = tuple(replace(child, repetition=Repetition.OPTIONAL) for child in children)
    if layout.is_marked:
        children += (Node(NULL_ROW, Repetition.REQUIRED, PhysicalType.BOOLEAN),)
    return Node(name, None, children=children)


def _has_optional_items(schema: Schema) -> bool:
    """Tell whether items of any list may be null, as Confluent's sink looks for them."""
    inner = [field.schema for field in schema.fields]
    inner += [] if schema.items is None else [schema.items]
    is_open = schema.kind is Kind.ARRAY and schema.items is not None and schema.items.optional
    return is_open or any(map(_has_optional_items, inner))


@dataclass(frozen=True, slots=True)
class _NodeMaker:
    """Makes the nodes of one file, whose lists all have two levels, or three."""

    rules: ColumnRules
    three_levels: bool

    def members(self, schema: Schema) -> tuple[Node, ...]:
        """Return the nodes of a struct's members."""
        if not schema.fields:
            return (Node(EMPTY, Repetition.OPTIONAL, PhysicalType.BOOLEAN),)
        return tuple(
            self.make(
                field.schema.as_optional() if is_union(schema) else field.schema,
                member_name(schema, place),
            )
            for place, field in enumerate(schema.fields)
        )

    def make(self, schema: Schema, name: str, *, repeated: bool = False) -> Node:
        """Return the node of a value."""
        repetition = Repetition.OPTIONAL if schema.optional else Repetition.REQUIRED
        repetition = Repetition.REPEATED if repeated else repetition
        match schema.kind:
            case Kind.STRUCT:
                return Node(name, repetition, children=self.members(schema))
            case Kind.ARRAY:
                assert schema.items is not None
                return self._list(schema.items, name, repetition)
            case Kind.MAP:
                return self._map(schema, name, repetition)
            case _:
                return self._column(schema, name, repetition)

    def _list(self, items: Schema, name: str, repetition: Repetition) -> Node:
        if self.three_levels:
            element = self.make(items, "element")
            inner = Node("list", Repetition.REPEATED, children=(element,))
        else:
            inner = self.make(items, "array", repeated=True)
        return Node(name, repetition, annotation=_LIST, children=(inner,))

    def _map(self, schema: Schema, name: str, repetition: Repetition) -> Node:
        assert schema.keys is not None and schema.items is not None
        fields = (Field("key", schema.keys), Field("value", schema.items))
        if not has_text_keys(schema, self.rules.optional_map_keys):
            return self._list(Schema(kind=Kind.STRUCT, fields=fields), name, repetition)
        key, value = self.members(
            Schema(
                kind=Kind.STRUCT, fields=(Field("key", schema.keys.as_optional(False)), fields[1])
            )
        )
        entry = Node(
            "key_value", Repetition.REPEATED, annotation=_MAP_KEY_VALUE, children=(key, value)
        )
        return Node(name, repetition, annotation=_MAP, children=(entry,))

    def _column(self, schema: Schema, name: str, repetition: Repetition) -> Node:
        if is_fixed(schema):
            return Node(name, repetition, PhysicalType.FIXED, width=fixed_size(schema))
        annotation = _LOGICAL.get((schema.kind, schema.name or ""))
        if schema.kind is Kind.STRING:
            annotation = _ENUM if self.rules.enhanced and is_enum(schema) else _STRING
        elif (digits := decimal_digits(schema)) is not None:
            precision, scale = digits
            logical = struct({5: struct({1: i32(scale), 2: i32(precision)})})
            annotation = Annotation(5, logical, digits)
        return Node(name, repetition, _PHYSICAL[schema.kind], annotation)


AVRO_SCHEMA = b"parquet.avro.schema"
JSON_COLUMNS = b"kafkeep.json.columns"
NULL_ROW = "_null"
WRAPPERS = {
    "value": ("RecordValue", "value"),
    "keys": ("RecordKey", "key"),
    "headers": ("RecordHeaders", "headers"),
}
"""Name and only member of the struct around what is no struct, for each view."""


def wrap(schema: Schema, view: str) -> Schema:
    """Return the struct that rows of a view have in Parquet; itself when it is one already."""
    if schema.kind is Kind.STRUCT and (view == "value" or is_wrapped(schema)):
        return schema
    name, member = WRAPPERS[view]
    return Schema(kind=Kind.STRUCT, name=name, fields=(Field(member, schema),))


def is_wrapped(schema: Schema) -> bool:
    """Say whether a struct was made by ``wrap``."""
    names = [field.name for field in schema.fields]
    return any((schema.name, names) == (name, [member]) for name, member in WRAPPERS.values())


@dataclass(frozen=True)
class Layout:
    """The columns of a struct, and the way there and back."""

    struct: Schema
    rules: ColumnRules = PLAIN_RULES

    @property
    def is_marked(self) -> bool:
        """Whether there is a column that tells null rows from rows of nulls."""
        return self.struct.optional and all(f.schema.optional for f in self.struct.fields)

    def arrow_schema(self) -> pa.Schema:
        """Return the columns."""
        fields = list(parquet_type(self.struct.as_optional(False), self.rules))
        if self.struct.optional:
            fields = [field.with_nullable(True) for field in fields]
        if self.is_marked:
            fields.append(pa.field(NULL_ROW, pa.bool_(), nullable=False))
        return pa.schema(fields)

    def to_table(self, array: pa.StructArray) -> pa.Table:
        """Return the columns of rows."""
        converted = fill_required(to_parquet(array, self.struct, self.rules))
        columns = converted.flatten() if array.null_count else _members(converted)
        if self.is_marked:
            columns.append(pc.is_null(array))
        return pa.Table.from_arrays(columns, schema=self.arrow_schema())

    def from_batch(self, batch: pa.RecordBatch) -> pa.Array:
        """Return rows of columns read."""
        columns = []
        for field in self.struct.fields:
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                raise DamagedError(
                    f"a Parquet file has no column {field.name!r} as its schema says"
                )
            columns.append(from_parquet(batch.column(place), field.schema))
        kind = arrow_type(self.struct)
        mask = self._null_rows(batch)
        if not columns:
            valid = None if mask is None else pc.invert(mask).buffers()[1]
            return pa.Array.from_buffers(kind, batch.num_rows, [valid], children=[])
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)

    def _null_rows(self, batch: pa.RecordBatch) -> pa.Array | None:
        if not self.struct.optional:
            return None
        if self.is_marked and NULL_ROW in batch.schema.names:
            return batch.column(NULL_ROW)
        required = [f.name for f in self.struct.fields if not f.schema.optional]
        return pc.is_null(batch.column(required[0])) if required else None


def _members(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(i) for i in range(array.type.num_fields)]


def read_schema(arrow: pa.Schema, metadata: dict[bytes, bytes] | None) -> Schema:
    """Return the schema of a file: what its metadata say, else what its columns are."""
    text = (metadata or {}).get(AVRO_SCHEMA)
    if text is None:
        fields = tuple(Field(f.name, _schema_of(f)) for f in arrow)
        return Schema(kind=Kind.STRUCT, fields=fields)
    try:
        found = from_avro(orjson.loads(text))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"the schema in a Parquet file is not readable: {error}") from error
    if found is None or found.kind is not Kind.STRUCT:
        raise DamagedError("the schema in a Parquet file is not that of a struct")
    return found


_KINDS = {
    pa.int8(): Kind.INT8,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.float32(): Kind.FLOAT32,
    pa.float64(): Kind.FLOAT64,
    pa.bool_(): Kind.BOOLEAN,
    pa.string(): Kind.STRING,
    pa.binary(): Kind.BYTES,
}


def _schema_of(field: pa.Field) -> Schema:
    """Return the schema of a column that says nothing of Connect."""
    kind, optional = field.type, field.nullable
    if pa.types.is_struct(kind):
        fields = tuple(Field(f.name, _schema_of(f)) for f in kind)
        return Schema(kind=Kind.STRUCT, optional=optional, fields=fields)
    if pa.types.is_map(kind):
        keys, items = _schema_of(kind.key_field), _schema_of(kind.item_field)
        return Schema(kind=Kind.MAP, optional=optional, keys=keys, items=items)
    if pa.types.is_list(kind):
        return Schema(kind=Kind.ARRAY, optional=optional, items=_schema_of(kind.value_field))
    if kind not in _KINDS:
        raise DamagedError(f"a Parquet column of {kind} has no Connect schema: {field.name}")
    return Schema(kind=_KINDS[kind], optional=optional)
