"""Fields of keys and values, and headers, as texts: what stands behind ``field=`` in a path."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.data.calendar import date_of
from kafkeep.data.column import Column
from kafkeep.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Kind, Schema
from kafkeep.partition.arrow import binary_scalar, codes_of, true_rows
from kafkeep.partition.distinct import Int64s
from kafkeep.partition.joda import PathFormat
from kafkeep.partition.json_fields import read_json
from kafkeep.partition.problem import RowProblem
from kafkeep.partition.zone import Zone

_TIMESTAMP = PathFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", Zone("UTC"))
_LOGICAL = {
    DATE: Kind.INT32,
    TIME: Kind.INT32,
    TIMESTAMP: Kind.INT64,
    DECIMAL: Kind.BYTES,
}
_TIME = PathFormat("HH:mm:ss.SSS", Zone("UTC"))


@dataclass(frozen=True, slots=True)
class Texts:
    """The text of row ``i`` is ``texts[codes[i]]``; None is null."""

    codes: Int64s
    texts: list[str | None]


def read_column(column: Column, path: str) -> Texts:
    """Return the texts of a field, nested with dots; of the whole value when the path is empty.

    A record that is null has null fields. RowProblem when a record lacks the field, or when it
    has no text.
    """
    names = tuple(path.split(".")) if path else ()
    if column.schema is None:
        return Texts(*read_json(column.array, names))
    schema, leaf = read_typed(column, names)
    return _read_leaf(schema, leaf)


def read_typed(column: Column, names: tuple[str, ...]) -> tuple[Schema, pa.Array]:
    """Return the schema and the array of a field; where the record is null, so is the field."""
    assert column.schema is not None
    steps, schema = find_steps(column.schema, names)
    if steps is not None:
        return schema, pc.struct_field(column.array, steps) if steps else column.array
    rows = true_rows(column.array.is_valid())
    if len(rows):
        why, hint = f"the field {'.'.join(names)!r} does not exist", None
        if column.schema.kind is not Kind.STRUCT:
            why += f": the converter gives {column.schema.kind.value}, which has no fields"
            hint = "Choose a converter that reads fields, such as JsonConverter."
        raise RowProblem(int(rows[0]), why, hint)
    return Schema(kind=Kind.STRING, optional=True), pa.nulls(len(column), pa.string())


def find_steps(schema: Schema, names: tuple[str, ...]) -> tuple[list[int] | None, Schema]:
    """Return the way to a nested field as positions, and its schema; None when there is none.

    A field that has dots in its own name, as Flatten makes them, is found too.
    """
    if not names:
        return [], schema
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        for position, field in enumerate(schema.fields):
            if field.name == name:
                steps, found = find_steps(field.schema, names[count:])
                if steps is not None:
                    return [position, *steps], found
    return None, schema


def read_header(headers: pa.ListArray, name: str) -> Texts:
    """Return the last header of that name of each record; null when it has none."""
    lists = np.frombuffer(headers.offsets.buffers()[1], np.int32)
    lists = lists[headers.offsets.offset :][: len(headers) + 1]
    inner = headers.values
    hits = true_rows(pc.equal(inner.field("key"), binary_scalar(name.encode())))
    hits = hits[(hits >= lists[0]) & (hits < lists[-1])]
    rows = np.searchsorted(lists, hits, side="right") - 1
    last = np.full(len(headers), -1, np.int64)
    # Of several positions for a row, the last one stays.
    last[rows] = hits
    has = last >= 0
    places = pa.Array.from_buffers(pa.int64(), int(has.sum()), [None, pa.py_buffer(last[has])])
    try:
        found = _read_leaf(Schema(kind=Kind.BYTES), inner.field("value").take(places))
    except RowProblem as problem:
        row = int(np.flatnonzero(has)[problem.row])
        raise RowProblem(row, f"header {name!r}: {problem.why}") from problem
    if has.all():
        return found
    codes = np.full(len(headers), len(found.texts), np.int64)
    codes[has] = found.codes
    return Texts(codes, [*found.texts, None])


def _read_leaf(schema: Schema, leaf: pa.Array) -> Texts:
    if schema.kind in (Kind.STRUCT, Kind.ARRAY, Kind.MAP):
        rows = true_rows(leaf.is_valid())
        if len(rows):
            raise RowProblem(int(rows[0]), f"a field of type {schema.kind} is no part of a path")
        return Texts(np.zeros(len(leaf), np.int64), [None])
    encoded = pc.dictionary_encode(leaf, null_encoding="encode")
    codes = codes_of(encoded)
    texts: list[str | None] = []
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            texts.append(None if value is None else _write(schema, value))
        except UnicodeDecodeError as error:
            row = int(np.argmax(codes == place))
            raise RowProblem(row, "bytes that are not UTF-8 are no part of a path") from error
    return Texts(codes, texts)


def _write(schema: Schema, value: Any) -> str:
    if schema.name in _LOGICAL and schema.kind is _LOGICAL[schema.name]:
        return _write_logical(schema, value)
    match schema.kind:
        case Kind.BYTES:
            return bytes(value).decode()
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.FLOAT32:
            return str(np.float32(value))
    return str(value)


def _write_logical(schema: Schema, value: Any) -> str:
    """Write dates and times as ISO-8601, decimals with all of their digits."""
    if schema.name == DATE:
        return _write_date(value)
    if schema.name == DECIMAL:
        unscaled = int.from_bytes(value, "big", signed=True)
        return f"{Decimal(unscaled).scaleb(-int(schema.parameter('scale') or 0)):f}"
    return (_TIME if schema.name == TIME else _TIMESTAMP).write(value)


def _write_date(days: int) -> str:
    year, month, day = date_of(days)
    return f"{year:04}-{month:02}-{day:02}"
