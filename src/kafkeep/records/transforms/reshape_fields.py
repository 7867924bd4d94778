"""Transforms that change which fields a key or value has, and the schema of the fields; pure.

ExtractField replaces the key or value with one of its fields. HoistField wraps the key or value in
a new field. ReplaceField drops, keeps or renames fields. ValueToKey builds the key from fields of
the value. Flatten moves nested fields to the root and joins their names. SetSchemaMetadata sets the
name and version of a schema. CsvLine writes a record as one line of text, as Aiven's sink does.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.errors import RecordError
from kafkeep.options.sink.transform_options import (
    CsvLineOptions,
    ExtractFieldOptions,
    FlattenOptions,
    HoistFieldOptions,
    ReplaceFieldOptions,
    SetSchemaMetadataOptions,
    ValueToKeyOptions,
    parse_field_path,
)
from kafkeep.records.arrow import number_array, run_bounds, valid_flags
from kafkeep.records.json.edit import JsonMember, encode_string, find_member, join_object, kind_of
from kafkeep.records.rows import Rows
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Field, Kind, Schema
from kafkeep.records.transforms.transform import (
    copy_fields,
    edit_texts,
    fill_default,
    get_children,
    get_column,
    get_fields,
    is_json_null,
    members_of,
    require_struct,
    set_column,
    struct_schema,
    with_children,
)

_EXTRACT_PURPOSE = "field extraction"
_NESTED = "nested field access"


@dataclass(frozen=True, slots=True)
class ExtractField:
    """A missing or null field gives a null key or value. Schemaless fields stay JSON texts."""

    side: str
    options: ExtractFieldOptions

    @property
    def _path(self) -> tuple[str, ...]:
        return parse_field_path(self.options.field, self.options.field_syntax_version)

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the field as key or value."""
        column = get_column(rows, self.side)
        taken = self._from_texts(column) if column.schema is None else self._from_typed(column)
        yield set_column(rows, self.side, taken)

    def _from_typed(self, column: Column) -> Column:
        current = column
        path = self._path
        for depth, name in enumerate(path):
            schema = require_struct(current, _NESTED if depth else _EXTRACT_PURPOSE)
            names = [field.name for field in schema.fields]
            if schema.kind is not Kind.STRUCT or name not in names:
                raise RecordError(f"unknown field: {self.options.field}")
            place = names.index(name)
            child = get_children(current.array)[place]
            field = schema.fields[place].schema
            if depth < len(path) - 1 or self.options.replace_null_with_default:
                child = _fill_inside(child, field, current.array)
            current = Column(field, child)
        return current

    def _from_texts(self, column: Column) -> Column:
        path = self._path
        texts = [_dig(text, path) for text in column.array.to_pylist()]
        return Column(None, pa.array(texts, type=pa.binary()))


def _fill_inside(child: pa.Array, field: Schema, parent: pa.Array) -> pa.Array:
    """Replace null fields with the default, except where the parent is null."""
    filled = fill_default(child, field)
    if filled is child or not parent.null_count:
        return filled
    places = np.where(valid_flags(parent), np.arange(len(parent)), len(parent))
    nothing = pa.nulls(1, type=child.type)
    return pa.concat_arrays([filled, nothing]).take(number_array(pa.int64(), places))


def _dig(text: bytes | None, path: tuple[str, ...]) -> bytes | None:
    """Return the text of the field, or None if the field or one of its parents is missing."""
    for depth, name in enumerate(path):
        if text is None or is_json_null(text):
            return None
        text = find_member(members_of(text, _NESTED if depth else _EXTRACT_PURPOSE), name)
    return None if text is None or is_json_null(text) else text


