"""The transforms InsertHeader, DropHeaders and HeaderFrom; pure.

Headers are bytes, have an order, and can repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import RecordError
from kafkeep.options.sink.transform_options import (
    DropHeadersOptions,
    HeaderFromOptions,
    InsertHeaderOptions,
)
from kafkeep.records.arrow import (
    bool_flags,
    constant_array,
    list_array,
    number_array,
    view_offsets,
)
from kafkeep.records.json.edit import decode_string, find_member, join_object, kind_of
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import DECIMAL, Column, Kind, Schema
from kafkeep.records.transforms.cast import to_text
from kafkeep.records.transforms.transform import (
    copy_fields,
    get_column,
    get_fields,
    members_of,
    require_struct,
    set_column,
    with_children,
)

_PARTS = frozenset({Kind.ARRAY, Kind.MAP, Kind.STRUCT})


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """The literal is written unchanged, in UTF-8."""

    options: InsertHeaderOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the header added to each record."""
        value = constant_array(pa.binary(), self.options.value_literal.encode(), len(rows))
        yield replace(rows, headers=append_header(rows.headers, self.options.header, value))


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Drops all headers with the given names."""

    options: DropHeadersOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the remaining headers."""
        gone = np.zeros(len(rows.headers.values), dtype=np.bool_)
        for name in self.options.headers:
            gone |= header_matches(rows.headers, name)
        old = view_offsets(rows.headers)
        before = np.concatenate([[0], np.cumsum(~gone)])[old]
        places = np.flatnonzero(~gone[old[0] : old[-1]]) + old[0]
        kept = rows.headers.values.take(number_array(pa.int64(), places))
        yield replace(rows, headers=list_array(HEADERS_TYPE, before - before[0], kept))


@dataclass(frozen=True, slots=True)
class HeaderFrom:
    """Texts and bytes are unchanged, nested values become JSON, and other values become text."""

    side: str
    options: HeaderFromOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the new headers; moved fields are removed from the key or value."""
        column = get_column(rows, self.side)
        take = self._from_texts if column.schema is None else self._from_typed
        values, rest = take(column, f"header {self.options.operation}")
        headers = rows.headers
        for name, value in zip(self.options.headers, values, strict=True):
            headers = append_header(headers, name, value)
        yield set_column(replace(rows, headers=headers), self.side, rest)

    def _from_typed(self, column: Column, purpose: str) -> tuple[list[pa.Array], Column]:
        schema = require_struct(column, purpose, nulls=False)
        names = [field.name for field in schema.fields]
        children = get_fields(column, defaults=self.options.replace_null_with_default)
        for name in self.options.fields:
            if name not in names:
                raise RecordError(f"field does not exist: {name}")
        places = [names.index(name) for name in self.options.fields]
        values = [header_bytes(schema.fields[i].schema, children[i]) for i in places]
        if self.options.operation == "copy":
            return values, column
        kept = [i for i in range(len(names)) if i not in places]
        new = copy_fields(schema, [schema.fields[i] for i in kept])
        return values, with_children(new, [children[i] for i in kept], column.array)

    def _from_texts(self, column: Column, purpose: str) -> tuple[list[pa.Array], Column]:
        values: list[list[bytes | None]] = [[] for _ in self.options.fields]
        rest = []
        for text in column.array.to_pylist():
            members = members_of(text, purpose)
            for name, collected in zip(self.options.fields, values, strict=True):
                collected.append(_header_of(find_member(members, name)))
            rest.append(join_object(m for m in members if m.name not in self.options.fields))
        arrays = [pa.array(collected, type=pa.binary()) for collected in values]
        if self.options.operation == "copy":
            return arrays, column
        return arrays, Column(None, pa.array(rest, type=pa.binary()))


def append_header(headers: pa.ListArray, name: str, values: pa.BinaryArray) -> pa.ListArray:
    """Append a header to each record."""
    count = len(headers)
    old = view_offsets(headers).astype(np.int64)
    new = old - old[0] + np.arange(count + 1)
    added = pa.StructArray.from_arrays(
        [constant_array(pa.binary(), name.encode(), count), values],
        fields=list(HEADERS_TYPE.value_type),
    )
    is_new = np.zeros(int(new[-1]), dtype=np.bool_)
    is_new[new[1:] - 1] = True
    places = np.empty(len(is_new), dtype=np.int64)
    places[~is_new] = np.arange(old[0], old[-1])
    places[is_new] = len(headers.values) + np.arange(count)
    merged = pa.concat_arrays([headers.values, added])
    return list_array(HEADERS_TYPE, new, merged.take(number_array(pa.int64(), places)))


def header_matches(headers: pa.ListArray, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each header in ``headers.values`` whether it has this name."""
    keys = headers.values.field(0)
    return bool_flags(pc.equal(keys, pa.scalar(name.encode(), pa.binary())))


def _header_of(text: bytes | None) -> bytes | None:
    kind = "null" if text is None else kind_of(text)
    if text is None or kind == "null":
        return None
    return decode_string(text).encode("utf-8", "surrogatepass") if kind == "string" else text


def header_bytes(schema: Schema, array: pa.Array) -> pa.BinaryArray:
    """Return typed values as header bytes."""
    if schema.kind is Kind.BYTES and schema.name != DECIMAL:
        return array
    values = [None if value is None else _bytes(schema, value) for value in array.to_pylist()]
    return pa.array(values, type=pa.binary())


def _bytes(schema: Schema, value: Any) -> bytes:
    if schema.kind in _PARTS:
        return orjson.dumps(_to_json(schema, value))
    return to_text(schema, value).encode()


def _to_json(schema: Schema, value: Any) -> Any:
    """Return a value in the form JSON takes; bytes, decimals and dates become texts."""
    if value is None:
        return None
    match schema.kind:
        case Kind.ARRAY:
            assert schema.items is not None
            return [_to_json(schema.items, item) for item in value]
        case Kind.MAP:
            assert schema.keys is not None and schema.items is not None
            pairs = [(_to_json(schema.keys, k), _to_json(schema.items, v)) for k, v in value]
            return dict(pairs) if schema.keys.kind is Kind.STRING else pairs
        case Kind.STRUCT:
            return {f.name: _to_json(f.schema, value[f.name]) for f in schema.fields}
        case Kind.BYTES:
            return to_text(schema, value)
    return value if schema.name is None else to_text(schema, value)
