"""The Cast transform, and Java's rules for converting numbers, decimals and dates; pure."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, Inexact, localcontext
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.transform_options import CastOptions
from kafkeep.records.calendar import DAY_MS
from kafkeep.records.json.edit import (
    decode_string,
    encode_string,
    find_member,
    join_object,
    kind_of,
    set_member,
)
from kafkeep.records.rows import Rows
from kafkeep.records.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Column,
    Field,
    Kind,
    Schema,
    arrow_type,
)
from kafkeep.records.transforms.date_format import DateFormat
from kafkeep.records.transforms.transform import (
    copy_basics,
    copy_fields,
    edit_texts,
    get_column,
    get_fields,
    members_of,
    require_struct,
    set_column,
    with_children,
)

INT_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
_LONG = (-(2**63), 2**63 - 1)
_INT = (-(2**31), 2**31 - 1)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(
    r"([+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?"
)
_HEX_FLOAT = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)


def narrow_integer(value: int, bits: int) -> int:
    """Return the lowest ``bits`` as a signed integer, as Java's integer casts do."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def float_to_integer(value: float, bits: int) -> int:
    """Truncate towards zero; clamp large values and turn NaN into 0, as Java does."""
    if math.isnan(value):
        return 0
    low, high = _LONG if bits == 64 else _INT
    whole = (high if value > 0 else low) if math.isinf(value) else int(value)
    return narrow_integer(min(max(whole, low), high), bits)


def parse_integer(text: str, bits: int) -> int:
    """Return the text as an integer of ``bits``; raise ValueError if it is none or too large."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    value = int(text)
    if narrow_integer(value, bits) != value:
        raise ValueError(text)
    return value


def parse_float(text: str) -> float:
    """Return a number in Java's syntax: ``1.5``, ``1e3``, ``2d``, ``Infinity``.

    Or raise ValueError.
    """
    bare = text.strip()
    if match := _FLOAT.fullmatch(bare):
        return float(match[1])
    if match := _HEX_FLOAT.fullmatch(bare):
        return float.fromhex(match[1])
    raise ValueError(text)


def to_float32(value: float) -> float:
    """Round to the nearest 32-bit float."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def format_double(value: float) -> str:
    """Return a double in Java's form, ``149.5`` or ``1.0E10``, with as few digits as possible."""
    return _format(value, repr(value))


def format_float(value: float) -> str:
    """Return a 32-bit float in Java's form, with as few digits as possible."""
    return _format(value, str(np.float32(value)))


