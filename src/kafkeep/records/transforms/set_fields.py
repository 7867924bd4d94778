"""The transforms InsertField and MaskField, which set values of fields; pure.

InsertField adds the topic, partition, offset, timestamp or a fixed text. MaskField replaces
sensitive values with zero, an empty text, or a fixed replacement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.transform_options import InsertFieldOptions, MaskFieldOptions
from kafkeep.records.arrow import constant_array, number_array, valid_flags
from kafkeep.records.json.append_fields import AppendedField, append_fields
from kafkeep.records.json.edit import (
    decode_string,
    encode_string,
    find_member,
    join_object,
    kind_of,
    set_member,
)
from kafkeep.records.rows import NO_TIMESTAMP, Rows
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Column, Field, Kind, Schema
from kafkeep.records.transforms.cast import (
    INT_BITS,
    encode_decimal,
    format_double,
    narrow_integer,
    scale_of,
)
from kafkeep.records.transforms.transform import (
    copy_fields,
    get_column,
    get_fields,
    is_json_null,
    java_class,
    json_class,
    members_of,
    require_struct,
    set_column,
    with_children,
)

_MASKING = "mask fields"

_JSON_MASKS = {
    "string": b'""',
    "integer": b"0",
    "float": b"0.0",
    "boolean": b"false",
    "array": b"[]",
    "object": b"{}",
    "null": b"null",
}
_DATES = frozenset({DATE, TIME, TIMESTAMP})


@dataclass(frozen=True, slots=True)
class MaskField:
    """Null fields stay null. A record without a value is an error, as in Connect."""

    side: str
    options: MaskFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with masked fields."""
        column = get_column(rows, self.side)
        masked = self._mask_texts(column) if column.schema is None else self._mask_typed(column)
        yield set_column(rows, self.side, masked)

    def _mask_typed(self, column: Column) -> Column:
        schema = require_struct(column, _MASKING, nulls=False)
        children = get_fields(column, defaults=self.options.replace_null_with_default)
        for i, field in enumerate(schema.fields):
            if field.name in self.options.fields and children[i].null_count < len(column):
                children[i] = _repeat(self._mask_of(field.schema), children[i])
        return with_children(schema, children, column.array)

    def _mask_texts(self, column: Column) -> Column:
        texts = []
        for text in column.array.to_pylist():
            members = members_of(text, _MASKING)
            for name in dict.fromkeys(self.options.fields):
                old = find_member(members, name)
                members = set_member(members, name, b"null" if old is None else self._mask(old))
            texts.append(join_object(members))
        return Column(None, pa.array(texts, type=pa.binary()))

    def _mask(self, text: bytes) -> bytes:
        kind, replacement = kind_of(text), self.options.replacement
        if replacement is None or kind == "null":
            return _JSON_MASKS[kind]
        if kind == "string":
            return encode_string(replacement)
        if kind == "integer":
            return str(narrow_integer(int(_number(replacement)), 64)).encode()
        if kind == "float":
            return format_double(float(_number(replacement))).encode()
        raise _no_replacement(json_class(text))

    def _mask_of(self, schema: Schema) -> Any:
        if schema.kind is Kind.STRUCT or (schema.kind is Kind.BYTES and schema.name != DECIMAL):
            raise RecordError(f"cannot mask value of type: class {java_class(schema)}")
        if self.options.replacement is None:
            return _zero(schema)
        return _replacement(schema, self.options.replacement)


def _zero(schema: Schema) -> Any:
    match schema.kind:
        case Kind.BOOLEAN:
            return False
        case Kind.STRING:
            return ""
        case Kind.BYTES:
            return b"\x00"
        case Kind.ARRAY | Kind.MAP:
            return []
    return 0


def _replacement(schema: Schema, text: str) -> Any:
    if schema.name in _DATES:
        raise _no_replacement(java_class(schema))
    if schema.name == DECIMAL:
        return encode_decimal(_number(text), scale_of(schema))
    match schema.kind:
        case Kind.STRING:
            return text
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64:
            return narrow_integer(int(_number(text)), INT_BITS[schema.kind])
        case Kind.FLOAT32 | Kind.FLOAT64:
            return float(_number(text))
    raise _no_replacement(java_class(schema))


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise RecordError(f"unable to convert {text} (class java.lang.String) to number")
    return number


def _no_replacement(name: str) -> RecordError:
    return RecordError(f"cannot mask value of type class {name} with custom replacement")


def _repeat(value: Any, like: pa.Array) -> pa.Array:
    """Return ``value`` where ``like`` is not null, and null elsewhere."""
    one = pa.array([value, None], type=like.type)
    return one.take(number_array(pa.int64(), np.where(valid_flags(like), 0, 1)))


_INSERTION = "field insertion"
_MOST_BYTES = 2**30
"""Larger columns are split before they grow, because an Arrow column is limited to 2 GiB."""

