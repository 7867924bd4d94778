"""SINETStream's transforms: casts to bytes and text, times in µs, and JSON inside fields; pure.

They behave like the Java classes of the same names, with one exception. They never write a value in
the form of Java's ``toString``. Dates use Connect's text form, and schemaless objects and lists are
JSON. Nulls are unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.formats import DecimalText
from kafkeep.options.sink.transform_options import TimestampConverterOptions, WholeOrFieldOptions
from kafkeep.records.arrow import valid_flags
from kafkeep.records.json.edit import (
    decode_string,
    encode_string,
    find_member,
    join_object,
    kind_of,
    set_member,
)
from kafkeep.records.json.encode import json_texts
from kafkeep.records.json.text import check_texts
from kafkeep.records.rows import Rows
from kafkeep.records.schema import (
    DATE,
    DECIMAL,
    OPTIONAL_BYTES,
    TIME,
    TIMESTAMP,
    Column,
    Field,
    Kind,
    Schema,
)
from kafkeep.records.transforms.cast import to_text
from kafkeep.records.transforms.timestamp_converter import TimestampConverter
from kafkeep.records.transforms.transform import (
    copy_basics,
    copy_fields,
    edit_texts,
    get_column,
    get_fields,
    is_json_null,
    java_class,
    json_class,
    members_of,
    require_struct,
    set_column,
    with_children,
)

_LOGICAL = frozenset({DATE, DECIMAL, TIME, TIMESTAMP})
_NESTED = frozenset({Kind.ARRAY, Kind.MAP, Kind.STRUCT})
_LONGS = range(-(2**63), 2**63)

Change = Callable[[Schema, pa.Array], tuple[Schema, pa.Array]]


@dataclass(frozen=True, slots=True)
class ByteArrayCast:
    """Keeps bytes and encodes other values as UTF-8 text. In a JSON field, bytes are Base64."""

    side: str
    options: WholeOrFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with bytes."""
        column = get_column(rows, self.side)
        name = self.options.field
        if column.schema is not None:
            changed = _change_typed(column, name, "converting to byte array", _to_bytes)
        elif name:
            changed = _change_member(column, name, "converting to byte array", _to_base64)
        else:
            texts = [_plain_bytes(text) for text in column.array.to_pylist()]
            changed = Column(OPTIONAL_BYTES, pa.array(texts, type=pa.binary()))
        yield set_column(rows, self.side, changed)


@dataclass(frozen=True, slots=True)
class StringCast:
    """Decodes bytes as UTF-8, with U+FFFD for invalid bytes. Other values become text."""

    side: str
    options: WholeOrFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with texts."""
        column = get_column(rows, self.side)
        name = self.options.field
        if column.schema is not None:
            changed = _change_typed(column, name, "converting to string", _to_string)
        elif name:
            changed = _change_member(column, name, "converting to string", _to_json_string)
        else:
            changed = edit_texts(column, _to_json_string)
        yield set_column(rows, self.side, changed)


@dataclass(frozen=True, slots=True)
class MicrosecondTimestampConverter:
    """A TimestampConverter for times in µs. Truncates them to ms first. Texts are in UTC."""

    side: str
    converter: TimestampConverter

    @classmethod
    def of(cls, side: str, options: TimestampConverterOptions) -> MicrosecondTimestampConverter:
        """Return a converter; the pattern is parsed once."""
        return cls(side, TimestampConverter.of(side, options))

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with converted times."""
        column = get_column(rows, self.side)
        name = self.converter.options.field
        if column.schema is not None:
            cut = _change_typed(column, name, "converting timestamp formats", _cut_times)
        elif name:
            cut = _change_member(column, name, "converting timestamp formats", _cut_json)
        else:
            cut = edit_texts(column, _cut_json)
        yield from self.converter.apply(set_column(rows, self.side, cut))


