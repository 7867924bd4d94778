"""Convert Kafka headers to the columns of headers files, and back; pure.

Without a ``header.converter``, the conversion is lossless. A value that is UTF-8 text or null
becomes ``{"key", "value"}``. Other values become ``{"key", "bytes"}``, in base64 in JSON. Connect's
converters give Connect's form: ``{"key", "value"}`` with texts only. Order and repeated keys are
kept. A record without headers has an empty list. No header makes a record fail.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.errors import RecordError
from kafkeep.options.sink.converter_settings import StringSettings
from kafkeep.options.sink.converters import ConverterClass, ConverterOptions
from kafkeep.records.arrow import binary_array, view_offsets
from kafkeep.records.converters.primitives import decode_text, encode_text, text_array
from kafkeep.records.converters.simple_headers import simple_text
from kafkeep.records.rows import HEADERS_TYPE
from kafkeep.records.schema import (
    OPTIONAL_BYTES,
    OPTIONAL_STRING,
    Column,
    Field,
    Kind,
    Schema,
    arrow_type,
)

Style = Literal["json", "avro", "parquet"]

_TEXT = Schema(kind=Kind.STRING)

Header = dict[str, Any]


class HeaderConverter:
    """Converts the headers of one connector. All its columns have the same ``schema``.

    JSON files hold one document for each record, ``{"headers": [...]}``. Parquet files hold a
    struct with that field. Avro files hold the bare array, as Confluent's do.
    """

    def __init__(
        self,
        to_text: Callable[[bytes], str | None] | None = None,
        from_text: Callable[[str], bytes] | None = None,
    ) -> None:
        """Set the functions between value and text; None selects the lossless form."""
        self._to_text = to_text
        self._from_text = from_text or str.encode

    def schema(self, style: Style) -> Schema | None:
        """Return the schema of columns for files of this style, or None for JSON."""
        fields: tuple[Field, ...] = (Field("key", _TEXT), Field("value", OPTIONAL_STRING))
        if self._to_text is None:
            fields += (Field("bytes", OPTIONAL_BYTES),)
        array = Schema(kind=Kind.ARRAY, items=Schema(kind=Kind.STRUCT, fields=fields))
        match style:
            case "json":
                return None
            case "avro":
                return array
            case "parquet":
                envelope = (Field("headers", array),)
                return Schema(kind=Kind.STRUCT, name="RecordHeaders", fields=envelope)

    def convert(self, headers: pa.ListArray, style: Style) -> Column:
        """Return headers of ``HEADERS_TYPE`` as a column for files of this style. Never fails."""
        offsets = view_offsets(headers)
        first, last = int(offsets[0]), int(offsets[-1])
        keys, values = headers.values.slice(first, last - first).flatten()
        decoded = self._decode(text_array(keys), values)
        schema = self.schema(style)
        if schema is None:
            return Column(None, binary_array(_documents(decoded, (offsets - first).tolist())))
        array = schema if style == "avro" else schema.fields[0].schema
        lists = _lists(arrow_type(array), offsets - first, decoded)
        if style == "avro":
            return Column(schema, lists)
        whole = pa.StructArray.from_arrays([lists], fields=list(arrow_type(schema)))
        return Column(schema, whole)

    def restore(self, column: Column) -> pa.ListArray:
        """Return Kafka headers from a column of any style; raise RecordError if it holds none."""
        rows = [[self._kept(header) for header in row] for row in _iter_rows(column)]
        return pa.array(rows, HEADERS_TYPE)

    def _decode(self, keys: pa.StringArray, values: pa.BinaryArray) -> list[pa.Array]:
        """Return the members of all headers: keys, texts and, in the lossless form, bytes."""
        if self._to_text is not None:
            texts = [None if one is None else self._to_text(one) for one in values.to_pylist()]
            return [keys, pa.array(texts, pa.string())]
        try:
            return [keys, values.cast(pa.string()), pa.nulls(len(values), pa.binary())]
        except pa.ArrowInvalid:
            parts = [_text_or_bytes(value) for value in values.to_pylist()]
            texts = [text for text, _ in parts]
            return [keys, pa.array(texts, pa.string()), binary_array([data for _, data in parts])]

    def _kept(self, header: Any) -> Header:
        try:
            key, value, data = header["key"], header.get("value"), header.get("bytes")
            if isinstance(data, str):
                data = base64.b64decode(data, validate=True)
            if data is None and value is not None:
                data = self._from_text(value)
            return {"key": key.encode(), "value": data}
        except (KeyError, TypeError, AttributeError, binascii.Error, ValueError) as error:
            raise RecordError(f"{header!r} is not a header") from error


def open_headers(options: ConverterOptions | None) -> HeaderConverter:
    """Return the converter for ``header.converter``; None selects the lossless form."""
    if options is None:
        return HeaderConverter()
    match options.kind:
        case ConverterClass.SIMPLE_HEADER:
            return HeaderConverter(lambda value: simple_text(decode_text(value)))
        case ConverterClass.BYTES:
            return HeaderConverter(_base64, lambda text: base64.b64decode(text, validate=True))
        case _:
            encoding = options.settings(StringSettings).encoding
            return HeaderConverter(
                lambda value: decode_text(value, encoding),
                lambda text: encode_text(text, encoding),
            )


def headers_from_column(column: Column, options: ConverterOptions | None = None) -> pa.ListArray:
    """Return the headers (``HEADERS_TYPE``) of a headers file written with these options."""
    return open_headers(options).restore(column)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _text_or_bytes(value: bytes | None) -> tuple[str | None, bytes | None]:
    if value is None:
        return None, None
    try:
        return value.decode(), None
    except UnicodeDecodeError:
        return None, value


def _documents(members: list[pa.Array], offsets: list[int]) -> list[bytes]:
    """Return ``{"headers": [...]}`` for each record.

    Only values that are not UTF-8 use ``bytes``.
    """
    keys, texts, *more = (member.to_pylist() for member in members)
    headers = [{"key": key, "value": text} for key, text in zip(keys, texts, strict=True)]
    if more and members[2].null_count < len(members[2]):
        for i, data in enumerate(more[0]):
            if data is not None:
                headers[i] = {"key": keys[i], "bytes": _base64(data)}
    return [orjson.dumps({"headers": headers[start:stop]}) for start, stop in pairwise(offsets)]


def _lists(kind: pa.DataType, offsets: NDArray[np.int32], members: list[pa.Array]) -> pa.Array:
    structs = pa.StructArray.from_arrays(members, fields=list(kind.value_type))
    places = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets.copy())])
    return pa.ListArray.from_arrays(places, structs, type=kind)


def _iter_rows(column: Column) -> Iterator[list[Any]]:
    """Yield the headers of each record, for columns of any style."""
    for value in column.array.to_pylist():
        row = orjson.loads(value or b"{}") if column.schema is None else value
        headers = row.get("headers") if isinstance(row, dict) else row
        if headers is not None and not isinstance(headers, list):
            raise RecordError("a line of a headers file has no list of headers")
        yield headers or []
