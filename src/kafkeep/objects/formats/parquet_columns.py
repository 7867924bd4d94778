"""Convert columns of Connect schemas to Parquet columns and back. Pure.

Columns hold the values that parquet-avro would write for their Avro schema. int8 and int16 are
int32. A map that is not an Avro map is an array of entries. A union has a column per member. A
Decimal is its unscaled number in bytes. ``parquet_footer`` gives the columns their names in the
file. Parquet has no struct without members, so such a struct gets a member ``_empty`` that is
always null.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.errors import DamagedError, RecordError
from kafkeep.numba_setup import Bytes, kernel
from kafkeep.records.arrow import number_array, view_data, view_offsets
from kafkeep.records.avro.schema import (
    DEFAULT_PRECISION,
    PRECISION,
    fixed_size,
    has_text_keys,
    is_fixed,
    is_union,
)
from kafkeep.records.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Kind,
    Schema,
    arrow_type,
    has_decimals,
)


@kernel
def widen_decimals(offsets: NDArray[np.int32], data: Bytes, out: Bytes) -> int:
    """Write each number as 16 bytes, little-endian. Return the first row that does not fit.

    Return -1 when all numbers fit. An empty value is the number 0.
    """
    for row in range(len(offsets) - 1):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        sign = np.uint8(0xFF) if end > start and data[start] >= 0x80 else np.uint8(0)
        for i in range(16):
            out[16 * row + i] = data[end - 1 - i] if end - i > start else sign
        for i in range(start, end - 16):
            if data[i] != sign:
                return row
        if end - start > 16 and (data[end - 16] >= 0x80) != (sign != 0):
            return row
    return -1


@kernel
def narrow_decimals(wide: Bytes, width: int, offsets: NDArray[np.int32], out: Bytes) -> None:
    """Write each little-endian number of ``width`` bytes in the minimal form that Connect uses."""
    at = np.int64(0)
    for row in range(len(offsets) - 1):
        offsets[row] = at
        size = width
        sign = np.uint8(0xFF) if wide[width * row + width - 1] >= 0x80 else np.uint8(0)
        while (
            size > 1
            and wide[width * row + size - 1] == sign
            and (wide[width * row + size - 2] >= 0x80) == (sign != 0)
        ):
            size -= 1
        for i in range(size):
            out[at + i] = wide[width * row + size - 1 - i]
        at += size
    offsets[len(offsets) - 1] = at


MAX_PRECISION = 76
"""The largest precision that readers support. Decimals with more digits are plain bytes."""
_SMALL_PRECISION = 38
_SMALL_BYTES, _LARGE_BYTES = 16, 32
_LOGICAL = {
    (Kind.INT64, TIMESTAMP): pa.timestamp("ms", "UTC"),
    (Kind.INT32, DATE): pa.date32(),
    (Kind.INT32, TIME): pa.time32("ms"),
}
_WIDER = {Kind.INT8: pa.int32(), Kind.INT16: pa.int32()}
EMPTY = "_empty"


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """The sink options that affect its Avro schemas and therefore its columns."""

    enhanced: bool = True
    optional_map_keys: bool = False


PLAIN_RULES = ColumnRules()


def decimal_digits(schema: Schema) -> tuple[int, int] | None:
    """Return the precision and scale of a decimal column, or None for other columns."""
    if schema.kind is not Kind.BYTES or schema.name != DECIMAL:
        return None
    precision = int(schema.parameter(PRECISION) or DEFAULT_PRECISION)
    scale = int(schema.parameter("scale") or 0)
    fits = 0 < precision <= MAX_PRECISION and 0 <= scale <= precision
    return (precision, scale) if fits else None


def member_name(schema: Schema, place: int) -> str:
    """Return the column name of a struct's member. Members of unions are numbered."""
    return f"member{place}" if is_union(schema) else schema.fields[place].name


@cache
def parquet_type(schema: Schema, rules: ColumnRules) -> pa.DataType:
    """Return the Parquet type of a column with this schema."""
    match schema.kind:
        case Kind.STRUCT:
            return _struct_type(schema, rules)
        case Kind.ARRAY:
            assert schema.items is not None
            item = parquet_type(schema.items, rules)
            return pa.list_(pa.field("element", item, schema.items.optional))
        case Kind.MAP:
            return _map_type(schema, rules)
        case Kind.BYTES if is_fixed(schema):
            return pa.binary(fixed_size(schema) or 0)
        case _:
            plain = _WIDER.get(schema.kind, arrow_type(schema))
            return _LOGICAL.get((schema.kind, schema.name or ""), plain)


