"""Encode columns with a schema as JSON texts, as Connect's JsonConverter does; pure.

Bytes are base64. Dates and times are numbers. A struct is an object in schema order. A map is an
object if its keys are texts, and an array of pairs otherwise. NaN and infinities are strings. A
null becomes the schema's default, or ``null``.
"""

# Compiled code has one integer type, but mypy distinguishes numpy's from Python's.
# mypy: disable-error-code="return-value"

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.numba_setup import Bytes, kernel, view_bytes
from kafkeep.options.sink.formats import DecimalText
from kafkeep.records.arrow import binary_of_buffers, gather, view_binary
from kafkeep.records.schema import DECIMAL, Kind, Schema, arrow_type

_MAX_BYTES = np.iinfo(np.int32).max
_QUOTE = 34
_COMMA = 44
_BACKSLASH = 92
_SHORT = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\"}
_HEX: Bytes = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_BASE64: Bytes = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)
_ESCAPES: Bytes = np.frombuffer(bytes(ord(_SHORT.get(i, "\0")) for i in range(256)), dtype=np.uint8)
"""The letter after the backslash, for bytes that have a short escape."""
_SIZES: Bytes = np.frombuffer(
    bytes(2 if i in _SHORT else 6 if i < 32 else 1 for i in range(256)), dtype=np.uint8
)


def json_texts(array: pa.Array, schema: Schema, decimals: DecimalText) -> pa.Array:
    """Return one JSON text for each value, as a binary array without nulls.

    Raise RecordError if a value has no JSON form.
    """
    texts = _texts_of_kind(array, schema, decimals)
    if not array.null_count:
        return texts
    if schema.default is None:
        missing = constant(b"null")
    else:
        default = pa.array([_plain(schema, schema.default)], arrow_type(schema))
        missing = json_texts(default, schema, decimals)[0]
    return pc.if_else(array.is_valid(), texts, missing)


def _texts_of_kind(  # noqa: PLR0911
    array: pa.Array, schema: Schema, decimals: DecimalText
) -> pa.Array:
    match schema.kind:
        case Kind.FLOAT32 | Kind.FLOAT64:
            return _floats(array)
        case Kind.STRING:
            return _filled(array, _string_sizes, _put_strings)
        case Kind.BYTES:
            if schema.name == DECIMAL and decimals is DecimalText.NUMERIC:
                return _decimals(array, int(schema.parameter("scale") or 0))
            return _filled(array, _base64_sizes, _put_base64)
        case Kind.ARRAY:
            return _lists(array, schema, decimals)
        case Kind.MAP:
            return _maps(array, schema, decimals)
        case Kind.STRUCT:
            return _structs(array, schema, decimals)
        case _:
            return array.cast(pa.string()).cast(pa.binary())


def constant(text: bytes) -> pa.Scalar:
    """Return the text as a binary scalar."""
    # pa.scalar imports pandas, which takes half a second.
    ends = np.array([0, len(text)], dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(text)])[0]


def _concat(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, constant(b""))


def _plain(schema: Schema, value: Any) -> Any:
    """Return a default in the form Arrow takes: structs as dicts."""
    match schema.kind:
        case Kind.STRUCT if value is not None:
            pairs = zip(schema.fields, value, strict=True)
            return {field.name: _plain(field.schema, part) for field, part in pairs}
        case Kind.ARRAY if value is not None and schema.items is not None:
            return [_plain(schema.items, part) for part in value]
        case Kind.MAP if value is not None and schema.items is not None:
            return [(key, _plain(schema.items, part)) for key, part in value]
        case _:
            return value


def _floats(array: pa.Array) -> pa.Array:
    if not len(array):
        return array.cast(pa.string()).cast(pa.binary())
    kind = np.float32 if array.type == pa.float32() else np.float64
    numbers = np.frombuffer(array.buffers()[1], dtype=kind)
    numbers = numbers[array.offset : array.offset + len(array)]
    listed = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)
    view = view_bytes(listed)
    marks = np.flatnonzero(view == _COMMA)
    texts = gather(view, np.append(0, marks) + 1, np.append(marks, len(view) - 1))
    if np.isfinite(numbers).all():
        return texts
    infinite = pc.if_else(
        pc.starts_with(array.cast(pa.string()), "-"), b'"-Infinity"', b'"Infinity"'
    )
    texts = pc.if_else(pc.is_inf(array), infinite, texts)
    return pc.if_else(pc.is_nan(array), constant(b'"NaN"'), texts)


def _decimals(array: pa.Array, scale: int) -> pa.Array:
    try:
        texts = [
            None
            if value is None
            else str(Decimal(f"{int.from_bytes(value, 'big', signed=True)}E{-scale}")).encode()
            for value in array.to_pylist()
        ]
    except (ValueError, ArithmeticError) as error:
        raise RecordError(f"a decimal cannot be written as a number: {error}") from error
    return pa.array(texts, pa.binary())


def _inner(array: pa.Array) -> tuple[NDArray[np.int32], int, int]:
    """Return the offsets of a list or map array, starting at 0, and the bounds of its items."""
    if not len(array):
        return np.zeros(1, dtype=np.int32), 0, 0
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    return offsets - offsets[0], int(offsets[0]), int(offsets[-1])


