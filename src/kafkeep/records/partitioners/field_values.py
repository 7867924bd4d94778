"""Read fields and headers of records as texts, and encode the texts as parts of a path; pure.

A text never leaves its part of the path, and different texts give different parts. Most texts are
unchanged, including spaces, ``=`` and non-Latin scripts, as in Confluent's sink. ``/``, ``%`` and
characters that object keys must not contain become the ``%XX`` of their UTF-8 bytes. The texts
``.`` and ``..`` become ``%2E`` and ``%2E%2E``. A null value becomes ``null``, and the text "null"
becomes ``%6Eull``. An empty text becomes ``%empty``. A long text is truncated and ends in ``%~``
and a digest of the whole text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.archive.names import NOT_IN_KEYS
from kafkeep.errors import RecordError
from kafkeep.numba_setup import Int64s
from kafkeep.records.arrow import binary_scalar, codes_of, true_rows
from kafkeep.records.calendar import Zone, date_of
from kafkeep.records.json.text import FieldKind, FieldSpans, find_fields
from kafkeep.records.partitioners.joda import PathFormat
from kafkeep.records.rows import Rows
from kafkeep.records.schema import DATE, DECIMAL, TIME, TIMESTAMP, Column, Kind, Schema

NULL = "null"
MAX_BYTES = 200
"""A file name has at most 255 bytes, and an S3 key at most 1024."""

_EMPTY = "%empty"
_CUT = "%~"
_DIGEST_DIGITS = 32
_UNSAFE = re.compile(f"[/%{NOT_IN_KEYS}]")
_WHOLE = {"": _EMPTY, NULL: "%6Eull", ".": "%2E", "..": "%2E%2E"}


class RowProblem(Exception):
    """A row of a column cannot be read; the caller adds the topic, partition and offset."""

    def __init__(self, row: int, why: str, hint: str | None = None) -> None:
        super().__init__(row, why)
        self.row = row
        self.why = why
        self.hint = hint

    def to_error(self, rows: Rows) -> RecordError:
        """Return a RecordError that names the record."""
        return RecordError(
            f"{rows.topic}-{rows.partition} offset {rows.offsets[self.row]}:"
            f" error encoding partition: {self.why}",
            hint=self.hint,
        )


@dataclass(frozen=True, slots=True)
class JsonField:
    """The spans of one field in JSON documents, and a flag for each document that lacks it.

    The kind is NULL for a row without a document and for a field inside a null.
    """

    spans: FieldSpans
    missing: NDArray[np.bool_]

    def contents(self) -> pa.BinaryArray:
        """Return the JSON of each field, strings without quotes.

        Null where the field is missing.
        """
        spans = self.spans
        quote = (spans.kinds == FieldKind.STRING).astype(np.int64)
        return FieldSpans(spans.data, spans.starts + quote, spans.ends - quote, spans.kinds).texts()


def find_json(texts: pa.BinaryArray, names: tuple[str, ...]) -> JsonField:
    """Find a field in each document; a dotted name is a nested field or one whose name has dots."""
    spans = find_fields(texts, names)
    missing = spans.kinds == FieldKind.MISSING
    if not missing.any():
        return JsonField(spans, missing)
    kinds, starts, ends = spans.kinds.copy(), spans.starts.copy(), spans.ends.copy()
    for way in list(_iter_ways(names))[1:]:
        other = find_fields(texts, way)
        fill = missing & (other.kinds != FieldKind.MISSING)
        kinds[fill], starts[fill], ends[fill] = (
            other.kinds[fill],
            other.starts[fill],
            other.ends[fill],
        )
        missing &= ~fill
    is_null = np.zeros(len(texts), np.bool_)
    is_null[true_rows(texts.is_null())] = True
    for way in _iter_ways(names):
        for depth in range(len(way)):
            is_null |= missing & (find_fields(texts, way[:depth]).kinds == FieldKind.NULL)
    kinds[missing & is_null] = FieldKind.NULL
    return JsonField(FieldSpans(spans.data, starts, ends, kinds), missing & ~is_null)


def _iter_ways(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths that a dotted name can mean, the most nested one first."""
    if not names:
        yield ()
    for count in range(1, len(names) + 1):
        for rest in _iter_ways(names[count:]):
            yield (".".join(names[:count]), *rest)


