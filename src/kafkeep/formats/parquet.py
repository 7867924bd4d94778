"""Parquet files: typed columns where there is a schema, inferred ones for JSON without.

The bytes of an object are a function of its schema and rows alone, however the rows were handed
over: a row group ends after the row that fills it. Only ``flush`` makes one end earlier.
``parquet_schema`` says how rows lie in a file, ``parquet_json`` how columns are inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kafkeep.config.formats import PARQUET_CODECS, FormatOptions
from kafkeep.data.arrow_parts import view_offsets
from kafkeep.data.avro_schema import dump_avro, to_avro
from kafkeep.data.avro_values import avro_values
from kafkeep.data.column import Column
from kafkeep.data.exact_json import parse_json
from kafkeep.data.rows import pile_records
from kafkeep.data.schema import Schema, arrow_type
from kafkeep.errors import RecordError
from kafkeep.formats.envelope import KAFKA_RECORD, is_envelope
from kafkeep.formats.format import Encoder
from kafkeep.formats.parquet_columns import check_decimals
from kafkeep.formats.parquet_json import Inferred, infer, project
from kafkeep.formats.parquet_read import iter_columns
from kafkeep.formats.parquet_schema import AVRO_SCHEMA, JSON_COLUMNS, WRAPPERS, Layout, wrap
from kafkeep.kernel import Int64s

GROUP_BYTES = 16 << 20
"""A row group ends after the row that makes it this large, as Avro would count it; of whole records
their own bytes are counted."""
JSON_GROUP_BYTES = 8 << 20
"""The same for JSON without a schema: its values take ten times their size in Python."""
GROUP_ROWS = 1 << 20
_MAX_PIECES = 1024
_SLICE_ROWS = 8192
_ENVELOPE: Mapping[str, Any] = {
    # Columns that repeat; in the others a dictionary is tried in vain.
    "use_dictionary": ["topic", "partition", "headers.list.element.key"],
    # The least and largest of the others lets no reader skip anything.
    "write_statistics": ["partition", "offset", "timestamp"],
    # Columns that grow step by step.
    "column_encoding": dict.fromkeys(("offset", "timestamp"), "DELTA_BINARY_PACKED"),
    # A page ends by its size: many small ones of the short columns take time and serve nobody.
    "max_rows_per_page": GROUP_ROWS,
}
"""How columns of whole records are written; those of others are left to Arrow."""


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet objects of values, keys or headers."""

    options: FormatOptions
    view: str = "value"

    @property
    def extension(self) -> str:
        """The codec is part of it: ``.snappy.parquet``."""
        return PARQUET_CODECS[self.options.parquet_codec] + ".parquet"

    @property
    def codec(self) -> str:
        """The codec's name in the log."""
        return self.options.parquet_codec

    def encoder(self, schema: Schema | None) -> Encoder:
        """Begin an object."""
        codec = self.options.parquet_codec
        if schema is None:
            return ParquetEncoder(None, _JsonTables(self.view), codec)
        struct = wrap(schema, self.view)
        avro = to_avro(
            struct,
            enhanced=self.options.enhanced_avro_schema_support,
            connect_meta=self.options.connect_meta_data,
            allow_optional_map_keys=self.options.allow_optional_map_keys,
        )
        return ParquetEncoder(schema, _TypedTables(schema, struct, dump_avro(avro)), codec)

    def read(self, source: BinaryIO) -> Iterator[Column]:
        """Read a Parquet file, also Confluent's; ``source`` must be seekable."""
        return iter_columns(source)


class _Tables(Protocol):
    """How rows become tables; the schema is known when the first table was made."""

    group_bytes: int
    hints: Mapping[str, Any]

    def check(self, array: pa.Array) -> None:
        """RecordError when a row has no place in a table."""

    def ends(self, array: pa.Array) -> Int64s:
        """Return how much the rows up to each count together."""

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        """Return the rows of one row group, which come in pieces, at least one."""

    def metadata(self) -> dict[bytes, bytes]:
        """Return what the file says of itself."""


