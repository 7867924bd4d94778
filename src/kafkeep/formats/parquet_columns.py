"""Connect's columns as Parquet has them, with its logical types, and back.

A Decimal is a Parquet decimal where its precision is known and at most 38, else bytes. A struct
without members, which Parquet cannot hold, has a member ``_empty`` that is always null.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.data.arrow_parts import view_data, view_offsets
from kafkeep.data.avro_names import PRECISION
from kafkeep.data.json_arrow import number_array
from kafkeep.data.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Kind,
    Schema,
    arrow_type,
    has_decimals,
)
from kafkeep.errors import DamagedError, RecordError
from kafkeep.formats.parquet_kernels import narrow_decimals, widen_decimals

_LOGICAL = {
    (Kind.INT64, TIMESTAMP): pa.timestamp("ms", "UTC"),
    (Kind.INT32, DATE): pa.date32(),
    (Kind.INT32, TIME): pa.time32("ms"),
}
_EMPTY = pa.struct([pa.field("_empty", pa.bool_())])


def _decimal_type(schema: Schema) -> pa.DataType:
    precision = int(schema.parameter(PRECISION) or 0)
    scale = int(schema.parameter("scale") or 0)
    if 0 < precision <= 38 and 0 <= scale <= precision:
        return pa.decimal128(precision, scale)
    return pa.binary()


@cache
def parquet_type(schema: Schema) -> pa.DataType:
    """Return the type a column of this schema has in Parquet."""
    match schema.kind:
        case Kind.STRUCT if not schema.fields:
            return _EMPTY
        case Kind.STRUCT:
            return pa.struct(
                [pa.field(f.name, parquet_type(f.schema), f.schema.optional) for f in schema.fields]
            )
        case Kind.ARRAY:
            assert schema.items is not None
            return pa.list_(pa.field("element", parquet_type(schema.items), schema.items.optional))
        case Kind.MAP:
            assert schema.items is not None and schema.keys is not None
            value = pa.field("value", parquet_type(schema.items), schema.items.optional)
            return pa.map_(parquet_type(schema.keys), value)
        case Kind.BYTES if schema.name == DECIMAL:
            return _decimal_type(schema)
        case _:
            return _LOGICAL.get((schema.kind, schema.name or ""), arrow_type(schema))


def to_parquet(array: pa.Array, schema: Schema) -> pa.Array:
    """Return a column as ``parquet_type`` says; RecordError when a decimal does not fit."""
    kind = parquet_type(schema)
    if kind == array.type:
        return array
    if pa.types.is_decimal(kind):
        return _to_decimal(array, kind)
    if schema.kind is Kind.STRUCT:
        children = [
            to_parquet(array.field(i), field.schema) for i, field in enumerate(schema.fields)
        ]
        return _struct(array, kind, children or [pa.nulls(len(array), pa.bool_())])
    if schema.kind in (Kind.ARRAY, Kind.MAP):
        array = _alone(array) if has_decimals(schema) else array
        return _relist(array, kind, [to_parquet(*pair) for pair in _parts(array, schema)])
    return array.view(kind)


def check_decimals(array: pa.Array, schema: Schema) -> None:
    """RecordError when a decimal has more digits than its column holds. Visits decimals alone."""
    if not has_decimals(schema):
        return
    kind = parquet_type(schema)
    if pa.types.is_decimal(kind):
        _to_decimal(array, kind)
    elif schema.kind is Kind.STRUCT:
        for i, field in enumerate(schema.fields):
            check_decimals(array.field(i), field.schema)
    elif schema.kind in (Kind.ARRAY, Kind.MAP):
        for part, inner in _parts(_alone(array), schema):
            check_decimals(part, inner)


def from_parquet(array: pa.Array, schema: Schema) -> pa.Array:
    """Return a column read from Parquet, by whichever writer, as ``arrow_type`` says."""
    wanted = arrow_type(schema)
    if array.type == wanted:
        return array
    try:
        if pa.types.is_decimal(array.type):
            return _from_decimal(array)
        if schema.kind is Kind.STRUCT:
            children = [_member(array, f.name, f.schema) for f in schema.fields]
            return _struct(array, wanted, children)
        if schema.kind in (Kind.ARRAY, Kind.MAP):
            return _relist(array, wanted, [from_parquet(*pair) for pair in _parts(array, schema)])
        if pa.types.is_temporal(array.type):
            unit = _LOGICAL.get((schema.kind, schema.name or ""))
            return (array if unit is None else array.cast(unit)).view(wanted)
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError) as error:
        what = f"a Parquet column of {array.type} is not a {schema.kind}"
        raise DamagedError(f"{what}: {error}") from error


def _member(array: pa.Array, name: str, schema: Schema) -> pa.Array:
    place = array.type.get_field_index(name)
    if place < 0:
        raise DamagedError(f"a Parquet file has no column {name!r}, which its schema names")
    return from_parquet(array.field(place), schema)


def _struct(array: pa.Array, kind: pa.DataType, children: list[pa.Array]) -> pa.Array:
    mask = pc.is_null(array) if array.null_count else None
    if not children:
        validity = None if mask is None else pc.invert(mask).buffers()[1]
        return pa.Array.from_buffers(kind, len(array), [validity], children=[])
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _parts(array: pa.Array, schema: Schema) -> list[tuple[pa.Array, Schema]]:
    """Return the items of lists, or the keys and values of maps, all of them."""
    assert schema.items is not None
    if schema.kind is Kind.ARRAY:
        return [(array.values, schema.items)]
    assert schema.keys is not None
    if pa.types.is_map(array.type):
        return [(array.keys, schema.keys), (array.items, schema.items)]
    entries = array.values  # other writers have arrays of entries
    return [(entries.field("key"), schema.keys), (entries.field("value"), schema.items)]


def _alone(array: pa.Array) -> pa.Array:
    """Return the same lists without the items of others: those may be ones that do not fit."""
    return array.take(number_array(pa.int64(), np.arange(len(array), dtype=np.int64)))


def _relist(array: pa.Array, kind: pa.DataType, items: list[pa.Array]) -> pa.Array:
    """Return the same lists, slice included, over other items."""
    child = items[0]
    if pa.types.is_map(kind):
        child = pa.StructArray.from_arrays(items, fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(
        kind,
        len(array),
        array.buffers()[:2],
        null_count=array.null_count,
        offset=array.offset,
        children=[child],
    )


def _to_decimal(array: pa.Array, kind: pa.DataType) -> pa.Array:
    out = np.zeros(16 * len(array), dtype=np.uint8)
    row = widen_decimals(view_offsets(array), view_data(array), out)
    if row >= 0:
        raise RecordError(f"a decimal has more digits than {kind} holds")
    found = pa.Array.from_buffers(kind, len(array), [_validity(array), pa.py_buffer(out)])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise RecordError(f"a decimal has more digits than {kind} holds: {error}") from error
    return found


def _from_decimal(array: pa.Array) -> pa.Array:
    if not pa.types.is_decimal128(array.type):
        return pa.array([_unscaled(value) for value in array.to_pylist()], pa.binary())
    wide = np.frombuffer(array.buffers()[1], dtype=np.uint8)[16 * array.offset :]
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    out = np.empty(16 * len(array), dtype=np.uint8)
    narrow_decimals(wide[: 16 * len(array)], offsets, out)
    buffers = [_validity(array), pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(array), buffers)


def _validity(array: pa.Array) -> pa.Buffer | None:
    """Return which values are there, from bit 0 on."""
    return None if array.null_count == 0 else pc.is_valid(array).buffers()[1]


def _unscaled(value: Any) -> bytes | None:
    if value is None:
        return None
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = ((number if number >= 0 else ~number).bit_length() // 8) + 1
    return number.to_bytes(size, "big", signed=True)