@dataclass(frozen=True, slots=True)
class ParseJson:
    """Parses bytes or a text as JSON. The value that contains them becomes schemaless.

    Raises RecordError if the input is not exactly one JSON document.
    """

    side: str
    options: WholeOrFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with JSON."""
        column = get_column(rows, self.side)
        name = self.options.field
        if column.schema is None and name:
            parsed = _change_member(column, name, "json converter", _parse_json_string)
        elif column.schema is None:
            parsed = edit_texts(column, _parse_json_string)
        elif name and column.array.null_count < len(column):
            parsed = _parse_field(column, name)
        else:
            parsed = Column(None, _parse_array(column.schema, column.array))
        yield set_column(rows, self.side, parsed)


def _change_typed(column: Column, name: str, purpose: str, change: Change) -> Column:
    """Change the whole value or the named field; a struct without the field is unchanged."""
    assert column.schema is not None
    if not name:
        return Column(*change(column.schema, column.array))
    schema = require_struct(column, purpose)
    if schema.kind is not Kind.STRUCT:
        return column
    children = get_fields(column, defaults=True)
    fields = list(schema.fields)
    for i, field in enumerate(fields):
        if field.name == name:
            new, children[i] = change(field.schema, children[i])
            fields[i] = Field(name, new)
    return with_children(
        copy_fields(schema, fields).as_optional(schema.optional), children, column.array
    )


def _change_member(
    column: Column, name: str, purpose: str, change: Callable[[bytes], bytes]
) -> Column:
    """Change a member of schemaless values; a missing member becomes null, as in Connect."""

    def edit(text: bytes) -> bytes:
        members = members_of(text, purpose)
        old = find_member(members, name)
        new = b"null" if old is None or is_json_null(old) else change(old)
        return join_object(set_member(members, name, new))

    return edit_texts(column, edit)


def _to_bytes(schema: Schema, array: pa.Array) -> tuple[Schema, pa.Array]:
    new = _cast_schema("ByteArrayCast", schema, Kind.BYTES)
    if schema.name != DECIMAL and schema.kind is Kind.BYTES:
        return new, array
    if schema.kind is Kind.STRING:
        return new, array.view(pa.binary())
    texts = [None if v is None else to_text(schema, v).encode() for v in array.to_pylist()]
    return new, pa.array(texts, type=pa.binary())


def _to_string(schema: Schema, array: pa.Array) -> tuple[Schema, pa.Array]:
    new = _cast_schema("StringCast", schema, Kind.STRING)
    if schema.kind is Kind.STRING:
        return new, array
    if schema.name != DECIMAL and schema.kind is Kind.BYTES:
        texts = [None if v is None else v.decode(errors="replace") for v in array.to_pylist()]
    else:
        texts = [None if v is None else to_text(schema, v) for v in array.to_pylist()]
    return new, pa.array(texts, type=pa.string())


def _cast_schema(transform: str, schema: Schema, kind: Kind) -> Schema:
    """Return the schema after a cast; the name of a logical type is dropped."""
    if schema.kind in _NESTED:
        raise RecordError(f"{transform} does not cast {schema.kind.name}: name a field of it")
    plain = Schema(kind=kind) if schema.name in _LOGICAL else copy_basics(schema, kind)
    return plain.as_optional(schema.optional)


def _plain_text(text: bytes) -> str:
    """Return the text of a JSON string, or any other document unchanged."""
    return decode_string(text) if kind_of(text) == "string" else text.decode().strip()


def _plain_bytes(text: bytes | None) -> bytes | None:
    """Return a schemaless value in UTF-8; a lone surrogate becomes ``?``."""
    if text is None or is_json_null(text):
        return None
    return _plain_text(text).encode(errors="replace")


def _to_base64(text: bytes) -> bytes:
    return b'"' + base64.b64encode(_plain_bytes(text) or b"") + b'"'


def _to_json_string(text: bytes) -> bytes:
    return text if kind_of(text) == "string" else encode_string(_plain_text(text))


def _cut_times(schema: Schema, array: pa.Array) -> tuple[Schema, pa.Array]:
    found = java_class(schema)
    if array.null_count == len(array):
        return schema, array
    if found != "java.lang.Long":
        raise _not_long(found)
    times = [None if value is None else _to_ms(value) for value in array.to_pylist()]
    return schema, pa.array(times, type=pa.int64())


def _cut_json(text: bytes) -> bytes:
    if kind_of(text) != "integer" or int(text) not in _LONGS:
        raise _not_long("java.math.BigInteger" if kind_of(text) == "integer" else json_class(text))
    return str(_to_ms(int(text))).encode()


def _to_ms(time_us: int) -> int:
    """Divide towards zero, as Java does."""
    return time_us // 1000 if time_us >= 0 else -(-time_us // 1000)


def _not_long(found: str) -> RecordError:
    return RecordError(f"Expected Unix timestamp to be a Long, but found class {found}")


def _parse_json_string(text: bytes) -> bytes:
    if kind_of(text) != "string":
        raise _not_bytes(json_class(text))
    inside = pa.array([_plain_bytes(text)], type=pa.binary())
    parsed: bytes = _parse_array(OPTIONAL_BYTES, inside)[0].as_py()
    return parsed


def _parse_array(schema: Schema, array: pa.Array) -> pa.Array:
    """Return bytes or texts as JSON documents without line breaks; nulls are unchanged."""
    if array.null_count == len(array):
        return pa.nulls(len(array), type=pa.binary())
    if java_class(schema) not in ("[B", "java.lang.String"):
        raise _not_bytes(java_class(schema))
    checked = check_texts(array if schema.kind is Kind.BYTES else array.view(pa.binary()))
    for row in checked.bad.tolist():
        raise RecordError(f"the field that ParseJson reads is not JSON: {checked.why(row)}")
    return checked.texts


def _not_bytes(found: str) -> RecordError:
    return RecordError(f"Expected JSON field type to be byte[] or String, but found class {found}")


def _parse_field(column: Column, name: str) -> Column:
    """Return structs as JSON objects, with the parsed document in place of its text."""
    schema = require_struct(column, "json converter")
    if schema.field(name) is None:
        raise RecordError(f"{name} is not a valid field name")
    parts: list[list[bytes]] = []
    heads: list[bytes] = []
    for field, child in zip(schema.fields, get_fields(column, defaults=True), strict=True):
        if field.name == name:
            texts = [text or b"null" for text in _parse_array(field.schema, child).to_pylist()]
        else:
            texts = json_texts(child, field.schema, DecimalText.BASE64).to_pylist()
        parts.append(texts)
        heads.append(encode_string(field.name) + b":")
    objects = [
        b"{" + b",".join(head + text for head, text in zip(heads, row, strict=True)) + b"}"
        for row in zip(*parts, strict=True)
    ]
    valid = valid_flags(column.array).tolist()
    kept = [text if there else None for text, there in zip(objects, valid, strict=True)]
    return Column(None, pa.array(kept, type=pa.binary()))
