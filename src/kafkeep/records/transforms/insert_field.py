"""The transform InsertField: add the topic, partition, offset, timestamp or a fixed text; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.transform_options import InsertFieldOptions
from kafkeep.records.arrow import constant_array, number_array, valid_flags
from kafkeep.records.json.edit import (
    decode_string,
    encode_string,
    join_object,
    set_member,
)
from kafkeep.records.json.splice import AppendedField, append_fields
from kafkeep.records.rows import NO_TIMESTAMP, Rows
from kafkeep.records.schema import TIMESTAMP, Column, Field, Kind, Schema
from kafkeep.records.transforms.transform import (
    copy_fields,
    get_column,
    get_fields,
    is_json_null,
    members_of,
    require_struct,
    set_column,
    with_children,
)

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
