"""Replace the schema in the footer of a Parquet file by the one of parquet-avro. Pure.

Confluent's sink writes lists with two levels (``tags.array``). It writes all lists with three
levels (``tags.list.element``) if the items of any list may be null. The pages of a column are the
same in both cases. Arrow writes only three levels. kafkeep therefore lets Arrow write the file, and
replaces the schema in its footer. A footer is a struct in Thrift's compact protocol. This module
implements the part of that protocol that the replacement needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from kafkeep.numba_setup import varint, zigzag_varint
from kafkeep.objects.formats.parquet_columns import EMPTY, ColumnRules, decimal_digits, member_name
from kafkeep.records.avro.schema import fixed_size, has_text_keys, is_enum, is_fixed, is_union
from kafkeep.records.schema import DATE, TIME, TIMESTAMP, Field, Kind, Schema

_MAGIC = b"PAR1"
_SCHEMA, _GROUPS = 2, 4
_COLUMNS = 1
_META = 3
_PATH = 3


def replace_schema(end: bytes, schema: SchemaNode) -> bytes:
    """Return the end of a file with ``schema`` in its footer. ``end`` includes the whole footer.

    Positions in a file count from its start, so the bytes before the footer stay valid.
    """
    start = len(end) - 8 - int.from_bytes(end[-8:-4], "little")
    assert start >= 0 and end.endswith(_MAGIC)
    footer = split_struct(read_struct(end[start:-8]))
    footer[_SCHEMA] = schema.to_thrift()
    paths = [listed([text(name) for name in path]) for path, _ in schema.iter_columns()]
    footer[_GROUPS] = listed([_rename(group, paths) for group in split_list(footer[_GROUPS])])
    made = struct(footer).body
    return b"".join([end[:start], made, len(made).to_bytes(4, "little"), _MAGIC])


def _rename(group: ThriftValue, paths: list[ThriftValue]) -> ThriftValue:
    """Return a row group with other column paths."""
    fields = split_struct(group)
    columns = []
    for column, path in zip(split_list(fields[_COLUMNS]), paths, strict=True):
        chunk = split_struct(column)
        chunk[_META] = struct(split_struct(chunk[_META]) | {_PATH: path})
        columns.append(struct(chunk))
    return struct(fields | {_COLUMNS: listed(columns)})


_T_TRUE, _T_FALSE, _T_I32, _T_BINARY, _T_LIST, _T_STRUCT = 1, 2, 5, 8, 9, 12
"""Thrift's type numbers."""
_WIDTHS = {_T_TRUE: 0, _T_FALSE: 0, 3: 1, 7: 8}
"""Type number → size of a value, for types of fixed size."""
_END = b"\0"
_SHORT_LIST = 15


class ThriftValue(NamedTuple):
    """An encoded value, and its type number."""

    kind: int
    body: bytes


def flag(given: bool) -> ThriftValue:
    """Return a boolean as the field of a struct."""
    return ThriftValue(_T_TRUE if given else _T_FALSE, b"")


def i32(number: int) -> ThriftValue:
    """Return an int32."""
    return ThriftValue(_T_I32, zigzag_varint(number))


def text(given: str) -> ThriftValue:
    """Return a text, as its UTF-8 bytes."""
    data = given.encode()
    return ThriftValue(_T_BINARY, varint(len(data)) + data)


def struct(fields: Mapping[int, ThriftValue | None]) -> ThriftValue:
    """Return a struct of fields by id, without those that are None. Ids rise by at most 15."""
    parts, last = [], 0
    for number, value in fields.items():
        if value is not None:
            parts += [bytes([(number - last) << 4 | value.kind]), value.body]
            last = number
    return ThriftValue(_T_STRUCT, b"".join([*parts, _END]))


def listed(values: Sequence[ThriftValue]) -> ThriftValue:
    """Return a list of values of one type. An empty list gets the element type struct."""
    kind, count = values[0].kind if values else _T_STRUCT, len(values)
    short = count < _SHORT_LIST
    head = bytes([(count if short else _SHORT_LIST) << 4 | kind])
    long_count = b"" if short else varint(count)
    return ThriftValue(_T_LIST, b"".join([head, long_count, *(value.body for value in values)]))