@dataclass(frozen=True, slots=True)
class HoistField:
    """Nulls are wrapped too. If the schema is required, they are wrapped without a schema."""

    side: str
    options: HoistFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with wrapped keys or values."""
        column = get_column(rows, self.side)
        schema = column.schema
        if schema is None or schema.optional or not column.array.null_count:
            yield set_column(rows, self.side, self._wrap(column))
            return
        for start, stop in run_bounds(valid_flags(column.array)):
            piece = column.slice(start, stop)
            if piece.array.null_count:
                piece = Column(None, pa.nulls(stop - start, type=pa.binary()))
            yield set_column(rows.slice(start, stop), self.side, self._wrap(piece))

    def _wrap(self, column: Column) -> Column:
        if column.schema is not None:
            schema = struct_schema([Field(self.options.field, column.schema)])
            whole = number_array(pa.int64(), np.zeros(len(column), dtype=np.int64))
            return with_children(schema, [column.array], whole)
        head = b"{" + encode_string(self.options.field) + b":"
        texts = [head + (text or b"null") + b"}" for text in column.array.to_pylist()]
        return Column(None, pa.array(texts, type=pa.binary()))


_REPLACE_PURPOSE = "field replacement"


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """Keeps the order of the fields. Nulls are unchanged."""

    side: str
    options: ReplaceFieldOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the remaining fields."""
        column = get_column(rows, self.side)
        if column.array.null_count == len(column):
            yield rows
        elif column.schema is None:
            yield set_column(rows, self.side, edit_texts(column, self._replace_text))
        else:
            yield set_column(rows, self.side, self._replace_typed(column))

    def _keeps(self, name: str) -> bool:
        exclude = self.options.exclude or self.options.blacklist
        include = self.options.include or self.options.whitelist
        return name not in exclude and (not include or name in include)

    def _replace_typed(self, column: Column) -> Column:
        schema = require_struct(column, _REPLACE_PURPOSE)
        renames = dict(self.options.renames)
        children = get_fields(column, defaults=self.options.replace_null_with_default)
        kept = [
            (Field(renames.get(field.name, field.name), field.schema), child)
            for field, child in zip(schema.fields, children, strict=True)
            if self._keeps(field.name)
        ]
        new = copy_fields(schema, [field for field, _ in kept])
        return with_children(new, [child for _, child in kept], column.array)

    def _replace_text(self, text: bytes) -> bytes:
        renames = dict(self.options.renames)
        members = [
            (member, name)
            for member in members_of(text, _REPLACE_PURPOSE)
            if self._keeps(name := member.name)
        ]
        taken = {renames[name] for _, name in members if name in renames}
        kept = [
            member._replace(key=encode_string(renames[name])) if name in renames else member
            for member, name in members
            # A renamed field replaces an existing field with its new name.
            if name in renames or name not in taken
        ]
        return join_object(kept)


_TO_KEY_PURPOSE = "copying fields from value to key"


