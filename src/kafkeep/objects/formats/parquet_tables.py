"""Rows as tables of Arrow, and the files that Arrow's writer makes of them.

The footer of a file that Arrow wrote, with another schema for the same columns.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kafkeep.numba_setup import Int64s
from kafkeep.objects.formats.parquet_columns import check_decimals
from kafkeep.objects.formats.parquet_json import Inferred, infer, project
from kafkeep.objects.formats.parquet_pages import (
    Value,
    listed,
    read_struct,
    split_list,
    split_struct,
    struct,
    text,
)
from kafkeep.objects.formats.parquet_schema import (
    AVRO_SCHEMA,
    JSON_COLUMNS,
    WRAPPERS,
    Layout,
    Node,
    make_nodes,
)
from kafkeep.records.arrow import view_offsets
from kafkeep.records.avro.schema import Avro, dump_avro
from kafkeep.records.avro.schema_reader import full_name
from kafkeep.records.avro.values import avro_values
from kafkeep.records.json.exact import parse_json
from kafkeep.records.schema import Schema, arrow_type, has_decimals

_MAGIC = b"PAR1"
_SCHEMA, _GROUPS = 2, 4
_COLUMNS = 1
_META = 3
_PATH = 3


def replace_schema(end: bytes, schema: Node) -> bytes:
    """Return the end of a file, which has its whole footer, with ``schema`` in it.

    Nothing in a file counts from its end: what is before the footer stays where it is.
    """
    start = len(end) - 8 - int.from_bytes(end[-8:-4], "little")
    assert start >= 0 and end.endswith(_MAGIC)
    footer = split_struct(read_struct(end[start:-8]))
    footer[_SCHEMA] = schema.to_thrift()
    paths = [listed([text(name) for name in path]) for path, _ in schema.iter_columns()]
    footer[_GROUPS] = listed([_rename(group, paths) for group in split_list(footer[_GROUPS])])
    made = struct(footer).body
    return b"".join([end[:start], made, len(made).to_bytes(4, "little"), _MAGIC])


def _rename(group: Value, paths: list[Value]) -> Value:
    """Give the columns of a row group other names."""
    fields = split_struct(group)
    columns = []
    for column, path in zip(split_list(fields[_COLUMNS]), paths, strict=True):
        chunk = split_struct(column)
        chunk[_META] = struct(split_struct(chunk[_META]) | {_PATH: path})
        columns.append(struct(chunk))
    return struct(fields | {_COLUMNS: listed(columns)})


GROUP_BYTES = 16 << 20
"""A row group ends after the row that makes it this large, as Avro would count it; of whole records
their own bytes are counted."""
JSON_GROUP_BYTES = 8 << 20
"""The same for JSON without a schema: its values take ten times their size in Python."""
_SLICE_ROWS = 8192


class Tables(Protocol):
    """How rows become tables; the schema is known when the first table was made."""

    group_bytes: int

    @property
    def nodes(self) -> Node | None:
        """The schema of the file, where it is not the one that Arrow gives it."""

    def check(self, array: pa.Array) -> None:
        """RecordError when a row has no place in a table."""

    def ends(self, array: pa.Array) -> Int64s:
        """Return how much the rows up to each count together."""

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        """Return the rows of one row group, which come in pieces, at least one."""

    def metadata(self) -> dict[bytes, bytes]:
        """Return what the file says of itself."""

    def columns_with_bounds(self) -> list[str] | bool:
        """Return the columns, by Arrow's names, whose least and largest values are told."""


class TypedTables:
    """Tables of the columns that a schema has."""

    group_bytes = GROUP_BYTES

    def __init__(self, schema: Schema, layout: Layout, avro: Avro) -> None:
        self._struct = layout.struct
        self._wrapped = layout.struct is not schema
        self._avro = dump_avro(avro)
        self._values = avro_values(self._avro, layout.struct)
        self._layout = layout
        record = avro[-1] if isinstance(avro, list) else avro
        assert isinstance(record, dict)
        self.nodes: Node | None = make_nodes(layout, full_name(record, ""))

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

    def columns_with_bounds(self) -> list[str] | bool:
        """See Tables. Arrow orders decimals as the bytes they are here, readers as numbers."""
        if not has_decimals(self._struct):
            return True
        columns = make_nodes(self._layout, "", three_levels=True).iter_columns()
        return [".".join(path) for path, node in columns if not node.is_decimal]


