"""The Parquet format: typed columns by schema, inferred columns for schemaless JSON. Pure.

Arrow writes the files. The bytes of an object depend only on its schema and rows, not on how rows
are split over calls: a row group ends after the row that fills it. Only ``flush`` ends a row group
earlier. ``parquet_tables`` and ``parquet_json`` turn rows into tables. ``parquet_columns`` converts
single columns. ``parquet_footer`` gives the file the schema that parquet-avro would write.

Files are read as columns, in pieces of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkeep.errors import DamagedError, RecordError
from kafkeep.objects.formats.envelope import KAFKA_RECORD
from kafkeep.objects.formats.format import Encoder
from kafkeep.objects.formats.parquet_columns import ColumnRules
from kafkeep.objects.formats.parquet_footer import replace_schema
from kafkeep.objects.formats.parquet_json import InferredType, JsonTables, rebuild
from kafkeep.objects.formats.parquet_tables import (
    JSON_COLUMNS,
    RecordTables,
    StructColumns,
    TableBuilder,
    TypedTables,
    is_wrapped,
    read_schema,
    wrap,
)
from kafkeep.options.sink.formats import PARQUET_CODECS, FormatOptions
from kafkeep.records.avro.schema import to_avro
from kafkeep.records.json.exact import dump_json
from kafkeep.records.schema import Column, Schema, arrow_type

GROUP_ROWS = 1 << 20
_MAX_PIECES = 1024
_SLICE_ROWS = 8192
"""The number of rows that Arrow's writer takes at a time. Pages end at multiples of it."""


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet objects of values, keys or headers."""

    options: FormatOptions
    view: str = "value"

    @property
    def extension(self) -> str:
        """The file extension, which includes the codec: ``.snappy.parquet``."""
        return PARQUET_CODECS[self.options.parquet_codec] + ".parquet"

    @property
    def codec(self) -> str:
        """The name of the codec in the log."""
        return self.options.parquet_codec

    def encoder(self, schema: Schema | None) -> Encoder:
        """Return the encoder of a new object."""
        return ParquetEncoder(schema, self._writer(schema))

    def _writer(self, schema: Schema | None) -> _FileWriter:
        codec = self.options.parquet_codec
        if schema is None:
            return _FileWriter(JsonTables(self.view), pa.binary(), codec)
        struct = wrap(schema, self.view)
        avro = to_avro(
            struct,
            enhanced=self.options.enhanced_avro_schema_support,
            connect_meta=self.options.connect_meta_data,
            allow_optional_map_keys=self.options.allow_optional_map_keys,
        )
        if schema == KAFKA_RECORD and struct is schema:
            return _FileWriter(RecordTables(avro), arrow_type(schema), codec)
        rules = ColumnRules(
            self.options.enhanced_avro_schema_support, self.options.allow_optional_map_keys
        )
        tables = TypedTables(schema, StructColumns(struct, rules), avro)
        return _FileWriter(tables, arrow_type(schema), codec)

    def read(self, source: BinaryIO) -> Iterator[Column]:
        """Read a Parquet file, also one of Confluent's sink. ``source`` must be seekable."""
        return iter_columns(source)