@dataclass(frozen=True, slots=True)
class ValueToKey:
    """Raises RecordError for a record without a value, as Connect does."""

    options: ValueToKeyOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with new keys."""
        value = rows.value
        yield replace(rows, key=self._texts(value) if value.schema is None else self._typed(value))

    def _typed(self, value: Column) -> Column:
        schema = require_struct(value, _TO_KEY_PURPOSE, nulls=False)
        children = get_fields(value, defaults=self.options.replace_null_with_default)
        names = [field.name for field in schema.fields]
        for name in self.options.fields:
            if name not in names:
                raise RecordError(f"field does not exist: {name}")
        places = [names.index(name) for name in self.options.fields]
        new = struct_schema([schema.fields[place] for place in places])
        return with_children(new, [children[place] for place in places], value.array)

    def _texts(self, value: Column) -> Column:
        keys = [(name, encode_string(name)) for name in dict.fromkeys(self.options.fields)]
        texts = []
        for text in value.array.to_pylist():
            members = members_of(text, _TO_KEY_PURPOSE)
            made = [JsonMember(key, find_member(members, name) or b"null") for name, key in keys]
            texts.append(join_object(made))
        return Column(None, pa.array(texts, type=pa.binary()))


_FLATTEN_PURPOSE = "flattening"


@dataclass(frozen=True, slots=True)
class Flatten:
    """Arrays are not flattened. Nulls are unchanged."""

    side: str
    options: FlattenOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the flattened rows."""
        column = get_column(rows, self.side)
        if column.array.null_count == len(column):
            yield rows
        elif column.schema is None:
            yield set_column(rows, self.side, edit_texts(column, self._flatten_text))
        else:
            yield set_column(rows, self.side, self._flatten_typed(column))

    def _flatten_typed(self, column: Column) -> Column:
        schema = require_struct(column, _FLATTEN_PURPOSE)
        flat = list(self._walk(schema, column.array, "", schema.optional, schema.default))
        new = copy_fields(schema, [field for field, _ in flat])
        return with_children(new, [child for _, child in flat], column.array)

    def _walk(
        self, schema: Schema, array: pa.Array, prefix: str, optional: bool, default: Any
    ) -> Iterator[tuple[Field, pa.Array]]:
        """Yield fields and columns; a parent passes its optionality and default to its fields."""
        for place, (field, child) in enumerate(
            zip(schema.fields, get_children(array), strict=True)
        ):
            name = self._name(prefix, field.name)
            own = field.schema.default
            if own is None and default is not None:
                own = default[place]
            inner = replace(field.schema, optional=optional or field.schema.optional, default=own)
            if inner.kind is Kind.STRUCT:
                yield from self._walk(inner, child, name, inner.optional, own)
            elif inner.kind is Kind.MAP:
                raise RecordError(
                    f"Flatten transformation does not support MAP for record with schemas"
                    f" (for field {name})"
                )
            else:
                yield Field(name, inner), fill_default(child, inner)

    def _flatten_text(self, text: bytes) -> bytes:
        flat: dict[str, bytes] = {}
        try:
            self._collect(members_of(text, _FLATTEN_PURPOSE), "", flat)
        except RecursionError as error:
            raise RecordError("the value is nested too deeply to be flattened") from error
        return join_object(JsonMember(encode_string(name), value) for name, value in flat.items())

    def _collect(self, members: list[JsonMember], prefix: str, flat: dict[str, bytes]) -> None:
        for member in members:
            name = self._name(prefix, member.name)
            if kind_of(member.value) == "object":
                self._collect(members_of(member.value, _FLATTEN_PURPOSE), name, flat)
            else:
                flat[name] = member.value

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.options.delimiter}{name}" if prefix else name


@dataclass(frozen=True, slots=True)
class SetSchemaMetadata:
    """Values are unchanged. Values without a schema are rejected."""

    side: str
    options: SetSchemaMetadataOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the changed schema."""
        column = get_column(rows, self.side)
        if column.schema is None:
            if column.array.null_count < len(column):
                raise RecordError("schema required for [updating schema metadata]")
            yield rows
            return
        new = column.schema
        if self.options.schema_name is not None:
            new = replace(new, name=self.options.schema_name)
        if self.options.schema_version is not None:
            new = replace(new, version=self.options.schema_version)
        array = column.array
        if new.kind is Kind.STRUCT:
            children = get_fields(column, defaults=self.options.replace_null_with_default)
            array = with_children(new, children, array).array
        yield set_column(rows, self.side, Column(new, array))


@dataclass(frozen=True, slots=True)
class CsvLine:
    """The value becomes the line without a line break. Nulls and missing times are empty."""

    options: CsvLineOptions

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with lines as values."""
        columns = [self._texts(rows, name) for name in self.options.fields]
        lines = [b",".join(line) for line in zip(*columns, strict=True)]
        yield set_column(rows, "Value", Column(OPTIONAL_BYTES, pa.array(lines, pa.binary())))

    def _texts(self, rows: Rows, name: str) -> list[bytes]:
        match name:
            case "offset":
                return [b"%d" % offset for offset in rows.offsets.tolist()]
            case "timestamp":
                return [b"" if at < 0 else b"%d" % at for at in rows.timestamps.tolist()]
            case "key":
                return _bytes_of(rows.key, encoded=True)
            case _:
                return _bytes_of(rows.value, encoded=self.options.value_encoding == "base64")


def _bytes_of(column: Column, *, encoded: bool) -> list[bytes]:
    if column.array.type not in (pa.binary(), pa.string()) or column.schema is None:
        raise RecordError("a line of CSV is made of bytes or text, not of a structure")
    found = column.array.cast(pa.binary()).to_pylist()
    return [b"" if one is None else base64.b64encode(one) if encoded else one for one in found]