class _TypedTables:
    group_bytes = GROUP_BYTES

    def __init__(self, schema: Schema, struct: Schema, avro: str) -> None:
        self._struct = struct
        self._wrapped = struct is not schema
        self._avro = avro
        self._values = avro_values(avro, struct)
        self._layout = Layout(struct)
        self._is_envelope = is_envelope(schema)
        self._is_ours = schema == KAFKA_RECORD
        self.hints: Mapping[str, Any] = _ENVELOPE if self._is_envelope else {}

    def _rows(self, array: pa.Array) -> pa.Array:
        if not self._wrapped:
            return array
        return pa.StructArray.from_arrays([array], fields=list(arrow_type(self._struct)))

    def check(self, array: pa.Array) -> None:
        if self._is_ours:
            return  # made of Kafka's own bytes and numbers: each has its place
        rows = self._rows(array)
        self._values.check_rows(rows)
        check_decimals(rows, self._struct)

    def ends(self, array: pa.Array) -> Int64s:
        if self._is_envelope:
            return pile_records(*(array.field(name) for name in ("key", "value", "headers")))
        return np.cumsum(self._values.encode(self._rows(array)).sizes)

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
        return pa.concat_tables([self._layout.to_table(self._rows(piece)) for piece in pieces])

    def metadata(self) -> dict[bytes, bytes]:
        return {AVRO_SCHEMA: self._avro.encode()}


class _JsonTables:
    group_bytes = JSON_GROUP_BYTES
    hints: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, view: str) -> None:
        self._view = view
        self._inferred: Inferred | None = None
        self._texts = WRAPPERS[view][1]
        """The column of whole texts."""
        self._begun = False

    def check(self, array: pa.Array) -> None:
        """Every JSON document has its place."""

    def ends(self, array: pa.Array) -> Int64s:
        ends: Int64s = view_offsets(array)[1:].astype(np.int64)
        return ends - int(view_offsets(array)[0])

    def to_table(self, pieces: list[pa.Array]) -> pa.Table:
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
        for text in array.to_pylist():
            row, exact = project(parse_json(text), self._inferred)
            rows.append({} if row is None else row)
            texts.append(None if exact else text)
        kind = self._inferred.arrow()
        struct = pa.array(rows, kind)
        columns = [struct.field(i) for i in range(kind.num_fields)]
        columns.append(pa.array(texts, pa.binary()).cast(pa.string()))
        return pa.Table.from_arrays(columns, schema=pa.schema([*kind, (self._texts, pa.string())]))

    def metadata(self) -> dict[bytes, bytes]:
        told = None if self._inferred is None else self._inferred.to_json()
        return {JSON_COLUMNS: orjson.dumps({"texts": self._texts, "columns": told})}


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


class ParquetEncoder:
    """One Parquet object in the making: holds less than one row group of rows."""

    def __init__(self, schema: Schema | None, tables: _Tables, codec: str) -> None:
        self._schema = schema
        self._tables = tables
        self._codec = codec
        self._kind = pa.binary() if schema is None else arrow_type(schema)
        self._sink = _Sink()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Array] = []
        self._waiting_rows = 0
        self.buffered_bytes = 0

    def check(self, column: Column) -> None:
        """See Encoder: a row group is made long after its rows were taken."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Parquet object has")
        self._tables.check(column.array)

    def add(self, column: Column) -> bytes:
        """Take rows; return the row groups they fill."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Parquet object has")
        ends = self._tables.ends(column.array)
        done, done_bytes = 0, 0
        while done < len(ends):
            room = self._tables.group_bytes - self.buffered_bytes
            filled = int(np.searchsorted(ends, done_bytes + room))
            stop = min(filled + 1, done + GROUP_ROWS - self._waiting_rows, len(ends))
            self._waiting.append(column.array.slice(done, stop - done))
            self._waiting_rows += stop - done
            self.buffered_bytes += int(ends[stop - 1]) - done_bytes
            done, done_bytes = stop, int(ends[stop - 1])
            if filled < stop or self._waiting_rows >= GROUP_ROWS:
                self._write_group()
        if len(self._waiting) > _MAX_PIECES:
            self._waiting = [pa.concat_arrays(self._waiting)]  # many tiny ones take more room
        return self._sink.drain()

    def flush(self) -> bytes:
        """End the row group at hand."""
        if self._waiting_rows:
            self._write_group()
        return self._sink.drain()

    def finish(self) -> bytes:
        """Return the rest, with the footer; an object without rows has its columns."""
        if self._waiting_rows or self._writer is None:
            self._write_group()
        assert self._writer is not None
        self._writer.close()
        return self._sink.drain()

    def _write_group(self) -> None:
        table = self._tables.to_table(_recut(self._waiting, self._kind))
        if self._writer is None:
            self._writer = self._open(table.schema)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._waiting_rows, self.buffered_bytes = [], 0, 0

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=self._codec,
            store_schema=False,
            write_batch_size=_SLICE_ROWS,
            **self._tables.hints,
        )
        writer.add_key_value_metadata(self._tables.metadata())
        return writer