_SCHEMAS = {
    "topic": Schema(kind=Kind.STRING),
    "partition": Schema(kind=Kind.INT32),
    "offset": Schema(kind=Kind.INT64),
    "timestamp": Schema(kind=Kind.INT64, name=TIMESTAMP, version=1),
    "static": Schema(kind=Kind.STRING),
}


@dataclass(frozen=True, slots=True)
class Insertion:
    """A field to insert: its source in the record, and its name."""

    what: str
    name: str
    optional: bool
    text: str = ""
    """The value of a static field."""

    @property
    def field(self) -> Field:
        """The schema field that typed values get."""
        return Field(self.name, _SCHEMAS[self.what].as_optional(self.optional))


def parse_insertions(options: InsertFieldOptions) -> tuple[Insertion, ...]:
    """Return the fields to insert, in Connect's order; ``!`` makes a field required."""
    given = (
        ("topic", options.topic_field),
        ("partition", options.partition_field),
        ("offset", options.offset_field),
        ("timestamp", options.timestamp_field),
        ("static", options.static_field),
    )
    return tuple(
        Insertion(
            what,
            spec[:-1] if spec.endswith(("?", "!")) else spec,
            not spec.endswith("!"),
            options.static_value or "",
        )
        for what, spec in given
        if spec is not None
    )


@dataclass(frozen=True, slots=True)
class InsertField:
    """Appends fields. In a schemaless value, an existing field is overwritten in place."""

    side: str
    insertions: tuple[Insertion, ...]
    defaults: bool

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the inserted fields; nulls are unchanged."""
        column = get_column(rows, self.side)
        if column.array.null_count == len(column):
            yield rows
        elif column.array.nbytes > _MOST_BYTES and len(rows) > 1:
            half = len(rows) // 2
            yield from self.apply(rows.slice(0, half))
            yield from self.apply(rows.slice(half, len(rows)))
        elif column.schema is None:
            yield set_column(rows, self.side, self._insert_texts(rows, column))
        else:
            yield set_column(rows, self.side, self._insert_typed(rows, column))

    def joined(self, other: InsertField) -> InsertField | None:
        """Return one transform that does both in order, or None if that is not possible."""
        names = {insertion.name for insertion in self.insertions}
        if (
            self.side != other.side
            or self.defaults != other.defaults
            or any(insertion.name in names for insertion in other.insertions)
        ):
            return None
        return InsertField(self.side, self.insertions + other.insertions, self.defaults)

    def _insert_typed(self, rows: Rows, column: Column) -> Column:
        schema = require_struct(column, _INSERTION)
        new = copy_fields(schema, [*schema.fields, *(i.field for i in self.insertions)])
        children = get_fields(column, defaults=self.defaults)
        children += [_typed(insertion, rows, column) for insertion in self.insertions]
        return with_children(new, children, column.array)

    def _insert_texts(self, rows: Rows, column: Column) -> Column:
        tails = [_tail(insertion, rows) for insertion in self.insertions]
        spliced = append_fields(column.array, tails)
        return _insert_slowly(column, tails) if spliced is None else Column(None, spliced)


def _typed(insertion: Insertion, rows: Rows, column: Column) -> pa.Array:
    count = len(rows)
    match insertion.what:
        case "topic":
            return constant_array(pa.string(), rows.topic.encode(), count)
        case "static":
            return constant_array(pa.string(), insertion.text.encode(), count)
        case "partition":
            return number_array(pa.int32(), np.full(count, rows.partition, dtype=np.int32))
        case "offset":
            return number_array(pa.int64(), rows.offsets)
    valid = rows.timestamps != NO_TIMESTAMP
    if not insertion.optional and not (valid | ~valid_flags(column.array)).all():
        raise RecordError(
            f"invalid value: null used for required field {insertion.name}: the record has no time"
        )
    return number_array(pa.int64(), rows.timestamps, valid)


def _tail(insertion: Insertion, rows: Rows) -> AppendedField:
    key = encode_string(insertion.name)
    head = key + b":"
    match insertion.what:
        case "topic":
            return AppendedField(key[1:-1], head + encode_string(rows.topic))
        case "static":
            return AppendedField(key[1:-1], head + encode_string(insertion.text))
        case "partition":
            return AppendedField(key[1:-1], head + str(rows.partition).encode())
        case "offset":
            return AppendedField(key[1:-1], head, rows.offsets)
    return AppendedField(key[1:-1], head, rows.timestamps, rows.timestamps != NO_TIMESTAMP)


def _insert_slowly(column: Column, tails: Sequence[AppendedField]) -> Column:
    texts: list[bytes | None] = []
    for row, text in enumerate(column.array.to_pylist()):
        if text is None or is_json_null(text):
            texts.append(text)
            continue
        members = members_of(text, _INSERTION)
        for tail in tails:
            if tail.valid is not None and not tail.valid[row]:
                continue
            key = b'"' + tail.name + b'"'
            value = tail.head[len(key) + 1 :]
            if tail.numbers is not None:
                value = str(tail.numbers[row]).encode()
            members = set_member(members, decode_string(key), value)
        texts.append(join_object(members))
    return Column(None, pa.array(texts, type=pa.binary()))
