"""Decode JSON values of a known Connect schema into Arrow columns, member by member; pure.

The rules are those of Connect's JsonConverter, but stricter. JsonConverter reads a text as 0 where
the schema expects a number, and truncates numbers to their type. This module reports such a row as
a fault. A missing or null value becomes the schema's default. Members that the struct does not
define are ignored.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.numba_setup import Int64s
from kafkeep.records.arrow import MAX_COLUMN_BYTES, bitmap, gather, number_array, view_binary
from kafkeep.records.json import leaf_kernels as kernels
from kafkeep.records.json.edit import FieldKind, FieldSpans, split_members, split_objects
from kafkeep.records.json.schema import decimal_scale, unscaled_bytes
from kafkeep.records.schema import DECIMAL, Kind, Schema, arrow_type

_INTS: Mapping[Kind, Any] = {
    Kind.INT8: np.int8,
    Kind.INT16: np.int16,
    Kind.INT32: np.int32,
    Kind.INT64: np.int64,
}
_NOT_FINITE = {b'"NaN"': math.nan, b'"Infinity"': math.inf, b'"-Infinity"': -math.inf}
_MAX_EXPONENT = 20


@dataclass(frozen=True, slots=True)
class JsonValues:
    """The same member of many rows, to be decoded into one column."""

    spans: FieldSpans
    schema: Schema
    rows: Int64s
    """The row of the whole column that each value belongs to."""
    where: str
    """The name of the values in error messages."""
    faults: dict[int, str]
    """Rows that do not fit the schema, with the reason. All members share this dict."""
    valid: pa.Buffer | None = None
    """The validity bitmap of the column."""

    def fault(self, which: NDArray[np.bool_] | slice, sentence: str) -> None:
        """Record that the rows of some values do not fit; a row keeps its first reason."""
        for row in self.rows[which].tolist():
            self.faults.setdefault(row, sentence)

    def raw(self, i: int) -> bytes:
        """Return the text of one value."""
        return self.spans.data[self.spans.starts[i] : self.spans.ends[i]].tobytes()

    def array(self, *buffers: NDArray[np.generic]) -> pa.Array:
        """Return a column over these buffers."""
        parts = [self.valid, *map(pa.py_buffer, buffers)]
        return pa.Array.from_buffers(arrow_type(self.schema), len(self.spans), parts)


def read_bools(values: JsonValues) -> pa.Array:
    return values.array(np.packbits(values.spans.kinds == FieldKind.TRUE, bitorder="little"))


def read_ints(values: JsonValues) -> pa.Array:
    """Return a column of integers; 1.0 and 1e3 count as integers."""
    spans, dtype = values.spans, _INTS[values.schema.kind]
    numbers, odd = np.zeros(len(spans), np.int64), np.zeros(len(spans), np.bool_)
    wrong = np.zeros(len(spans), dtype=np.bool_)
    if kernels.read_ints(spans.data, spans.starts, spans.ends, spans.kinds, numbers, odd):
        for i in np.flatnonzero(odd).tolist():
            number = _whole_number(values.raw(i))
            wrong[i] = number is None
            numbers[i] = number or 0
    limits = np.iinfo(dtype)
    wrong |= (numbers < limits.min) | (numbers > limits.max)
    values.fault(wrong, f"{values.where} does not fit into {values.schema.kind}")
    return values.array(numbers.astype(dtype))


def _whole_number(text: bytes) -> int | None:
    """Return a number as an int64, or None if it is not one."""
    try:
        number = Decimal(text.decode())
        if number.adjusted() > _MAX_EXPONENT or number != number.to_integral_value():
            return None
    except ArithmeticError:  # the exponent has more than 18 digits
        return None
    whole = int(number)
    return whole if -(1 << 63) <= whole < 1 << 63 else None


def read_floats(values: JsonValues) -> pa.Array:
    """Return a column of floats; NaN and infinities are strings in JSON."""
    spans = values.spans
    plain = spans.kinds == FieldKind.NUMBER
    texts = gather(spans.data, spans.starts, spans.ends, plain, pa.string())
    parsed = pc.cast(texts, pa.float64()).buffers()[1] or b""
    numbers = np.frombuffer(parsed, dtype=np.float64, count=len(spans)).copy()
    for i in np.flatnonzero(spans.kinds == FieldKind.STRING).tolist():
        number = _NOT_FINITE.get(values.raw(i))
        if number is None:
            sentence = f"{values.where} should be {values.schema.kind} but is string"
            values.fault(slice(i, i + 1), sentence)
        else:
            numbers[i] = number
    if values.schema.kind is Kind.FLOAT32:
        with np.errstate(over="ignore"):
            return values.array(numbers.astype(np.float32))
    return values.array(numbers)


def read_strings(values: JsonValues) -> pa.Array:
    """Return the strings as a column of the schema's type, string or bytes."""
    spans = values.spans
    text = spans.kinds == FieldKind.STRING
    size = int((spans.ends[text] - spans.starts[text]).sum())
    if size > MAX_COLUMN_BYTES:
        raise OverflowError(f"{size} bytes do not fit into one Arrow column")
    offsets, out = np.zeros(len(spans) + 1, np.int32), np.empty(size, np.uint8)
    parts = (spans.data, spans.starts, spans.ends, spans.kinds)
    if kernels.count_escapes(*parts):
        lone = np.zeros(len(spans), dtype=np.bool_)
        kernels.read_strings(*parts, offsets, out, lone)
        values.fault(lone, f"{values.where} has a lone surrogate, which is no character")
    else:
        kernels.copy_strings(*parts, offsets, out)
    return values.array(offsets, out)


