"""Parquet files: typed columns where there is a schema, inferred ones for JSON without.

The bytes of an object are a function of its schema and rows alone, however the rows were handed
over: a row group ends after the row that fills it. Only ``flush`` makes one end earlier.
``parquet_schema`` says how rows lie in a file, ``parquet_json`` how columns are inferred;
``parquet_tables`` has them written by Arrow, ``parquet_records`` writes whole Kafka records itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from kafkeep.config.formats import PARQUET_CODECS, FormatOptions
from kafkeep.data.avro_schema import dump_avro, to_avro
from kafkeep.data.column import Column
from kafkeep.data.schema import Schema, arrow_type
from kafkeep.errors import RecordError
from kafkeep.formats.envelope import KAFKA_RECORD
from kafkeep.formats.format import Encoder
from kafkeep.formats.parquet_columns import ColumnRules
from kafkeep.formats.parquet_read import iter_columns
from kafkeep.formats.parquet_records import RecordWriter
from kafkeep.formats.parquet_schema import AVRO_SCHEMA, Layout, wrap
from kafkeep.formats.parquet_tables import JsonTables, TableWriter, TypedTables
from kafkeep.kernel import Int64s

GROUP_ROWS = 1 << 20
_MAX_PIECES = 1024


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
        return ParquetEncoder(schema, self._writer(schema))

    def _writer(self, schema: Schema | None) -> _Writer:
        codec = self.options.parquet_codec
        if schema is None:
            return TableWriter(JsonTables(self.view), pa.binary(), codec)
        struct = wrap(schema, self.view)
        avro = to_avro(
            struct,
            enhanced=self.options.enhanced_avro_schema_support,
            connect_meta=self.options.connect_meta_data,
            allow_optional_map_keys=self.options.allow_optional_map_keys,
        )
        if schema == KAFKA_RECORD and struct is schema:
            return RecordWriter(codec, {AVRO_SCHEMA: dump_avro(avro).encode()})
        rules = ColumnRules(
            self.options.enhanced_avro_schema_support, self.options.allow_optional_map_keys
        )
        tables = TypedTables(schema, Layout(struct, rules), avro)
        return TableWriter(tables, arrow_type(schema), codec)

    def read(self, source: BinaryIO) -> Iterator[Column]:
        """Read a Parquet file, also Confluent's; ``source`` must be seekable."""
        return iter_columns(source)


class _Writer(Protocol):
    """How the rows of an object are counted and written."""

    group_bytes: int

    def check(self, array: pa.Array) -> None:
        """RecordError when a row has no place in the file."""

    def ends(self, array: pa.Array) -> Int64s:
        """Return how much the rows up to each count together."""

    def write_group(self, pieces: list[pa.Array]) -> bytes:
        """Return the bytes of one row group; its rows come in pieces, none of them empty."""

    def close(self) -> bytes:
        """Return the rest of the file; one without rows has its columns."""


class ParquetEncoder:
    """One Parquet object in the making: holds less than one row group of rows."""

    def __init__(self, schema: Schema | None, writer: _Writer) -> None:
        self._schema = schema
        self._writer = writer
        self._waiting: list[pa.Array] = []
        self._waiting_rows = 0
        self._filled_bytes = 0
        """What the row group at hand has, as its writer counts."""
        self.buffered_bytes = 0
        """What its rows take in memory: of small ones many times as much."""

    def check(self, column: Column) -> None:
        """See Encoder: a row group is made long after its rows were taken."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Parquet object has")
        self._writer.check(column.array)

    def add(self, column: Column) -> bytes:
        """Take rows; return the row groups they fill."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Parquet object has")
        ends = self._writer.ends(column.array)
        groups: list[bytes] = []
        done, done_bytes = 0, 0
        while done < len(ends):
            room = self._writer.group_bytes - self._filled_bytes
            filled = int(np.searchsorted(ends, done_bytes + room))
            stop = min(filled + 1, done + GROUP_ROWS - self._waiting_rows, len(ends))
            self._waiting.append(column.array.slice(done, stop - done))
            self._waiting_rows += stop - done
            self._filled_bytes += int(ends[stop - 1]) - done_bytes
            self.buffered_bytes += self._waiting[-1].nbytes
            done, done_bytes = stop, int(ends[stop - 1])
            if filled < stop or self._waiting_rows >= GROUP_ROWS:
                groups.append(self.flush())
        if len(self._waiting) > _MAX_PIECES:
            self._waiting = [pa.concat_arrays(self._waiting)]  # many tiny ones take more room
        return b"".join(groups)

    def flush(self) -> bytes:
        """End the row group at hand."""
        if not self._waiting_rows:
            return b""
        made = self._writer.write_group(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        self._filled_bytes = self.buffered_bytes = 0
        return made

    def finish(self) -> bytes:
        """Return the rest, with the footer; an object without rows has its columns."""
        return self.flush() + self._writer.close()
