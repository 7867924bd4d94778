"""Convert rows to Arrow tables with the columns of a Parquet file, and back. Pure.

The members of a struct become columns. Other values are wrapped in a struct, as in Connect: keys in
``RecordKey{key}``, headers in ``RecordHeaders{headers}``, values in ``RecordValue{value}``.

All columns of an optional struct are optional, and a null row is null in each. If no member is
required, a row whose members are all null would be the same. The column ``_null`` is then true for
null rows.

The file's metadata holds the Avro schema under ``parquet.avro.schema``, as in Confluent's sink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.errors import DamagedError
from kafkeep.numba_setup import Int64s
from kafkeep.objects.formats.parquet_columns import (
    PLAIN_RULES,
    ColumnRules,
    check_decimals,
    fill_required,
    from_parquet,
    parquet_type,
    to_parquet,
)
from kafkeep.objects.formats.parquet_footer import SchemaNode, make_schema
from kafkeep.records.avro.schema import Avro, dump_avro
from kafkeep.records.avro.schema_reader import from_avro, full_name
from kafkeep.records.avro.values import avro_values
from kafkeep.records.rows import pile_records
from kafkeep.records.schema import Field, Kind, Schema, arrow_type, has_decimals

GROUP_BYTES = 16 << 20
"""The size at which a row group ends: the size of its rows in Avro, or of whole Kafka records."""
AVRO_SCHEMA = b"parquet.avro.schema"
JSON_COLUMNS = b"kafkeep.json.columns"
NULL_ROW = "_null"
WRAPPERS = {
    "value": ("RecordValue", "value"),
    "keys": ("RecordKey", "key"),
    "headers": ("RecordHeaders", "headers"),
}
"""View → the name and the only member of the struct that wraps other values."""


def wrap(schema: Schema, view: str) -> Schema:
    """Return the struct schema of a view's rows in Parquet. A struct is returned unchanged."""
    if schema.kind is Kind.STRUCT and (view == "value" or is_wrapped(schema)):
        return schema
    name, member = WRAPPERS[view]
    return Schema(kind=Kind.STRUCT, name=name, fields=(Field(member, schema),))


def is_wrapped(schema: Schema) -> bool:
    """Return whether ``wrap`` made a struct."""
    names = [field.name for field in schema.fields]
    return any((schema.name, names) == (name, [member]) for name, member in WRAPPERS.values())


@dataclass(frozen=True)
class StructColumns:
    """The columns of a struct. Converts rows to columns and back."""

    struct: Schema
    rules: ColumnRules = PLAIN_RULES

    @property
    def is_marked(self) -> bool:
        """Whether a column distinguishes null rows from rows whose members are all null."""
        return self.struct.optional and all(f.schema.optional for f in self.struct.fields)

    def arrow_schema(self) -> pa.Schema:
        """Return the schema of the columns."""
        fields = list(parquet_type(self.struct.as_optional(False), self.rules))
        if self.struct.optional:
            fields = [field.with_nullable(True) for field in fields]
        if self.is_marked:
            fields.append(pa.field(NULL_ROW, pa.bool_(), nullable=False))
        return pa.schema(fields)

    def to_table(self, array: pa.StructArray) -> pa.Table:
        """Convert rows to columns."""
        converted = fill_required(to_parquet(array, self.struct, self.rules))
        columns = converted.flatten() if array.null_count else _members(converted)
        if self.is_marked:
            columns.append(pc.is_null(array))
        return pa.Table.from_arrays(columns, schema=self.arrow_schema())

    def from_batch(self, batch: pa.RecordBatch) -> pa.Array:
        """Convert the columns of a batch to rows."""
        columns = []
        for field in self.struct.fields:
            place = batch.schema.get_field_index(field.name)
            if place < 0:
                raise DamagedError(
                    f"a Parquet file has no column {field.name!r} as its schema says"
                )
            columns.append(from_parquet(batch.column(place), field.schema))
        kind = arrow_type(self.struct)
        mask = self._null_rows(batch)
        if not columns:
            valid = None if mask is None else pc.invert(mask).buffers()[1]
            return pa.Array.from_buffers(kind, batch.num_rows, [valid], children=[])
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)

    def _null_rows(self, batch: pa.RecordBatch) -> pa.Array | None:
        if not self.struct.optional:
            return None
        if self.is_marked and NULL_ROW in batch.schema.names:
            return batch.column(NULL_ROW)
        required = [f.name for f in self.struct.fields if not f.schema.optional]
        return pc.is_null(batch.column(required[0])) if required else None


def _members(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(i) for i in range(array.type.num_fields)]


def read_schema(arrow: pa.Schema, metadata: dict[bytes, bytes] | None) -> Schema:
    """Return the schema of a file from its metadata, or else from its columns."""
    text = (metadata or {}).get(AVRO_SCHEMA)
    if text is None:
        fields = tuple(Field(f.name, _schema_of(f)) for f in arrow)
        return Schema(kind=Kind.STRUCT, fields=fields)
    try:
        found = from_avro(orjson.loads(text))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"the schema in a Parquet file is not readable: {error}") from error
    if found is None or found.kind is not Kind.STRUCT:
        raise DamagedError("the schema in a Parquet file is not that of a struct")
    return found