def read_bytes(values: JsonValues) -> pa.Array:
    """Return a column of bytes; JSON holds them as base64, and Decimals also as numbers."""
    spans = values.spans
    if values.schema.name == DECIMAL and bool((spans.kinds == FieldKind.NUMBER).any()):
        return _read_decimals(values)
    view = view_binary(read_strings(replace(values, valid=None)))
    offsets, wrong = np.zeros(len(spans) + 1, np.int32), np.zeros(len(spans), np.bool_)
    out = np.empty(len(view.data), dtype=np.uint8)
    kernels.read_base64(view.data, view.offsets, kernels.SIX_BITS, offsets, out, wrong)
    values.fault(wrong, f"{values.where} is not base64")
    return values.array(offsets, out)


def _read_decimals(values: JsonValues) -> pa.Array:
    scale = decimal_scale(values.schema)
    parts = [b""] * len(values.spans)
    for i in np.flatnonzero(values.spans.kinds > FieldKind.NULL).tolist():
        part = _decimal(values.raw(i), scale)
        if part is None:
            sentence = f"{values.where} is no decimal with {scale} digits behind its point"
            values.fault(slice(i, i + 1), sentence)
        else:
            parts[i] = part
    offsets = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return values.array(offsets, np.frombuffer(b"".join(parts), dtype=np.uint8))


def _decimal(text: bytes, scale: int) -> bytes | None:
    """Return a number or a quoted base64 string as the bytes of a Decimal."""
    try:
        if not text.startswith(b'"'):
            return unscaled_bytes(Decimal(text.decode()), scale)
        return base64.b64decode(text[1:-1].replace(b"\\/", b"/"), validate=True)
    except (ArithmeticError, binascii.Error):
        return None


_WHOLE = "the value"