def read_json(texts: pa.BinaryArray, names: tuple[str, ...]) -> tuple[Int64s, list[str | None]]:
    """Return codes and texts of a field: numbers as written, strings unescaped.

    Raise RowProblem if a document lacks the field, or if the field is an object or a list.
    """
    found = find_json(texts, names)
    if found.missing.any():
        row = int(np.argmax(found.missing))
        raise RowProblem(row, f"the field {'.'.join(names)!r} does not exist")
    encoded = pc.dictionary_encode(found.spans.texts(), null_encoding="encode")
    codes = codes_of(encoded)
    written: list[str | None] = []
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            written.append(_write_json(value))
        except ValueError as error:
            raise RowProblem(int(np.argmax(codes == place)), str(error)) from error
    return codes, written


def _write_json(value: bytes | None) -> str | None:
    match value[:1] if value else b"n":
        case b"n":
            return None
        case b'"':
            return unescape(value or b"")
        case b"{" | b"[":
            raise ValueError("an object or a list cannot be part of a path")
    return (value or b"").decode()


def unescape(string: bytes) -> str:
    """Return the text of a quoted JSON string; raise ValueError if it has a lone surrogate."""
    try:
        text: str = orjson.loads(string)
    except orjson.JSONDecodeError:
        raise ValueError("half of a surrogate pair cannot be part of a path") from None
    return text


_TIMESTAMP = PathFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", Zone("UTC"))
_LOGICAL = {
    DATE: Kind.INT32,
    TIME: Kind.INT32,
    TIMESTAMP: Kind.INT64,
    DECIMAL: Kind.BYTES,
}
_TIME = PathFormat("HH:mm:ss.SSS", Zone("UTC"))


@dataclass(frozen=True, slots=True)
class CodedTexts:
    """Dictionary-encoded texts: the text of row ``i`` is ``texts[codes[i]]``, and None is null."""

    codes: Int64s
    texts: list[str | None]


def read_column(column: Column, path: str) -> CodedTexts:
    """Return the texts of a field, or of the whole value if the path is empty; dots nest.

    A null record has null fields. Raise RowProblem if a record lacks the field or if the field has
    no text form.
    """
    names = tuple(path.split(".")) if path else ()
    if column.schema is None:
        return CodedTexts(*read_json(column.array, names))
    schema, leaf = read_typed(column, names)
    return _read_leaf(schema, leaf)


def read_typed(column: Column, names: tuple[str, ...]) -> tuple[Schema, pa.Array]:
    """Return the schema and the array of a field; the field of a null record is null."""
    assert column.schema is not None
    steps, schema = find_steps(column.schema, names)
    if steps is not None:
        return schema, pc.struct_field(column.array, steps) if steps else column.array
    rows = true_rows(column.array.is_valid())
    if len(rows):
        why, hint = f"the field {'.'.join(names)!r} does not exist", None
        if column.schema.kind is not Kind.STRUCT:
            why += f": the converter gives {column.schema.kind.value}, which has no fields"
            hint = "Choose a converter that reads fields, such as JsonConverter."
        raise RowProblem(int(rows[0]), why, hint)
    return Schema(kind=Kind.STRING, optional=True), pa.nulls(len(column), pa.string())


def find_steps(schema: Schema, names: tuple[str, ...]) -> tuple[list[int] | None, Schema]:
    """Return the positions that lead to a nested field, and its schema; None if it does not exist.

    A field whose own name contains dots, as Flatten creates them, is found too.
    """
    if not names:
        return [], schema
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        for position, field in enumerate(schema.fields):
            if field.name == name:
                steps, found = find_steps(field.schema, names[count:])
                if steps is not None:
                    return [position, *steps], found
    return None, schema