def split_struct(value: ThriftValue) -> dict[int, ThriftValue]:
    """Return the fields of a struct by id."""
    fields, _ = _read_fields(value.body, 0)
    return fields


def split_list(value: ThriftValue) -> list[ThriftValue]:
    """Return the values of a list. Lists of booleans are not supported."""
    kind, count, at = _read_list_head(value.body, 0)
    found = []
    for _ in range(count):
        end = _skip(value.body, at, kind)
        found.append(ThriftValue(kind, value.body[at:end]))
        at = end
    return found


def read_struct(data: bytes) -> ThriftValue:
    """Return the struct at the start of ``data``."""
    return ThriftValue(_T_STRUCT, data[: _skip(data, 0, _T_STRUCT)])


def _read_fields(data: bytes, at: int) -> tuple[dict[int, ThriftValue], int]:
    fields: dict[int, ThriftValue] = {}
    number = 0
    while data[at] != 0:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if step:
            number += step
        else:
            raw, at = _read_varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        end = _skip(data, at, kind)
        fields[number] = ThriftValue(kind, data[at:end])
        at = end
    return fields, at + 1


def _read_list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the type of a list's values, their number, and the position of the first."""
    kind, count = data[at] & 15, data[at] >> 4
    at += 1
    if count == _SHORT_LIST:
        count, at = _read_varint(data, at)
    return kind, count, at


def _skip(data: bytes, at: int, kind: int) -> int:
    """Return the position after a value."""
    if kind in _WIDTHS:
        return at + _WIDTHS[kind]
    if kind == _T_STRUCT:
        return _read_fields(data, at)[1]
    if kind == _T_LIST:
        inner, count, at = _read_list_head(data, at)
        for _ in range(count):
            at = _skip(data, at, inner)
        return at
    number, at = _read_varint(data, at)
    return at + number if kind == _T_BINARY else at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


class PhysicalType(IntEnum):
    """The physical type of values in pages."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED = 7


class Repetition(IntEnum):
    """How often a node occurs in its parent."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


class Annotation(NamedTuple):
    """The meaning of values: the old converted type, and the logical type if there is one."""

    converted: int
    logical: ThriftValue | None
    digits: tuple[int, int] | None = None


def _named(number: int) -> ThriftValue:
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
class SchemaNode:
    """A column, or a group of nodes."""

    name: str
    repetition: Repetition | None
    """None for the root."""
    physical: PhysicalType | None = None
    annotation: Annotation | None = None
    width: int | None = None
    children: tuple[SchemaNode, ...] = ()

    @property
    def is_decimal(self) -> bool:
        """Whether the node is a decimal column."""
        return self.annotation is not None and self.annotation.digits is not None

    def iter_nodes(self) -> Iterator[SchemaNode]:
        """Yield this node and all nodes below it, in the order of a footer."""
        yield self
        for child in self.children:
            yield from child.iter_nodes()

    def iter_columns(
        self, before: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], SchemaNode]]:
        """Yield the path and the node of each column. Paths do not include the root."""
        for child in self.children:
            path = (*before, child.name)
            if child.physical is not None:
                yield path, child
            yield from child.iter_columns(path)

    def to_thrift(self) -> ThriftValue:
        """Return the list of all nodes for the footer."""
        return listed([node._element() for node in self.iter_nodes()])

    def _element(self) -> ThriftValue:
        annotation = self.annotation
        digits = None if annotation is None else annotation.digits
        return struct(
            {
                1: None if self.physical is None else i32(self.physical),
                2: None if self.width is None else i32(self.width),
                3: None if self.repetition is None else i32(self.repetition),
                4: text(self.name),
                5: i32(len(self.children)) if self.children else None,
                6: None if annotation is None else i32(annotation.converted),
                7: None if digits is None else i32(digits[1]),
                8: None if digits is None else i32(digits[0]),
                10: None if annotation is None else annotation.logical,
            }
        )


