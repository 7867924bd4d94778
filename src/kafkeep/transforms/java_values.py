"""Numbers, decimals and dates written and read as Java does it."""

from __future__ import annotations

import math
import re
from decimal import Decimal, Inexact, localcontext

import numpy as np

from kafkeep.data.calendar import DAY_MS
from kafkeep.data.schema import DATE, TIME, TIMESTAMP, Kind, Schema
from kafkeep.errors import RecordError

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
    """Keep the lowest ``bits``, as Java's casts between whole numbers do."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def float_to_integer(value: float, bits: int) -> int:
    """Cut off the fraction; what is too large becomes the nearest, NaN becomes 0, as in Java."""
    if math.isnan(value):
        return 0
    low, high = _LONG if bits == 64 else _INT
    whole = (high if value > 0 else low) if math.isinf(value) else int(value)
    return narrow_integer(min(max(whole, low), high), bits)


def parse_integer(text: str, bits: int) -> int:
    """Read a whole number of ``bits``; ValueError when it is none or too large."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    value = int(text)
    if narrow_integer(value, bits) != value:
        raise ValueError(text)
    return value


def parse_float(text: str) -> float:
    """Read a number as Java does: ``1.5``, ``1e3``, ``2d``, ``Infinity``; else ValueError."""
    bare = text.strip()
    if match := _FLOAT.fullmatch(bare):
        return float(match[1])
    if match := _HEX_FLOAT.fullmatch(bare):
        return float.fromhex(match[1])
    raise ValueError(text)


def to_float32(value: float) -> float:
    """Round to what 32 bits can hold."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def format_double(value: float) -> str:
    """Write a double: ``149.5``, ``1.0E10``, with as few digits as tell it from its neighbours."""
    return _format(value, repr(value))


def format_float(value: float) -> str:
    """Write a float of 32 bits likewise."""
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
    """Return the scale of a Decimal schema."""
    scale = schema.parameter("scale")
    if scale is None:
        raise RecordError("invalid Decimal schema: scale parameter not found")
    return int(scale)


def decode_decimal(data: bytes, scale: int) -> Decimal:
    """Return the number that unscaled bytes stand for."""
    unscaled = int.from_bytes(data, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def encode_decimal(value: Decimal, scale: int) -> bytes:
    """Return the unscaled bytes; RecordError when the number has more digits than that."""
    with localcontext(prec=max(len(value.as_tuple().digits) + abs(scale) + 1, 50)) as context:
        context.traps[Inexact] = True
        try:
            unscaled = int(value.quantize(Decimal(1).scaleb(-scale)).scaleb(scale))
        except Inexact as error:
            raise RecordError(f"{value} does not fit a decimal of scale {scale}") from error
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


def date_ms(schema: Schema, value: int) -> int | None:
    """Return the ms of a Date, Time or Timestamp; None when the schema is another."""
    if schema.name == DATE:
        return value * DAY_MS
    return value if schema.name in {TIME, TIMESTAMP} else None