def _struct_type(schema: Schema, rules: ColumnRules) -> pa.DataType:
    if not schema.fields:
        return pa.struct([pa.field(EMPTY, pa.bool_())])
    members = [
        pa.field(
            member_name(schema, place),
            parquet_type(field.schema, rules),
            field.schema.optional or is_union(schema),
        )
        for place, field in enumerate(schema.fields)
    ]
    return pa.struct(members)


def _map_type(schema: Schema, rules: ColumnRules) -> pa.DataType:
    assert schema.items is not None and schema.keys is not None
    keys = parquet_type(schema.keys, rules)
    value = pa.field("value", parquet_type(schema.items, rules), schema.items.optional)
    if has_text_keys(schema, rules.optional_map_keys):
        return pa.map_(keys, value)
    entry = pa.struct([pa.field("key", keys, schema.keys.optional), value])
    return pa.list_(pa.field("element", entry, nullable=False))


def to_parquet(array: pa.Array, schema: Schema, rules: ColumnRules) -> pa.Array:
    """Convert a column to its ``parquet_type``. Raise RecordError when a value does not fit.

    Arrow's writer requires that required members hold no nulls: see ``fill_required``.
    """
    kind = parquet_type(schema, rules)
    if (digits := decimal_digits(schema)) is not None:
        return _to_decimals(array, *digits)
    if kind == array.type and not has_decimals(schema):
        return array
    if schema.kind is Kind.STRUCT:
        children = [
            to_parquet(array.field(i), field.schema, rules) for i, field in enumerate(schema.fields)
        ]
        return _struct(array, kind, children or [pa.nulls(len(array), pa.bool_())])
    if schema.kind in (Kind.ARRAY, Kind.MAP):
        array = _alone(array) if has_decimals(schema) else array
        parts = [to_parquet(part, inner, rules) for part, inner in _parts(array, schema)]
        return _relist(array, kind, parts)
    return _to_simple(array, kind)


def fill_required(array: pa.Array) -> pa.Array:
    """Return a column whose required members are never null, even if their struct is null."""
    kind = array.type
    if pa.types.is_struct(kind):
        members = [array.field(i) for i in range(kind.num_fields)]
        filled = [_filled(member, field) for member, field in zip(members, kind, strict=True)]
        if all(new is old for new, old in zip(filled, members, strict=True)):
            return array
        return _struct(array, kind, filled)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = array.values
        values = fill_required(inner)
        return array if values is inner else _with_values(array, values, array.buffers()[0])
    return array


def _filled(array: pa.Array, field: pa.Field) -> pa.Array:
    array = fill_required(array)
    if field.nullable or not array.null_count:
        return array
    kind = array.type
    if pa.types.is_struct(kind):
        members = [array.field(i) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(kind))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _with_values(array, array.values, None)
    buffers = [None, *array.buffers()[1 : kind.num_buffers]]
    return pa.Array.from_buffers(kind, len(array), buffers, offset=array.offset)


def _with_values(array: pa.Array, values: pa.Array, valid: pa.Buffer | None) -> pa.Array:
    buffers = [valid, array.buffers()[1]]
    kind, offset = array.type, array.offset
    return pa.Array.from_buffers(kind, len(array), buffers, offset=offset, children=[values])