class JsonTables:
    """Tables of columns inferred from the first row group."""

    group_bytes = JSON_GROUP_BYTES
    nodes = None

    def __init__(self, view: str) -> None:
        self._view = view
        self._inferred: Inferred | None = None
        self._texts = WRAPPERS[view][1]
        """The column of whole texts."""
        self._begun = False

    def check(self, array: pa.Array) -> None:
        """Every JSON document has its place."""

    def ends(self, array: pa.Array) -> Int64s:
        """See Tables."""
        ends: Int64s = view_offsets(array)[1:].astype(np.int64)
        return ends - int(view_offsets(array)[0])

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        """See Tables."""
        if not self._begun:
            self._begin(pieces)
        if self._inferred is None:
            texts = pa.chunked_array([piece.cast(pa.string()) for piece in pieces])
            return pa.table({self._texts: texts})
        return pa.concat_tables([self._to_slice(piece) for piece in pieces]).combine_chunks()

    def _begin(self, pieces: list[pa.Array]) -> None:
        self._begun = True
        if self._view != "value":
            return
        self._inferred = infer(text for piece in pieces for text in piece.to_pylist())
        if self._inferred is not None:
            taken = {name.lower() for name, _, _ in self._inferred.members}
            self._texts = "_json"
            while self._texts in taken:
                self._texts += "_"

    def _to_slice(self, array: pa.Array) -> pa.Table:
        assert self._inferred is not None
        rows, texts = [], []
        for document in array.to_pylist():
            row, exact = project(parse_json(document), self._inferred)
            rows.append({} if row is None else row)
            texts.append(None if exact else document)
        kind = self._inferred.arrow()
        struct = pa.array(rows, kind)
        columns = [struct.field(i) for i in range(kind.num_fields)]
        columns.append(pa.array(texts, pa.binary()).cast(pa.string()))
        return pa.Table.from_arrays(columns, schema=pa.schema([*kind, (self._texts, pa.string())]))

    def metadata(self) -> dict[bytes, bytes]:
        """See Tables."""
        told = None if self._inferred is None else self._inferred.to_json()
        return {JSON_COLUMNS: orjson.dumps({"texts": self._texts, "columns": told})}

    def columns_with_bounds(self) -> list[str] | bool:
        """See Tables."""
        return True


def _recut(pieces: list[pa.Array], kind: pa.DataType) -> list[pa.Array]:
    """Return the rows in pieces that begin at multiples of ``_SLICE_ROWS``.

    Arrow writes each piece in slices of so many rows: where pages end must not tell how rows came.
    """
    cut: list[pa.Array] = []
    rest: list[pa.Array] = []
    missing = 0
    for piece in pieces:
        start = min(missing, len(piece))
        if start:
            rest.append(piece.slice(0, start))
            missing -= start
        whole = (len(piece) - start) // _SLICE_ROWS * _SLICE_ROWS
        if rest and not missing:
            cut.append(pa.concat_arrays(rest))
            rest = []
        if whole:
            cut.append(piece.slice(start, whole))
        if start + whole < len(piece):
            rest.append(piece.slice(start + whole))
            missing = _SLICE_ROWS - len(rest[0])
    if rest or not cut:
        cut.append(pa.concat_arrays(rest) if rest else pa.array([], kind))
    return cut


class _Sink:
    """A file that is only written, and emptied now and then."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def drain(self) -> bytes:
        """Return what was written since the last time."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found


class TableWriter:
    """A file that Arrow writes, each row group from a table."""

    def __init__(self, tables: Tables, kind: pa.DataType, codec: str) -> None:
        self._tables = tables
        self._kind = kind
        self._codec = codec
        self._nodes = tables.nodes
        self._sink = _Sink()
        self._writer: pq.ParquetWriter | None = None
        self.group_bytes = tables.group_bytes
        self.check = tables.check
        self.ends = tables.ends

    def write_group(self, pieces: list[pa.Array]) -> bytes:
        """Return the bytes of one row group."""
        table = self._tables.to_table(_recut(pieces, self._kind))
        if self._writer is None:
            self._writer = self._open(table.schema)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        return self._sink.drain()

    def close(self) -> bytes:
        """Return the footer; a file without rows has its columns."""
        begun = b"" if self._writer else self.write_group([])
        assert self._writer is not None
        self._writer.close()
        end = begun + self._sink.drain()
        return end if self._nodes is None else replace_schema(end, self._nodes)

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=self._codec,
            store_schema=False,
            write_batch_size=_SLICE_ROWS,
            write_statistics=self._tables.columns_with_bounds(),
        )
        writer.add_key_value_metadata(self._tables.metadata())
        return writer
