"""StringConverter, ByteArrayConverter, and the converters of numbers such as LongConverter; pure.

Numbers are big-endian and have a fixed width, as in Java.
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.records.arrow import binary_array
from kafkeep.records.converters.converter import ConvertedRange
from kafkeep.records.schema import OPTIONAL_BYTES, OPTIONAL_STRING, Column, Kind, Schema, arrow_type

_FORMS = {
    Kind.INT16: ">i2",
    Kind.INT32: ">i4",
    Kind.INT64: ">i8",
    Kind.FLOAT32: ">f4",
    Kind.FLOAT64: ">f8",
    Kind.BOOLEAN: "u1",
}


class NumberConverter:
    """Converts numbers of one width. A value of another width is an error."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.form = np.dtype(_FORMS[kind])
        self.schema = Schema(kind=kind, optional=True)

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield a column for each run of valid values, and an error for each invalid value."""
        rows = values.to_pylist()
        bad = [i for i, value in enumerate(rows) if not self._fits(value)]
        for before, after in pairwise([-1, *bad, len(rows)]):
            if before >= 0:
                yield ConvertedRange(before, before + 1, self._error(rows[before]))
            if after > before + 1:
                array = self._numbers(rows[before + 1 : after])
                yield ConvertedRange(before + 1, after, Column(self.schema, array))

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the numbers in Java's format; raise RecordError if the column has another type."""
        if column.schema is None or column.schema.kind is not self.kind:
            kind = "without a schema" if column.schema is None else column.schema.kind
            raise RecordError(f"a value {kind} is not of type {self.kind}")
        encoded = [
            None if value is None else np.array(value, self.form).tobytes()
            for value in column.array.to_pylist()
        ]
        return binary_array(encoded)

    def _fits(self, value: bytes | None) -> bool:
        if value is None:
            return True
        if self.kind is Kind.BOOLEAN:
            return value in (b"\x00", b"\x01")
        return len(value) == self.form.itemsize

    def _error(self, value: bytes) -> RecordError:
        if self.kind is Kind.BOOLEAN:
            return RecordError(f"{value[:8].hex()} is not a boolean: one byte, 0 or 1")
        width = self.form.itemsize
        return RecordError(f"{len(value)} bytes are not of type {self.kind}, which has {width}")

    def _numbers(self, rows: list[bytes | None]) -> pa.Array:
        blank = bytes(self.form.itemsize)
        joined = b"".join(blank if value is None else value for value in rows)
        numbers: NDArray[np.generic] = np.frombuffer(joined, self.form)
        if self.kind is Kind.BOOLEAN:
            data: NDArray[np.generic] = np.packbits(numbers.astype(bool), bitorder="little")
        else:
            data = numbers.astype(self.form.newbyteorder("="))
        valid = np.packbits([value is not None for value in rows], bitorder="little")
        buffers = [pa.py_buffer(valid), pa.py_buffer(data)]
        return pa.Array.from_buffers(arrow_type(self.schema), len(rows), buffers)


class RawConverter:
    """Passes bytes through unchanged. Never fails."""

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield all values as one column of optional bytes, without copying."""
        if len(values):
            yield ConvertedRange(0, len(values), Column(OPTIONAL_BYTES, values))

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the bytes, or the JSON texts of a schemaless column."""
        if column.schema is not None and column.schema.kind is not Kind.BYTES:
            raise RecordError(f"a value of type {column.schema.kind} is not bytes")
        return column.array


_MARKS = {"utf-16": (BOM_UTF16_BE, BOM_UTF16_LE), "utf-32": (BOM_UTF32_BE, BOM_UTF32_LE)}
"""Encodings with a byte order mark. Without a mark, they are big-endian."""


class StringConverter:
    """Texts in one encoding. Invalid bytes become U+FFFD, as in Connect. Decoding never fails."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def convert(self, values: pa.BinaryArray) -> Iterator[ConvertedRange]:
        """Yield all values as one column of optional strings; valid UTF-8 is not copied."""
        if len(values):
            yield ConvertedRange(
                0, len(values), Column(OPTIONAL_STRING, text_array(values, self.encoding))
            )

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the encoded texts; numbers and booleans have Java's text form."""
        texts = _as_texts(column)
        if self.encoding == "utf-8":
            return texts.cast(pa.binary())
        encoded = [
            None if text is None else encode_text(text, self.encoding) for text in texts.to_pylist()
        ]
        return binary_array(encoded)


def text_array(values: pa.BinaryArray, encoding: str = "utf-8") -> pa.StringArray:
    """Return bytes as texts; valid UTF-8 is not copied."""
    if encoding == "utf-8":
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    texts = [
        None if value is None else decode_text(value, encoding) for value in values.to_pylist()
    ]
    return pa.array(texts, pa.string())


def decode_text(value: bytes, encoding: str = "utf-8") -> str:
    """Decode as Java does: invalid bytes become U+FFFD."""
    if encoding in _MARKS and not value.startswith(_MARKS[encoding]):
        encoding += "-be"
    # Codecs other than UTF-8 can produce lone surrogates, which an Arrow string cannot hold.
    text = value.decode(encoding, "replace")
    return text if encoding == "utf-8" else text.encode("utf-8", "replace").decode()


def encode_text(text: str, encoding: str = "utf-8") -> bytes:
    """Encode as Java does: big-endian, and with a byte order mark for UTF-16 but not for UTF-32."""
    if encoding not in _MARKS:
        return text.encode(encoding, "replace")
    mark = BOM_UTF16_BE if encoding == "utf-16" and text else b""
    return mark + text.encode(f"{encoding}-be", "replace")


def _as_texts(column: Column) -> pa.StringArray:
    """Return values as texts in the form of Java's ``toString``."""
    if column.schema is None:
        return column.array.cast(pa.string())
    match column.schema.kind:
        case Kind.STRING:
            return column.array
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64 | Kind.BOOLEAN:
            return column.array.cast(pa.string())
        case other:
            raise RecordError(f"a value of type {other} has no text to be restored from")