_KINDS = {
    pa.int8(): Kind.INT8,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.float32(): Kind.FLOAT32,
    pa.float64(): Kind.FLOAT64,
    pa.bool_(): Kind.BOOLEAN,
    pa.string(): Kind.STRING,
    pa.binary(): Kind.BYTES,
}


def _schema_of(field: pa.Field) -> Schema:
    """Return the schema of a column without metadata of Connect."""
    kind, optional = field.type, field.nullable
    if pa.types.is_struct(kind):
        fields = tuple(Field(f.name, _schema_of(f)) for f in kind)
        return Schema(kind=Kind.STRUCT, optional=optional, fields=fields)
    if pa.types.is_map(kind):
        keys, items = _schema_of(kind.key_field), _schema_of(kind.item_field)
        return Schema(kind=Kind.MAP, optional=optional, keys=keys, items=items)
    if pa.types.is_list(kind):
        return Schema(kind=Kind.ARRAY, optional=optional, items=_schema_of(kind.value_field))
    if kind not in _KINDS:
        raise DamagedError(f"a Parquet column of {kind} has no Connect schema: {field.name}")
    return Schema(kind=_KINDS[kind], optional=optional)


class TableBuilder(Protocol):
    """Converts rows to tables. The schema is known after the first table."""

    group_bytes: int

    @property
    def nodes(self) -> SchemaNode | None:
        """The schema of the file; None to keep the one that Arrow writes."""

    def check(self, array: pa.Array) -> None:
        """Raise RecordError when a row does not fit into the table."""

    def ends(self, array: pa.Array) -> Int64s:
        """Return the cumulative size of the rows, as it counts for the size of a row group."""

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        """Return the table of one row group. ``pieces`` holds its rows, at least one piece."""

    def metadata(self) -> dict[bytes, bytes]:
        """Return the key-value metadata of the file."""

    def writer_options(self) -> dict[str, Any]:
        """Return the options of Arrow's writer for these columns."""


class TypedTables:
    """Tables with the columns of a schema."""

    group_bytes = GROUP_BYTES

    def __init__(self, schema: Schema, layout: StructColumns, avro: Avro) -> None:
        self._struct = layout.struct
        self._wrapped = layout.struct is not schema
        self._avro = dump_avro(avro)
        self._values = avro_values(self._avro, layout.struct)
        self._layout = layout
        record = avro[-1] if isinstance(avro, list) else avro
        assert isinstance(record, dict)
        self.nodes: SchemaNode | None = make_schema(
            layout.struct,
            layout.rules,
            full_name(record, ""),
            null_column=NULL_ROW if layout.is_marked else None,
        )

    def _rows(self, array: pa.Array) -> pa.Array:
        if not self._wrapped:
            return array
        return pa.StructArray.from_arrays([array], fields=list(arrow_type(self._struct)))

    def check(self, array: pa.Array) -> None:
        """See Tables."""
        rows = self._rows(array)
        self._values.check_rows(rows)
        check_decimals(rows, self._struct)

    def ends(self, array: pa.Array) -> Int64s:
        """See Tables."""
        return np.cumsum(self._values.encode(self._rows(array)).sizes)

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        """See Tables."""
        return pa.concat_tables([self._layout.to_table(self._rows(piece)) for piece in pieces])

    def metadata(self) -> dict[bytes, bytes]:
        """See Tables."""
        return {AVRO_SCHEMA: self._avro.encode(), b"writer.model.name": b"avro"}

    def writer_options(self) -> dict[str, Any]:
        """See Tables. Arrow compares decimals as bytes but readers as numbers: no statistics."""
        if not has_decimals(self._struct):
            return {}
        columns = make_schema(self._struct, self._layout.rules, "", three_levels=True)
        plain = [".".join(path) for path, node in columns.iter_columns() if not node.is_decimal]
        return {"write_statistics": plain}


class RecordTables:
    """Tables of whole Kafka records (``KAFKA_RECORD``), with the schema that Arrow writes."""

    group_bytes = GROUP_BYTES
    nodes: SchemaNode | None = None

    def __init__(self, avro: Avro) -> None:
        self._avro = dump_avro(avro)

    def check(self, array: pa.Array) -> None:
        """See Tables. Every Kafka record fits."""

    def ends(self, array: pa.StructArray) -> Int64s:
        """See Tables. Counts the bytes of keys, values and headers."""
        return pile_records(*(array.field(name) for name in ("key", "value", "headers")))

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        """See Tables."""
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(piece) for piece in pieces])

    def metadata(self) -> dict[bytes, bytes]:
        """See Tables."""
        return {AVRO_SCHEMA: self._avro.encode()}

    def writer_options(self) -> dict[str, Any]:
        """See Tables."""
        return {
            # Only columns with repeated values profit from a dictionary.
            "use_dictionary": ["topic", "partition", "headers.list.element.key"],
            # Statistics of the other columns let no reader skip row groups.
            "write_statistics": ["partition", "offset", "timestamp"],
            # Columns whose values grow in small steps.
            "column_encoding": dict.fromkeys(("offset", "timestamp"), "DELTA_BINARY_PACKED"),
        }