def _joined(offsets: NDArray[np.int32], items: pa.Array, around: tuple[bytes, bytes]) -> pa.Array:
    lists = pa.Array.from_buffers(
        pa.list_(pa.binary()), len(offsets) - 1, [None, pa.py_buffer(offsets)], children=[items]
    )
    inside = pc.binary_join(lists, constant(b","))
    return _concat(constant(around[0]), inside, constant(around[1]))


def _lists(array: pa.Array, schema: Schema, decimals: DecimalText) -> pa.Array:
    assert schema.items is not None
    offsets, start, end = _inner(array)
    items = json_texts(array.values.slice(start, end - start), schema.items, decimals)
    return _joined(offsets, items, (b"[", b"]"))


def _maps(array: pa.Array, schema: Schema, decimals: DecimalText) -> pa.Array:
    assert schema.keys is not None and schema.items is not None
    offsets, start, end = _inner(array)
    entries = array.values  # .keys would skip the entries under null maps
    keys = json_texts(entries.field(0).slice(start, end - start), schema.keys, decimals)
    values = json_texts(entries.field(1).slice(start, end - start), schema.items, decimals)
    if schema.keys.kind is Kind.STRING:
        return _joined(offsets, _concat(keys, constant(b":"), values), (b"{", b"}"))
    pairs = _concat(constant(b"["), keys, constant(b","), values, constant(b"]"))
    return _joined(offsets, pairs, (b"[", b"]"))


def _structs(array: pa.Array, schema: Schema, decimals: DecimalText) -> pa.Array:
    if not schema.fields:
        ends = np.arange(0, 2 * len(array) + 1, 2, dtype=np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"{}" * len(array))]
        return pa.Array.from_buffers(pa.binary(), len(array), buffers)
    parts: list[Any] = []
    for i, field in enumerate(schema.fields):
        before = b"," if i else b"{"
        parts.append(constant(before + orjson.dumps(field.name) + b":"))
        parts.append(json_texts(array.field(i), field.schema, decimals))
    return _concat(*parts, constant(b"}"))


def _filled(array: pa.Array, sizes: Any, put: Any) -> pa.Array:
    """Return an array that the kernel ``sizes`` measures and the kernel ``put`` writes."""
    ends: NDArray[np.int32] = np.zeros(len(array) + 1, dtype=np.int32)
    if not len(array):
        return binary_of_buffers(np.empty(0, dtype=np.uint8), ends, None)
    view = view_binary(array)
    total = sizes(view.offsets, view.data, ends)
    if total < 0:
        raise ValueError("an Arrow array points outside of its bytes")
    if total > _MAX_BYTES:
        raise RecordError(f"a value of {total} bytes as JSON is more than an object's row can hold")
    out: Bytes = np.empty(total, dtype=np.uint8)
    put(view.offsets, view.data, ends, out)
    return binary_of_buffers(out, ends, None)


@kernel
def _string_sizes(offsets: NDArray[np.int32], data: Bytes, ends: NDArray[np.int32]) -> int:
    total = np.int64(0)
    for i in range(len(offsets) - 1):
        start, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if start < 0 or end < start or end > len(data):
            return np.int64(-1)
        total += 2
        for j in range(start, end):
            total += np.int64(_SIZES[data[j]])
        ends[i + 1] = np.int32(total)
    return total


@kernel
def _put_strings(
    offsets: NDArray[np.int32], data: Bytes, ends: NDArray[np.int32], out: Bytes
) -> None:
    for i in range(len(offsets) - 1):
        at = np.int64(ends[i])
        out[at] = _QUOTE
        at += 1
        for j in range(np.int64(offsets[i]), np.int64(offsets[i + 1])):
            byte = data[j]
            if _SIZES[byte] == 1:
                out[at] = byte
                at += 1
                continue
            out[at] = _BACKSLASH
            if _SIZES[byte] == 2:
                out[at + 1] = _ESCAPES[byte]
                at += 2
                continue
            out[at + 1] = 117  # \u00xx
            out[at + 2] = 48
            out[at + 3] = 48
            out[at + 4] = _HEX[byte >> 4]
            out[at + 5] = _HEX[byte & 15]
            at += 6
        out[at] = _QUOTE


@kernel
def _base64_sizes(offsets: NDArray[np.int32], data: Bytes, ends: NDArray[np.int32]) -> int:
    total = np.int64(0)
    for i in range(len(offsets) - 1):
        start, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if start < 0 or end < start or end > len(data):
            return np.int64(-1)
        total += 2 + (end - start + 2) // 3 * 4
        ends[i + 1] = np.int32(total)
    return total


@kernel
def _put_base64(
    offsets: NDArray[np.int32], data: Bytes, ends: NDArray[np.int32], out: Bytes
) -> None:
    for i in range(len(offsets) - 1):
        at = np.int64(ends[i])
        out[at] = _QUOTE
        at += 1
        end = np.int64(offsets[i + 1])
        for j in range(np.int64(offsets[i]), end, 3):
            bits = np.int64(data[j]) << 16
            if j + 1 < end:
                bits |= np.int64(data[j + 1]) << 8
            if j + 2 < end:
                bits |= np.int64(data[j + 2])
            out[at] = _BASE64[bits >> 18]
            out[at + 1] = _BASE64[(bits >> 12) & 63]
            out[at + 2] = _BASE64[(bits >> 6) & 63] if j + 1 < end else 61
            out[at + 3] = _BASE64[bits & 63] if j + 2 < end else 61
            at += 4
        out[at] = _QUOTE
