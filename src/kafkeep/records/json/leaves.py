"""JSON texts, numbers and truth values of a known Connect schema, read into Arrow columns."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.numba_setup import Int64s
from kafkeep.records.json import leaf_kernels as kernels
from kafkeep.records.json.arrow import MAX_COLUMN_BYTES, gather, view_binary
from kafkeep.records.json.edit import FieldKind, FieldSpans
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
    """JSON values on their way into one column: the same member of many rows."""

    spans: FieldSpans
    schema: Schema
    rows: Int64s
    """To which row of the whole each value belongs."""
    where: str
    """What to call them in a sentence."""
    faults: dict[int, str]
    """Rows that do not fit, and why; shared by all members."""
    valid: pa.Buffer | None = None
    """Arrow's validity of the column."""

    def fault(self, which: NDArray[np.bool_] | slice, sentence: str) -> None:
        """Note that the rows of some values do not fit; the first reason stays."""
        for row in self.rows[which].tolist():
            self.faults.setdefault(row, sentence)

    def raw(self, i: int) -> bytes:
        """Return the text of one value."""
        return self.spans.data[self.spans.starts[i] : self.spans.ends[i]].tobytes()

    def array(self, *buffers: NDArray[np.generic]) -> pa.Array:
        """Return a column made of its buffers."""
        parts = [self.valid, *map(pa.py_buffer, buffers)]
        return pa.Array.from_buffers(arrow_type(self.schema), len(self.spans), parts)


def read_bools(values: JsonValues) -> pa.Array:
    """Return a boolean column."""
    return values.array(np.packbits(values.spans.kinds == FieldKind.TRUE, bitorder="little"))


def read_ints(values: JsonValues) -> pa.Array:
    """Return a column of integers; 1.0 and 1e3 are integers too."""
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
    """Return a number as an int64, None when it is not one."""
    try:
        number = Decimal(text.decode())
        if number.adjusted() > _MAX_EXPONENT or number != number.to_integral_value():
            return None
    except ArithmeticError:  # an exponent of more than 18 digits
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
    """Return a column of strings (or, of a schema of bytes, what their strings are)."""
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
    """Return a column of bytes, which are base64 in JSON; Decimals may be numbers."""
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
    """Return a number, or base64 in quotes, as the bytes of a Decimal."""
    try:
        if not text.startswith(b'"'):
            return unscaled_bytes(Decimal(text.decode()), scale)
        return base64.b64decode(text[1:-1].replace(b"\\/", b"/"), validate=True)
    except (ArithmeticError, binascii.Error):
        return None