def decode_spans(spans: FieldSpans, schema: Schema) -> tuple[pa.Array, dict[int, str]]:
    """Return a column of the schema, and the reason for each row that does not fit it.

    Missing rows are null even if the schema is required, because they have no value. The column's
    value for a row with a fault is undefined.
    """
    there = spans.kinds != FieldKind.MISSING
    rows = np.arange(len(spans), dtype=np.int64)
    faults: dict[int, str] = {}
    if bool(there.all()):
        return _decode(JsonValues(spans, schema, rows, _WHOLE, faults)), faults
    array = _decode(JsonValues(spans.where(there), schema, rows[there], _WHOLE, faults))
    places = np.maximum(np.cumsum(there) - 1, 0).astype(np.int64)
    buffers = [bitmap(there), pa.py_buffer(places)]
    return array.take(pa.Array.from_buffers(pa.int64(), len(rows), buffers)), faults


def _decode(values: JsonValues, dead: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column.

    ``dead`` values belong to a struct that does not exist and are not checked.
    """
    values, dead = _without_misfits(values, dead)
    schema, empty = values.schema, values.spans.kinds <= FieldKind.NULL
    gaps = empty if dead is None else empty & ~dead
    some = bool(gaps.any())
    if some and schema.default is None and not schema.optional:
        values.fault(gaps, f"Invalid null value for required {schema.kind} field: {values.where}")
    if schema.optional:
        values = replace(values, valid=bitmap(~empty))
    array = _READ[schema.kind](values)
    if not some or schema.default is None:
        return array
    default = pa.array([_plain(schema, schema.default)], arrow_type(schema))
    indices = np.where(gaps, len(gaps), np.arange(len(gaps)))
    return pa.concat_arrays([array, default]).take(number_array(pa.int64(), indices))


def _plain(schema: Schema, value: Any) -> Any:
    """Return a default in the form Arrow takes: structs as dicts."""
    if value is None:
        return None
    match schema.kind:
        case Kind.STRUCT:
            pairs = zip(schema.fields, value, strict=True)
            return {field.name: _plain(field.schema, part) for field, part in pairs}
        case Kind.ARRAY if schema.items is not None:
            return [_plain(schema.items, part) for part in value]
        case Kind.MAP if schema.items is not None and schema.keys is not None:
            keys, items = schema.keys, schema.items
            return [(_plain(keys, key), _plain(items, part)) for key, part in value]
        case _:
            return value


def _without_misfits(
    values: JsonValues, dead: NDArray[np.bool_] | None
) -> tuple[JsonValues, NDArray[np.bool_] | None]:
    """Remove values whose JSON type does not match the schema, and record their rows as faults."""
    spans, schema = values.spans, values.schema
    wrong = spans.kinds > FieldKind.NULL
    for kind in _kinds_of(schema):
        wrong &= spans.kinds != kind
    if not wrong.any():
        return values, dead
    for kind in FieldKind:
        found = wrong & (spans.kinds == kind)
        values.fault(found, f"{values.where} should be {schema.kind} but is {kind.name.lower()}")
    kinds = np.where(wrong, FieldKind.MISSING, spans.kinds).astype(np.uint8)
    dead = wrong if dead is None else dead | wrong
    return replace(values, spans=replace(spans, kinds=kinds)), dead


def _kinds_of(schema: Schema) -> tuple[FieldKind, ...]:
    """Return the JSON types that a value of the schema can have."""
    if schema.kind is Kind.BYTES and schema.name == DECIMAL:
        return (FieldKind.NUMBER, FieldKind.STRING)
    if schema.kind is Kind.MAP and schema.keys is not None and schema.keys.kind is Kind.STRING:
        return (FieldKind.OBJECT, FieldKind.ARRAY)
    return _KINDS.get(schema.kind, (FieldKind.NUMBER,))


_KINDS: Mapping[Kind, tuple[FieldKind, ...]] = {
    Kind.BOOLEAN: (FieldKind.TRUE, FieldKind.FALSE),
    Kind.FLOAT32: (FieldKind.NUMBER, FieldKind.STRING),
    Kind.FLOAT64: (FieldKind.NUMBER, FieldKind.STRING),
    Kind.STRING: (FieldKind.STRING,),
    Kind.BYTES: (FieldKind.STRING,),
    Kind.ARRAY: (FieldKind.ARRAY,),
    Kind.MAP: (FieldKind.ARRAY,),
    Kind.STRUCT: (FieldKind.OBJECT,),
}


def _nested(
    values: JsonValues, offsets: Int64s | None, child: pa.Array | list[pa.Array]
) -> pa.Array:
    buffers = [values.valid]
    if offsets is not None:
        buffers.append(pa.py_buffer(offsets.astype(np.int32)))
    children = child if isinstance(child, list) else [child]
    kind = arrow_type(values.schema)
    return pa.Array.from_buffers(kind, len(values.spans), buffers, children=children)


def _read_arrays(values: JsonValues) -> pa.Array:
    schema = values.schema.items
    assert schema is not None
    offsets, _, members = split_members(values.spans)
    rows = np.repeat(values.rows, np.diff(offsets))
    items = JsonValues(members, schema, rows, f"{values.where}[]", values.faults)
    return _nested(values, offsets, _decode(items))


def _read_maps(values: JsonValues) -> pa.Array:
    """Read maps from objects, or from arrays of pairs if the keys are not texts."""
    schema = values.schema
    assert schema.keys is not None and schema.items is not None
    offsets, keys, items = split_members(values.spans)
    rows = np.repeat(values.rows, np.diff(offsets))
    members = replace(values, spans=items, schema=schema.items, rows=rows, valid=None)
    keys, items = _split_pairs(members, keys)
    required = schema.keys.as_optional(False)
    arrays = [
        _decode(replace(members, spans=keys, schema=required, where=f"a key of {values.where}")),
        _decode(replace(members, spans=items, where=f"{values.where}{{}}")),
    ]
    kind = arrow_type(schema)
    entries = pa.StructArray.from_arrays(arrays, fields=[kind.key_field, kind.item_field])
    return _nested(values, offsets, entries)


def _split_pairs(members: JsonValues, keys: FieldSpans) -> tuple[FieldSpans, FieldSpans]:
    """Return keys and values; a member without a key must be a [key, value] pair."""
    pairs = keys.kinds == FieldKind.MISSING
    if not pairs.any():
        return keys, members.spans
    offsets, _, parts = split_members(members.spans)
    good = pairs & (members.spans.kinds == FieldKind.ARRAY) & (np.diff(offsets) == 2)
    members.fault(pairs & ~good, f"{members.where} should be an array of [key, value] pairs")
    columns = []
    for side, old in enumerate((keys, members.spans)):
        places = offsets[:-1][good] + side
        new = replace(old, starts=old.starts.copy(), ends=old.ends.copy(), kinds=old.kinds.copy())
        new.starts[good], new.ends[good] = parts.starts[places], parts.ends[places]
        new.kinds[good] = parts.kinds[places]
        columns.append(new)
    return columns[0], columns[1]


def _read_structs(values: JsonValues) -> pa.Array:
    fields = values.schema.fields
    dead = values.spans.kinds != FieldKind.OBJECT
    within = "" if values.where == _WHOLE else f"{values.where}."
    members = split_objects(values.spans, [field.name for field in fields])
    children = [
        _decode(JsonValues(member, f.schema, values.rows, within + f.name, values.faults), dead)
        for f, member in zip(fields, members, strict=True)
    ]
    return _nested(values, None, children)


_READ: Mapping[Kind, Callable[[JsonValues], pa.Array]] = {
    Kind.INT8: read_ints,
    Kind.INT16: read_ints,
    Kind.INT32: read_ints,
    Kind.INT64: read_ints,
    Kind.FLOAT32: read_floats,
    Kind.FLOAT64: read_floats,
    Kind.BOOLEAN: read_bools,
    Kind.STRING: read_strings,
    Kind.BYTES: read_bytes,
    Kind.ARRAY: _read_arrays,
    Kind.MAP: _read_maps,
    Kind.STRUCT: _read_structs,
}
