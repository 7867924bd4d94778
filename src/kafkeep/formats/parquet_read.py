"""Parquet files read as columns, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kafkeep.data.column import Column
from kafkeep.data.exact_json import dump_json
from kafkeep.errors import DamagedError, RecordError
from kafkeep.formats.parquet_json import Inferred, rebuild
from kafkeep.formats.parquet_schema import JSON_COLUMNS, Layout, is_wrapped, read_schema

_PIECE_BYTES = 8 << 20
_PIECE_ROWS = 1 << 16


def iter_columns(source: BinaryIO) -> Iterator[Column]:
    """Yield the rows of a file in pieces of some MiB; what was wrapped comes back bare."""
    try:
        file = pq.ParquetFile(source)
        metadata = file.metadata.metadata or {}
        if JSON_COLUMNS in metadata:
            yield from _iter_json(file, metadata[JSON_COLUMNS])
        else:
            yield from _iter_typed(file, metadata)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedError(f"a Parquet file is not readable: {error}") from error
    except RecordError as error:
        raise DamagedError(f"the schema of a Parquet file: {error.message}") from error


def _iter_batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
        rows = max(1, min(_PIECE_ROWS, _PIECE_BYTES // row_bytes))
        yield from file.iter_batches(batch_size=rows, row_groups=[number])


def _iter_typed(file: pq.ParquetFile, metadata: dict[bytes, bytes]) -> Iterator[Column]:
    schema = read_schema(file.schema_arrow, metadata)
    layout = Layout(schema)
    for batch in _iter_batches(file):
        rows = layout.from_batch(batch)
        rows.validate(full=True)  # nobody has looked whether texts are UTF-8
        if is_wrapped(schema):
            yield Column(schema.fields[0].schema, rows.field(0))
        else:
            yield Column(schema, rows)


def _iter_json(file: pq.ParquetFile, told: bytes) -> Iterator[Column]:
    try:
        what = orjson.loads(told)
        columns = what["columns"]
        inferred = None if columns is None else Inferred.from_json(columns)
        texts_column: str = what["texts"]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"what a Parquet file says of its columns: {error}") from error
    for batch in _iter_batches(file):
        if texts_column not in batch.schema.names:
            raise DamagedError(f"a Parquet file has no column {texts_column!r}")
        batch.validate(full=True)
        texts = batch.column(texts_column).cast(pa.binary())
        if inferred is not None:
            texts = pa.array(_rebuilt(batch, texts, inferred), pa.binary())
        yield Column(None, texts)


def _rebuilt(batch: pa.RecordBatch, texts: pa.Array, inferred: Inferred) -> Iterator[bytes]:
    names = [name for name, _, _ in inferred.members]
    rows = batch.select(names).to_pylist()
    for text, row in zip(texts.to_pylist(), rows, strict=True):
        yield text if text is not None else dump_json(rebuild(row, inferred))