def _format(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent if value else 1
    minus = "-" if sign else ""
    if value and not 1e-3 <= abs(value) < 1e7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def scale_of(schema: Schema) -> int:
    scale = schema.parameter("scale")
    if scale is None:
        raise RecordError("invalid Decimal schema: scale parameter not found")
    return int(scale)


def decode_decimal(data: bytes, scale: int) -> Decimal:
    """Return the number that the unscaled bytes represent."""
    unscaled = int.from_bytes(data, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def encode_decimal(value: Decimal, scale: int) -> bytes:
    """Return the unscaled bytes; raise RecordError if the scale would lose digits."""
    with localcontext(prec=max(len(value.as_tuple().digits) + abs(scale) + 1, 50)) as context:
        context.traps[Inexact] = True
        try:
            unscaled = int(value.quantize(Decimal(1).scaleb(-scale)).scaleb(scale))
        except Inexact as error:
            raise RecordError(f"{value} does not fit a decimal of scale {scale}") from error
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


def date_ms(schema: Schema, value: int) -> int | None:
    """Return a Date, Time or Timestamp in milliseconds, or None for other schemas."""
    if schema.name == DATE:
        return value * DAY_MS
    return value if schema.name in {TIME, TIMESTAMP} else None


_PURPOSE = "cast types"
_KINDS = {
    "int8": Kind.INT8,
    "int16": Kind.INT16,
    "int32": Kind.INT32,
    "int64": Kind.INT64,
    "float32": Kind.FLOAT32,
    "float64": Kind.FLOAT64,
    "boolean": Kind.BOOLEAN,
    "string": Kind.STRING,
}
_LOGICAL = frozenset({DATE, DECIMAL, TIME, TIMESTAMP})
_TIME_FORMAT = DateFormat.of("HH:mm:ss.SSS'Z'")
_DATE_FORMAT = DateFormat.of("yyyy-MM-dd")
_TIMESTAMP_FORMAT = DateFormat.of("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


@dataclass(frozen=True, slots=True)
class Cast:
    """Casts fields, or the whole key or value, to another type. Nulls are unchanged."""

    side: str
    options: CastOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the cast fields."""
        column = get_column(rows, self.side)
        if column.array.null_count == len(column):
            yield rows
        elif column.schema is None:
            yield set_column(rows, self.side, edit_texts(column, self._cast_text))
        else:
            yield set_column(rows, self.side, self._cast_typed(column))

    def _cast_typed(self, column: Column) -> Column:
        casts = {field: _KINDS[name] for field, name in self.options.spec}
        assert column.schema is not None
        if None in casts:
            return Column(*cast_array(column.schema, column.array, casts[None], named=True))
        schema = require_struct(column, _PURPOSE)
        children = get_fields(column, defaults=self.options.replace_null_with_default)
        fields = list(schema.fields)
        for i, field in enumerate(fields):
            if field.name in casts:
                new, children[i] = cast_array(field.schema, children[i], casts[field.name])
                fields[i] = Field(field.name, new)
        new = copy_fields(schema, fields).as_optional(schema.optional)
        return with_children(new, children, column.array)

    def _cast_text(self, text: bytes) -> bytes:
        casts = {field: _KINDS[name] for field, name in self.options.spec}
        if None in casts:
            return _cast_json(text, casts[None])
        members = members_of(text, _PURPOSE)
        for name, kind in casts.items():
            assert name is not None
            old = find_member(members, name)
            members = set_member(members, name, _cast_json(old or b"null", kind))
        return join_object(members)


def cast_array(
    schema: Schema, array: pa.Array, kind: Kind, *, named: bool = False
) -> tuple[Schema, pa.Array]:
    """Return schema and values as ``kind``; ``named`` keeps the schema's name and doc.

    The name of a logical type is never kept. A Timestamp, for example, becomes a plain number or
    text.
    """
    if schema.kind in {Kind.ARRAY, Kind.MAP, Kind.STRUCT}:
        raise _unsupported(schema.kind.name)
    keeps = named and schema.name not in _LOGICAL
    new = copy_basics(schema, kind) if keeps else Schema(kind=kind)
    default = None if schema.default is None else cast_value(schema, schema.default, kind)
    new = replace(new, optional=schema.optional, default=default)
    values = [
        None if value is None else cast_value(schema, value, kind) for value in array.to_pylist()
    ]
    return new, pa.array(values, type=arrow_type(new))


def cast_value(schema: Schema, value: Any, kind: Kind) -> Any:
    """Return a value other than null as ``kind``."""
    if kind is Kind.STRING:
        return to_text(schema, value)
    if schema.name == DECIMAL:
        value = decode_decimal(value, scale_of(schema))
    elif schema.kind is Kind.BYTES:
        raise RecordError("unexpected type in Cast transformation: class [B")
    return _cast(value, kind)


def _cast(value: Any, kind: Kind) -> Any:
    """Cast a bool, int, float, Decimal or str to a kind other than STRING."""
    try:
        if kind in INT_BITS:
            return _to_integer(value, INT_BITS[kind])
        if kind is Kind.BOOLEAN:
            return (
                value.lower() == "true" if isinstance(value, str) else _to_integer(value, 64) != 0
            )
        number = parse_float(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError) as error:
        raise RecordError(f"value ({value}) was out of range for requested data type") from error
    return to_float32(number) if kind is Kind.FLOAT32 else number


def _to_integer(value: Any, bits: int) -> int:
    if isinstance(value, str):
        return parse_integer(value, bits)
    if isinstance(value, float):
        return float_to_integer(value, bits)
    return narrow_integer(int(value), bits)


def to_text(schema: Schema, value: Any) -> str:
    """Return a scalar as text, in the form of Java's ``toString`` and of Connect."""
    ms = date_ms(schema, value)
    if ms is not None:
        return _format_date(ms)
    if schema.name == DECIMAL:
        return str(decode_decimal(value, scale_of(schema)))
    if schema.kind is Kind.FLOAT32:
        return format_float(value)
    return _plain_text(value)


def _plain_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return format_double(value)
    return str(value)


def _format_date(ms: int) -> str:
    if ms < DAY_MS:
        return _TIME_FORMAT.format(ms)
    return (_TIMESTAMP_FORMAT if ms % DAY_MS else _DATE_FORMAT).format(ms)


def _unsupported(name: str) -> RecordError:
    return RecordError(f"Cast transformation does not support casting from {name}")


def _cast_json(text: bytes, kind: Kind) -> bytes:
    what = kind_of(text)
    if what == "null":
        return b"null"
    if what in {"object", "array"}:
        raise _unsupported("MAP" if what == "object" else "ARRAY")
    value = _json_value(text, what, kind)
    if kind is Kind.STRING:
        return encode_string(_plain_text(value))
    value = _cast(value, kind)
    if isinstance(value, float):
        written = format_float(value) if kind is Kind.FLOAT32 else format_double(value)
        return written.encode() if written[-1].isdigit() else encode_string(written)
    return _plain_text(value).encode()


def _json_value(text: bytes, what: str, kind: Kind) -> Any:
    if what == "string":
        return decode_string(text)
    if what == "boolean":
        return text.strip() == b"true"
    if what == "float":
        return float(text)
    if kind is Kind.STRING:
        digits = text.strip().decode()
        return "0" if digits == "-0" else digits
    value = int(Decimal(text.decode().strip()))
    if kind in INT_BITS and narrow_integer(value, 64) != value:
        raise RecordError("an integer beyond 64 bits was out of range for requested data type")
    return value
