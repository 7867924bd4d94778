"""StringConverter: bytes as text."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator

import pyarrow as pa

from kafkeep.converters.arrays import binary_array
from kafkeep.converters.converter import Piece
from kafkeep.data.column import OPTIONAL_STRING, Column
from kafkeep.data.schema import Kind
from kafkeep.errors import RecordError

_MARKS = {"utf-16": (BOM_UTF16_BE, BOM_UTF16_LE), "utf-32": (BOM_UTF32_BE, BOM_UTF32_LE)}
"""Encodings whose order of bytes a mark tells; without one the high bytes come first."""


class StringConverter:
    """Texts of one encoding. Bytes that are no text become U+FFFD, as in Connect: never fails."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def convert(self, values: pa.BinaryArray) -> Iterator[Piece]:
        """Give all values as one column of optional strings; valid UTF-8 is not copied."""
        if len(values):
            yield Piece(0, len(values), Column(OPTIONAL_STRING, text_array(values, self.encoding)))

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the encoded texts; numbers and booleans as Java prints them."""
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
    """Decode as Java does: what is not text becomes U+FFFD."""
    if encoding in _MARKS and not value.startswith(_MARKS[encoding]):
        encoding += "-be"
    # Codecs other than UTF-8 may give lone surrogates, which no Arrow string can hold.
    text = value.decode(encoding, "replace")
    return text if encoding == "utf-8" else text.encode("utf-8", "replace").decode()


def encode_text(text: str, encoding: str = "utf-8") -> bytes:
    """Encode as Java does: high bytes first; its UTF-16 begins with a mark, its UTF-32 does not."""
    if encoding not in _MARKS:
        return text.encode(encoding, "replace")
    mark = BOM_UTF16_BE if encoding == "utf-16" and text else b""
    return mark + text.encode(f"{encoding}-be", "replace")


def _as_texts(column: Column) -> pa.StringArray:
    """Return values as texts, as the toString of their Java classes."""
    if column.schema is None:
        return column.array.cast(pa.string())
    match column.schema.kind:
        case Kind.STRING:
            return column.array
        case Kind.INT8 | Kind.INT16 | Kind.INT32 | Kind.INT64 | Kind.BOOLEAN:
            return column.array.cast(pa.string())
        case other:
            raise RecordError(f"a value of type {other} has no text to be restored from")