def read_header(headers: pa.ListArray, name: str) -> CodedTexts:
    """Return the last header with this name for each record; null if the record has none."""
    lists = np.frombuffer(headers.offsets.buffers()[1], np.int32)
    lists = lists[headers.offsets.offset :][: len(headers) + 1]
    inner = headers.values
    hits = true_rows(pc.equal(inner.field("key"), binary_scalar(name.encode())))
    hits = hits[(hits >= lists[0]) & (hits < lists[-1])]
    rows = np.searchsorted(lists, hits, side="right") - 1
    last = np.full(len(headers), -1, np.int64)
    # If a row occurs several times, numpy keeps the last assignment.
    last[rows] = hits
    has = last >= 0
    places = pa.Array.from_buffers(pa.int64(), int(has.sum()), [None, pa.py_buffer(last[has])])
    try:
        found = _read_leaf(Schema(kind=Kind.BYTES), inner.field("value").take(places))
    except RowProblem as problem:
        row = int(np.flatnonzero(has)[problem.row])
        raise RowProblem(row, f"header {name!r}: {problem.why}") from problem
    if has.all():
        return found
    codes = np.full(len(headers), len(found.texts), np.int64)
    codes[has] = found.codes
    return CodedTexts(codes, [*found.texts, None])


def _read_leaf(schema: Schema, leaf: pa.Array) -> CodedTexts:
    if schema.kind in (Kind.STRUCT, Kind.ARRAY, Kind.MAP):
        rows = true_rows(leaf.is_valid())
        if len(rows):
            raise RowProblem(
                int(rows[0]), f"a field of type {schema.kind} cannot be part of a path"
            )
        return CodedTexts(np.zeros(len(leaf), np.int64), [None])
    encoded = pc.dictionary_encode(leaf, null_encoding="encode")
    codes = codes_of(encoded)
    texts: list[str | None] = []
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            texts.append(None if value is None else _write(schema, value))
        except UnicodeDecodeError as error:
            row = int(np.argmax(codes == place))
            raise RowProblem(row, "bytes that are not UTF-8 are no part of a path") from error
    return CodedTexts(codes, texts)


def _write(schema: Schema, value: Any) -> str:
    if schema.name in _LOGICAL and schema.kind is _LOGICAL[schema.name]:
        return _write_logical(schema, value)
    match schema.kind:
        case Kind.BYTES:
            return bytes(value).decode()
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.FLOAT32:
            return str(np.float32(value))
    return str(value)


def _write_logical(schema: Schema, value: Any) -> str:
    """Write dates and times in ISO 8601, and decimals with all their digits."""
    if schema.name == DATE:
        return _write_date(value)
    if schema.name == DECIMAL:
        unscaled = int.from_bytes(value, "big", signed=True)
        return f"{Decimal(unscaled).scaleb(-int(schema.parameter('scale') or 0)):f}"
    return (_TIME if schema.name == TIME else _TIMESTAMP).write(value)


def _write_date(days: int) -> str:
    year, month, day = date_of(days)
    return f"{year:04}-{month:02}-{day:02}"


def encode_part(text: str, *, max_bytes: int = MAX_BYTES) -> str:
    """Return a text as one part of a path; different texts give different parts.

    The result has at most ``max_bytes`` bytes, if ``max_bytes`` is 64 or more. Raise
    UnicodeEncodeError for a text with lone surrogates.
    """
    if text in _WHOLE:
        return _WHOLE[text]
    part = _UNSAFE.sub(_escape, text)
    whole = part.encode()
    if len(whole) <= max_bytes:
        return part
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]
    room = max(max_bytes, 64) - len(_CUT) - _DIGEST_DIGITS
    # Truncation splits neither a character nor an escape.
    kept = re.sub(r"%[0-9A-F]?\Z", "", whole[:room].decode(errors="ignore"))
    return f"{kept}{_CUT}{digest}"


def encode_label(name: str) -> str:
    """Return the name of a field in the form it takes before ``=``."""
    return _UNSAFE.sub(_escape, name).replace("=", "%3D")


def name_part(label: str, text: str | None, *, raw: bool, max_bytes: int = MAX_BYTES) -> str:
    """Return ``label=value``, or ``label=null`` for None.

    ``raw`` selects Confluent's form, which escapes nothing. A value can then create nested
    directories, and the text ``null`` looks like a null value.
    """
    if raw:
        return f"{label}={NULL if text is None else text}"
    value = NULL if text is None else encode_part(text, max_bytes=max_bytes)
    return f"{encode_label(label)}={value}"


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