class ParquetEncoder:
    """Encodes one Parquet object. Holds less than one row group of rows."""

    def __init__(self, schema: Schema | None, writer: _FileWriter) -> None:
        self._schema = schema
        self._writer = writer
        self._waiting: list[pa.Array] = []
        self._waiting_rows = 0
        self._filled_bytes = 0
        """The size of the open row group, as ``TableBuilder.ends`` counts it."""
        self.buffered_bytes = 0
        """The memory of the buffered rows. For small rows it is a multiple of their size."""

    def check(self, column: Column) -> None:
        """See Encoder. A row group is encoded long after ``add``, so errors must show here."""
        if column.schema != self._schema:
            raise RecordError("a row of another schema than its Parquet object has")
        self._writer.check(column.array)

    def add(self, column: Column) -> bytes:
        """Add rows. Return the row groups that are full."""
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
            self._waiting = [pa.concat_arrays(self._waiting)]  # many tiny arrays use more memory
        return b"".join(groups)

    def flush(self) -> bytes:
        """End and return the open row group."""
        if not self._waiting_rows:
            return b""
        made = self._writer.write_group(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        self._filled_bytes = self.buffered_bytes = 0
        return made

    def finish(self) -> bytes:
        """Return the rest with the footer. An object without rows still has its columns."""
        return self.flush() + self._writer.close()


def _recut(pieces: list[pa.Array], kind: pa.DataType) -> list[pa.Array]:
    """Return the rows in pieces that begin at multiples of ``_SLICE_ROWS``.

    Arrow writes each piece in slices of that many rows. Without this, page boundaries would depend
    on how rows were split over calls.
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
    """A write-only file in memory that ``drain`` empties."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def drain(self) -> bytes:
        """Return the bytes written since the last call."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found


class _FileWriter:
    """Writes a file with Arrow, each row group from one table."""

    def __init__(self, tables: TableBuilder, kind: pa.DataType, codec: str) -> None:
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
        """Return the footer. A file without rows still has its columns."""
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
            **self._tables.writer_options(),
        )
        writer.add_key_value_metadata(self._tables.metadata())
        return writer


_PIECE_BYTES = 8 << 20
_PIECE_ROWS = 1 << 16
_PROBE_ROWS = 1 << 10
_STEPS = 8
_MOST_BYTES = 64 << 20
"""The maximum size of a piece, if every value is as large as the largest in its column."""


def iter_columns(source: BinaryIO) -> Iterator[Column]:
    """Yield the rows of a file in pieces of some MiB, without the structs that ``wrap`` added."""
    try:
        file = pq.ParquetFile(source)
        metadata = file.metadata.metadata or {}
        if JSON_COLUMNS in metadata:
            yield from _iter_json(source, file, metadata[JSON_COLUMNS])
        else:
            yield from _iter_typed(source, file, metadata)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedError(f"a Parquet file is not readable: {error}") from error
    except RecordError as error:
        raise DamagedError(f"the schema of a Parquet file: {error.message}") from error


def _iter_batches(source: BinaryIO, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
        rows = max(1, min(_PIECE_ROWS, _PIECE_BYTES // row_bytes))
        if repeated := _repeated_bytes(source, file, number, min(rows, _PROBE_ROWS)):
            safe = max(1, _MOST_BYTES // (row_bytes + repeated))
            if safe < rows:
                rows = max(safe, _weighed_rows(source, file, number, rows))
        yield from file.iter_batches(batch_size=rows, row_groups=[number])


def _repeated_bytes(source: BinaryIO, file: pq.ParquetFile, number: int, rows: int) -> int:
    """Return the maximum size of a row's dictionary-encoded values.

    The sizes in the file count a repeated value once, so a few hundred bytes may decode to
    gigabytes.
    """
    first = next(_iter_by_numbers(source, file, number, rows), None)
    if first is None or not len(first):
        return 0
    weights = [
        _largest(array.dictionary) * max(1, len(array) // len(first))
        for column in first.columns
        for array in _dictionary_arrays(column)
    ]
    return sum(weights)


def _weighed_rows(source: BinaryIO, file: pq.ParquetFile, number: int, rows: int) -> int:
    """Return a number of rows, at most ``rows``, for which no piece is too large.

    Return 0 when even the smallest number of rows tried makes a piece that is too large.
    Most files with a large value contain it once, so measuring avoids needlessly small pieces.
    Values stay dictionary-encoded meanwhile, so this needs no more memory than the stored data.
    """
    rows = min(rows, max(1, file.metadata.row_group(number).num_rows))
    step = -(-rows // _STEPS)
    weights = list[int]()
    begin = 0
    for batch in filter(len, _iter_by_numbers(source, file, number, step)):
        end = begin + len(batch)
        weights += [0] * (-(-end // step) - len(weights))
        weights[begin // step] += sum(
            _unpacked_bytes(array)
            for column in batch.columns
            for array in _dictionary_arrays(column)
        )
        if weights[begin // step] > _MOST_BYTES:
            return 0
        begin = end
    for count in (_STEPS, _STEPS // 2, _STEPS // 4, 1):
        pieces = (sum(weights[at : at + count]) for at in range(0, len(weights), count))
        if max(pieces, default=0) <= _MOST_BYTES:
            return count * step
    return 0


def _iter_by_numbers(
    source: BinaryIO, file: pq.ParquetFile, number: int, rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the strings and bytes of a row group as dictionary-encoded columns."""
    # Do not read column chunk metadata: pyarrow aborts the process if it is damaged.
    columns = map(file.metadata.schema.column, range(file.metadata.num_columns))
    paths = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    if paths:
        by_numbers = pq.ParquetFile(
            source, metadata=file.metadata, read_dictionary=paths, pre_buffer=False
        )
        yield from by_numbers.iter_batches(
            rows, row_groups=[number], columns=paths, use_threads=False
        )


def _unpacked_bytes(array: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(array.dictionary)
    return pc.sum(lengths.take(array.indices)).as_py() or 0


def _dictionary_arrays(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    """Yield the dictionary-encoded arrays at any depth of an array."""
    if pa.types.is_dictionary(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for place in range(array.type.num_fields):
            yield from _dictionary_arrays(array.field(place))
    elif pa.types.is_map(array.type):
        yield from _dictionary_arrays(array.keys)
        yield from _dictionary_arrays(array.items)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _dictionary_arrays(array.values)


def _largest(dictionary: pa.Array) -> int:
    return pc.max(pc.binary_length(dictionary)).as_py() or 0


def _iter_typed(
    source: BinaryIO, file: pq.ParquetFile, metadata: dict[bytes, bytes]
) -> Iterator[Column]:
    schema = read_schema(file.schema_arrow, metadata)
    layout = StructColumns(schema)
    for batch in _iter_batches(source, file):
        rows = layout.from_batch(batch)
        rows.validate(full=True)  # the first check that strings are UTF-8
        if is_wrapped(schema):
            yield Column(schema.fields[0].schema, rows.field(0))
        else:
            yield Column(schema, rows)


def _iter_json(source: BinaryIO, file: pq.ParquetFile, stored: bytes) -> Iterator[Column]:
    try:
        what = orjson.loads(stored)
        columns = what["columns"]
        inferred = None if columns is None else InferredType.from_json(columns)
        texts_column: str = what["texts"]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"the schema of a Parquet file is not readable: {error}") from error
    for batch in _iter_batches(source, file):
        if texts_column not in batch.schema.names:
            raise DamagedError(f"a Parquet file has no column {texts_column!r}")
        batch.validate(full=True)
        texts = batch.column(texts_column).cast(pa.binary())
        if inferred is not None:
            texts = pa.array(_rebuilt(batch, texts, inferred), pa.binary())
        yield Column(None, texts)


def _rebuilt(batch: pa.RecordBatch, texts: pa.Array, inferred: InferredType) -> Iterator[bytes]:
    names = [name for name, _, _ in inferred.members]
    rows = batch.select(names).to_pylist()
    for text, row in zip(texts.to_pylist(), rows, strict=True):
        yield text if text is not None else dump_json(rebuild(row, inferred))