def _to_simple(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        return array.view(kind)
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise RecordError(f"a value is no {kind}: {error}") from error


def check_decimals(array: pa.Array, schema: Schema) -> None:
    """Raise RecordError when a decimal exceeds the precision of its column. Check only decimals."""
    if not has_decimals(schema):
        return
    if (digits := decimal_digits(schema)) is not None:
        _to_decimals(array, *digits)
    elif schema.kind is Kind.STRUCT:
        for i, field in enumerate(schema.fields):
            check_decimals(array.field(i), field.schema)
    elif schema.kind in (Kind.ARRAY, Kind.MAP):
        for part, inner in _parts(_alone(array), schema):
            check_decimals(part, inner)


def from_parquet(array: pa.Array, schema: Schema) -> pa.Array:
    """Convert a column of a Parquet file from any writer to its ``arrow_type``."""
    wanted = arrow_type(schema)
    if array.type == wanted:
        return array
    try:
        if pa.types.is_decimal(array.type):
            return _from_decimals(array)
        if schema.kind is Kind.STRUCT:
            children = [_member(array, schema, place) for place in range(len(schema.fields))]
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


def _member(array: pa.Array, schema: Schema, place: int) -> pa.Array:
    field = schema.fields[place]
    found = array.type.get_field_index(member_name(schema, place))
    if found < 0:
        found = array.type.get_field_index(field.name)
    if found < 0:
        raise DamagedError(f"a Parquet file has no column {field.name!r}, which its schema names")
    return from_parquet(array.field(found), field.schema)


def _struct(array: pa.Array, kind: pa.DataType, children: list[pa.Array]) -> pa.Array:
    mask = pc.is_null(array) if array.null_count else None
    if not children:
        validity = None if mask is None else pc.invert(mask).buffers()[1]
        return pa.Array.from_buffers(kind, len(array), [validity], children=[])
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _parts(array: pa.Array, schema: Schema) -> list[tuple[pa.Array, Schema]]:
    """Return all items of lists, or all keys and values of maps."""
    assert schema.items is not None
    if schema.kind is Kind.ARRAY:
        return [(array.values, schema.items)]
    assert schema.keys is not None
    if pa.types.is_map(array.type):
        return [(array.keys, schema.keys), (array.items, schema.items)]
    entries = array.values  # other writers use arrays of entries
    return [(entries.field("key"), schema.keys), (entries.field("value"), schema.items)]


def _alone(array: pa.Array) -> pa.Array:
    """Return the same lists without items outside their slice, which may be invalid."""
    return array.take(number_array(pa.int64(), np.arange(len(array), dtype=np.int64)))


def _relist(array: pa.Array, kind: pa.DataType, items: list[pa.Array]) -> pa.Array:
    """Return the same lists, including their slice, over other items."""
    child = items[0]
    if pa.types.is_map(kind):
        child = pa.StructArray.from_arrays(items, fields=[kind.key_field, kind.item_field])
    elif len(items) > 1:
        child = pa.StructArray.from_arrays(items, fields=list(kind.value_type))
    return pa.Array.from_buffers(
        kind,
        len(array),
        array.buffers()[:2],
        null_count=array.null_count,
        offset=array.offset,
        children=[child],
    )


def _to_decimals(array: pa.Array, precision: int, scale: int) -> pa.Array:
    """Return numbers in their minimal form. Raise RecordError when one has too many digits."""
    if precision <= _SMALL_PRECISION:
        return _narrow(_widen(array, pa.decimal128(precision, scale)))
    sizes = np.diff(view_offsets(array))
    limit = 10**precision
    # Numbers with fewer bytes than the limit cannot exceed it.
    if len(sizes) == 0 or (sizes.min() > 0 and sizes.max() <= (limit.bit_length() - 1) // 8):
        return array
    numbers = [
        None if n is None else int.from_bytes(n, "big", signed=True) for n in array.to_pylist()
    ]
    if any(number is not None and abs(number) >= limit for number in numbers):
        raise RecordError(f"a decimal has more digits than decimal({precision}, {scale}) holds")
    return pa.array([None if n is None else _unscaled_bytes(n) for n in numbers], pa.binary())


def _widen(array: pa.Array, kind: pa.DataType) -> pa.Array:
    out = np.zeros(_SMALL_BYTES * len(array), dtype=np.uint8)
    row = widen_decimals(view_offsets(array), view_data(array), out)
    if row >= 0:
        raise RecordError(f"a decimal has more digits than {kind} holds")
    found = pa.Array.from_buffers(kind, len(array), [_validity(array), pa.py_buffer(out)])
    try:
        found.validate(full=True)
    except pa.ArrowInvalid as error:
        raise RecordError(f"a decimal has more digits than {kind} holds: {error}") from error
    return found


def _narrow(array: pa.Array) -> pa.Array:
    """Return decimals as bytes in their minimal form."""
    width = _SMALL_BYTES if pa.types.is_decimal128(array.type) else _LARGE_BYTES
    wide = np.frombuffer(array.buffers()[1], dtype=np.uint8)[width * array.offset :]
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    out = np.empty(width * len(array), dtype=np.uint8)
    narrow_decimals(wide[: width * len(array)], width, offsets, out)
    buffers = [_validity(array), pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(array), buffers)


def _validity(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap, starting at bit 0."""
    return None if array.null_count == 0 else pc.is_valid(array).buffers()[1]


def _from_decimals(array: pa.Array) -> pa.Array:
    if pa.types.is_decimal128(array.type) or pa.types.is_decimal256(array.type):
        return _narrow(array)
    return pa.array([_unscaled(value) for value in array.to_pylist()], pa.binary())


def _unscaled(value: Any) -> bytes | None:
    if value is None:
        return None
    sign, digits, _ = value.as_tuple()
    return _unscaled_bytes(int("".join(map(str, digits))) * (-1 if sign else 1))


def _unscaled_bytes(number: int) -> bytes:
    size = ((number if number >= 0 else ~number).bit_length() // 8) + 1
    return number.to_bytes(size, "big", signed=True)
