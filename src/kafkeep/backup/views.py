"""What lies in the objects of a sink: values, and if asked for the keys and headers beside them."""

from __future__ import annotations

import pyarrow as pa

from kafkeep.config.sink import SinkOptions
from kafkeep.converters.headers import open_headers
from kafkeep.data.column import Column
from kafkeep.data.rows import Rows
from kafkeep.data.schema import Schema, arrow_type
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

    def is_nulls(self, view: str, rows: Rows) -> bool:
        """Whether these are tombstones alone, which any file takes, whatever its schema."""
        in_line = view == "value" and self._writes_nulls and not self.sink.has_envelope
        return in_line and rows.value.array.null_count == len(rows)

    def nulls(self, schema: Schema | None, count: int) -> Column:
        """Return tombstones as they stand among values of a schema."""
        kind = pa.binary() if schema is None else arrow_type(schema)
        return _with_json_nulls(Column(schema, pa.nulls(count, kind)))

    def column(self, view: str, rows: Rows) -> Column:
        """Return what goes into the objects of a view."""
        if view == "keys":
            return _with_json_nulls(rows.key)
        if view == "headers":
            style = self.sink.format.headers_format_class.value
            return self._headers.convert(rows.headers, style)  # type: ignore[arg-type]
        if self.sink.has_envelope:
            return to_envelope(rows, rows.key.array, rows.value.array)
        if not self._writes_nulls:
            return rows.value
        value = _with_json_nulls(rows.value)
        if value.schema is None:
            return value
        return Column(value.schema.as_optional(), value.array)


def _with_json_nulls(column: Column) -> Column:
    if column.schema is not None or column.array.null_count == 0:
        return column
    return Column(None, column.array.fill_null(pa.scalar(b"null", pa.binary())))
