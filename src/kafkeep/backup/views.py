"""What lies in the objects of a sink: values, and if asked for the keys and headers beside them."""

from __future__ import annotations

import pyarrow as pa

from kafkeep.config.formats import FormatKind
from kafkeep.config.sink import SinkOptions
from kafkeep.converters.headers import open_headers
from kafkeep.data.column import OPTIONAL_BYTES, Column
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Kind, Schema, arrow_type
from kafkeep.formats.envelope import to_envelope
from kafkeep.formats.format import Format
from kafkeep.formats.open import open_format


class Views:
    """How a sink's objects are made: one format for each of values, keys and headers."""

    def __init__(self, sink: SinkOptions) -> None:
        self.sink = sink
        options = sink.format
        self.formats: dict[str, Format] = {"value": open_format(options.format_class, options)}
        if sink.naming.store_kafka_keys:
            self.formats["keys"] = open_format(options.keys_format_class, options, view="keys")
        if sink.naming.store_kafka_headers:
            kind = options.headers_format_class
            self.formats["headers"] = open_format(kind, options, view="headers")
        self._headers = open_headers(sink.header_converter)
        self._writes_nulls = sink.nulls.behavior_on_null_values == "write"

    @property
    def keys_have_schema(self) -> bool:
        """Whether keys are stored, and their objects say whether one may be null."""
        kind = self.sink.format.keys_format_class
        return "keys" in self.formats and kind in (FormatKind.AVRO, FormatKind.PARQUET)

    def extension(self, view: str) -> str:
        """Return the end of the names of a view's objects."""
        return ("" if view == "value" else f".{view}") + self.formats[view].extension

    @property
    def longest_extension(self) -> str:
        """The one that takes most bytes."""
        return max(map(self.extension, self.formats), key=lambda text: len(text.encode()))

    def is_nulls(self, view: str, rows: Rows) -> bool:
        """Whether these are nulls alone, which any object takes, whatever its schema."""
        if view == "keys":
            return bool(rows.key.array.null_count == len(rows))
        in_line = view == "value" and self._writes_nulls and not self.sink.has_envelope
        return in_line and bool(rows.value.array.null_count == len(rows))

    def nulls(self, schema: Schema | None, count: int) -> Column:
        """Return nulls as they stand among values or keys of a schema."""
        kind = pa.binary() if schema is None else arrow_type(schema)
        return optional(Column(schema, pa.nulls(count, kind)))

    def schema_of_nulls(self, view: str, schema: Schema | None) -> Schema | None:
        """Return the schema of an object of nulls alone, which came with ``schema``."""
        if view != "keys":
            return schema and schema.as_optional()
        as_bytes = self.sink.format.keys_format_class is FormatKind.BYTES
        return OPTIONAL_BYTES if as_bytes else None  # else JSON's null

    def column(self, view: str, rows: Rows) -> Column:
        """Return what goes into the objects of a view."""
        if view == "keys":
            # A required schema stays as it is where it can: a restore makes the keys' bytes of it.
            has_room = rows.key.array.null_count or not self.keys_have_schema
            return optional(rows.key) if has_room else rows.key
        if view == "headers":
            style = self.sink.format.headers_format_class.value
            return self._headers.convert(rows.headers, style)  # type: ignore[arg-type]
        if self.sink.has_envelope:
            return to_envelope(rows, rows.key.array, rows.value.array)
        return optional(rows.value) if self._writes_nulls else rows.value


def optional(column: Column) -> Column:
    """Return a column in which nulls have a place."""
    if column.schema is None:
        return _with_json_nulls(column)
    array = column.array
    if array.null_count and column.schema.kind is Kind.STRUCT:
        array = _with_members(array, column.schema)
    return Column(column.schema.as_optional(), array)


def _with_members(array: pa.StructArray, schema: Schema) -> pa.StructArray:
    """Return structs whose required members are not null inside of a null: Parquet asks for it."""
    if not schema.fields:
        return array
    members = [
        array.field(i) if field.schema.optional else _without_nulls(array.field(i), field.schema)
        for i, field in enumerate(schema.fields)
    ]
    fields = list(array.type)
    return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())


def _without_nulls(array: pa.Array, schema: Schema) -> pa.Array:
    if not array.null_count:
        return array
    if schema.kind is Kind.STRUCT:
        whole = _with_members(array, schema)
        return pa.StructArray.from_arrays(
            [whole.field(i) for i in range(array.type.num_fields)], fields=list(array.type)
        )
    inner = [array.values] if schema.kind in (Kind.ARRAY, Kind.MAP) else None
    buffers = [None, *array.buffers()[1 : array.type.num_buffers]]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, offset=array.offset, children=inner
    )


def _with_json_nulls(column: Column) -> Column:
    if column.schema is not None or column.array.null_count == 0:
        return column
    return Column(None, column.array.fill_null(pa.scalar(b"null", pa.binary())))