def make_schema(
    record: Schema,
    rules: ColumnRules,
    name: str,
    *,
    null_column: str | None = None,
    three_levels: bool | None = None,
) -> SchemaNode:
    """Return the schema of a file of these records. ``name`` is the name of its root.

    ``null_column`` adds a column that marks null records. Lists have as many levels as Confluent's
    sink would give them, unless ``three_levels`` is set.
    """
    if three_levels is None:
        three_levels = _has_optional_items(record)
    children = _NodeMaker(rules, three_levels).members(record)
    if record.optional:
        children = tuple(replace(child, repetition=Repetition.OPTIONAL) for child in children)
    if null_column is not None:
        children += (SchemaNode(null_column, Repetition.REQUIRED, PhysicalType.BOOLEAN),)
    return SchemaNode(name, None, children=children)


def _has_optional_items(schema: Schema) -> bool:
    """Return whether the items of any list may be null, by the check of Confluent's sink."""
    inner = [field.schema for field in schema.fields]
    inner += [] if schema.items is None else [schema.items]
    is_open = schema.kind is Kind.ARRAY and schema.items is not None and schema.items.optional
    return is_open or any(map(_has_optional_items, inner))


@dataclass(frozen=True, slots=True)
class _NodeMaker:
    """Makes the nodes of one file. All of its lists have two levels, or all have three."""

    rules: ColumnRules
    three_levels: bool

    def members(self, schema: Schema) -> tuple[SchemaNode, ...]:
        """Return the nodes of a struct's members."""
        if not schema.fields:
            return (SchemaNode(EMPTY, Repetition.OPTIONAL, PhysicalType.BOOLEAN),)
        return tuple(
            self.make(
                field.schema.as_optional() if is_union(schema) else field.schema,
                member_name(schema, place),
            )
            for place, field in enumerate(schema.fields)
        )

    def make(self, schema: Schema, name: str, *, repeated: bool = False) -> SchemaNode:
        """Return the node of a value."""
        repetition = Repetition.OPTIONAL if schema.optional else Repetition.REQUIRED
        repetition = Repetition.REPEATED if repeated else repetition
        match schema.kind:
            case Kind.STRUCT:
                return SchemaNode(name, repetition, children=self.members(schema))
            case Kind.ARRAY:
                assert schema.items is not None
                return self._list(schema.items, name, repetition)
            case Kind.MAP:
                return self._map(schema, name, repetition)
            case _:
                return self._column(schema, name, repetition)

    def _list(self, items: Schema, name: str, repetition: Repetition) -> SchemaNode:
        if self.three_levels:
            element = self.make(items, "element")
            inner = SchemaNode("list", Repetition.REPEATED, children=(element,))
        else:
            inner = self.make(items, "array", repeated=True)
        return SchemaNode(name, repetition, annotation=_LIST, children=(inner,))

    def _map(self, schema: Schema, name: str, repetition: Repetition) -> SchemaNode:
        assert schema.keys is not None and schema.items is not None
        fields = (Field("key", schema.keys), Field("value", schema.items))
        if not has_text_keys(schema, self.rules.optional_map_keys):
            return self._list(Schema(kind=Kind.STRUCT, fields=fields), name, repetition)
        key, value = self.members(
            Schema(
                kind=Kind.STRUCT, fields=(Field("key", schema.keys.as_optional(False)), fields[1])
            )
        )
        entry = SchemaNode(
            "key_value", Repetition.REPEATED, annotation=_MAP_KEY_VALUE, children=(key, value)
        )
        return SchemaNode(name, repetition, annotation=_MAP, children=(entry,))

    def _column(self, schema: Schema, name: str, repetition: Repetition) -> SchemaNode:
        if is_fixed(schema):
            return SchemaNode(name, repetition, PhysicalType.FIXED, width=fixed_size(schema))
        annotation = _LOGICAL.get((schema.kind, schema.name or ""))
        if schema.kind is Kind.STRING:
            annotation = _ENUM if self.rules.enhanced and is_enum(schema) else _STRING
        elif (digits := decimal_digits(schema)) is not None:
            precision, scale = digits
            logical = struct({5: struct({1: i32(scale), 2: i32(precision)})})
            annotation = Annotation(5, logical, digits)
        return SchemaNode(name, repetition, _PHYSICAL[schema.kind], annotation)
