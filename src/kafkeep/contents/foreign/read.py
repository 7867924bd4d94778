"""Rows of objects that no log names, made records again: decode, transform, encode. In tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry
from kafkeep.config.converters import ConverterClass, ConverterOptions
from kafkeep.config.foreign import ForeignOptions
from kafkeep.contents.ahead import Ranges
from kafkeep.contents.options import ReadOptions
from kafkeep.contents.original import IN_JSON, as_stored, without_nulls
from kafkeep.contents.rows import iter_columns
from kafkeep.contents.spool import naming
from kafkeep.contents.windows import UNKNOWN, Offsets, StoredFile
from kafkeep.converters.converter import Converter
from kafkeep.converters.headers import headers_from_column
from kafkeep.converters.open import open_converter
from kafkeep.data.column import OPTIONAL_BYTES, Column
from kafkeep.data.json_arrow import number_array
from kafkeep.data.json_decode import decode_spans
from kafkeep.data.json_spans import find_documents
from kafkeep.data.rows import HEADERS_TYPE, Rows
from kafkeep.data.schema import Kind
from kafkeep.errors import PreflightError, RecordError
from kafkeep.kafka.layout import TimestampType
from kafkeep.kafka.records import RECORD_SCHEMA
from kafkeep.partition.extract import Extractor
from kafkeep.transforms.chain import open_chain

_BYTES = (ConverterClass.BYTES, ConverterClass.ALREADY_BYTES, ConverterClass.STRING)
_HEADERS = RECORD_SCHEMA.field("headers").type


def iter_foreign_file(
    store: Ranges, file: StoredFile, options: ReadOptions, *, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file in ``RECORD_SCHEMA``; those a Filter drops are left out.

    PreflightError when rows cannot become what the options want.
    """
    assert options.foreign is not None
    way = _Way(options.foreign, file.main.partition_id.topic)
    offsets = Offsets(file.main)
    done = 0
    for main, keys, headers in _aligned(store, file, options, memory_bytes):
        rows = len(main)
        tombstones = file.main.view == "tombstones"
        found = Rows(
            topic=file.main.partition_id.topic,
            partition=file.main.partition_id.partition,
            offsets=offsets.rows(done, done + rows),
            timestamps=np.full(rows, UNKNOWN, dtype=np.int64),
            key=main if tombstones else keys or _nothing(rows),
            value=_nothing(rows) if tombstones else main,
            headers=_no_headers(rows)
            if headers is None
            else headers_from_column(headers, options.foreign.converters.get("header")),
        )
        done += rows
        try:
            yield from way.iter_batches(found)
        except RecordError as error:
            raise PreflightError(
                f"{file.main.key}: rows {done - rows + 1} to {done}: {error.message}",
                hint=error.hint or "Name other converters or transforms with --set.",
            ) from error


def _nothing(rows: int) -> Column:
    return Column(OPTIONAL_BYTES, pa.nulls(rows, pa.binary()))


def _no_headers(rows: int) -> pa.ListArray:
    return pa.array([[]] * rows, HEADERS_TYPE)


def _aligned(
    store: Ranges, file: StoredFile, options: ReadOptions, memory_bytes: int
) -> Iterator[tuple[Column, Column | None, Column | None]]:
    """Cut the pieces of a file's objects alike; None where there is no object."""
    views = [
        _iter_named(store, entry, options, memory_bytes) if entry else None
        for entry in (file.main, file.keys, file.headers)
    ]
    waiting: list[Column | None] = [None, None, None]
    left = file.main.records
    while left:
        for i, view in enumerate(views):
            if view is not None and not waiting[i]:
                waiting[i] = next(view)
        rows = min(left, *(len(column) for column in waiting if column))
        cut = [None if column is None else column.slice(0, rows) for column in waiting]
        waiting = [None if c is None else c.slice(rows, len(c)) for c in waiting]
        assert cut[0] is not None
        yield cut[0], cut[1], cut[2]
        left -= rows
    for view in views:
        for _ in view or ():  # so that the end of each object is looked at, too
            pass


def _iter_named(
    store: Ranges, entry: Entry, options: ReadOptions, memory_bytes: int
) -> Iterator[Column]:
    for column in iter_columns(store, entry, options, memory_bytes=memory_bytes):
        with naming(entry):
            yield _plain(column)


def _plain(column: Column) -> Column:
    """Take Parquet's envelope from keys: ``RecordKey`` has one member."""
    schema = column.schema
    if schema is not None and schema.kind is Kind.STRUCT and schema.name == "RecordKey":
        return Column(schema.fields[0].schema, column.array.field(0))
    if schema is None:
        return Column(None, without_nulls(column.array))
    return column


class _Way:
    """What becomes of rows: time from a field, transforms, bytes by the converters."""

    def __init__(self, options: ForeignOptions, topic: str) -> None:
        self._chain = open_chain(options.transforms)
        self._time = options.time_field
        target = options.target(topic)
        self._key = _Encoder("key", options.converters.get("key"), target)
        self._value = _Encoder("value", options.converters.get("value"), target)

    def iter_batches(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Yield rows as records; RecordError when one of them cannot be made."""
        if self._time is not None:
            times = Extractor("RecordField", self._time).read_or_kafka(rows, at_ms=UNKNOWN)
            rows = replace(rows, timestamps=times.astype(np.int64))
        for piece in self._chain.apply(rows):
            types = np.full(len(piece), int(TimestampType.CREATE), dtype=np.int8)
            columns = [
                number_array(pa.int64(), piece.offsets),
                number_array(pa.int64(), piece.timestamps),
                number_array(pa.int8(), types),
                self._key.encode(piece.key),
                self._value.encode(piece.value),
                piece.headers.cast(_HEADERS),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


class _Encoder:
    """Keys or values as the bytes to produce, by the converter that was named."""

    def __init__(
        self, role: Literal["key", "value"], told: ConverterOptions | None, topic: str
    ) -> None:
        self._kind = told.kind if told is not None else None
        self._converter: Converter | None = open_converter(role, told, topic) if told else None

    def encode(self, column: Column) -> pa.BinaryArray:
        """Return the bytes of each row; null stays null."""
        if column.array.null_count == len(column):
            return pa.nulls(len(column), pa.binary())
        if self._converter is None:
            return column.array if column.schema is None else as_stored(column)
        if column.schema is None:
            return self._from_texts(column)
        plain = column.schema.kind is Kind.BYTES and not column.schema.name
        if plain and self._kind in _BYTES:
            return column.array
        return self._converter.restore(column)

    def _from_texts(self, column: Column) -> pa.BinaryArray:
        """Return what JSON texts stand for: a converter's strings, numbers and bytes."""
        assert self._converter is not None and self._kind is not None
        schema = IN_JSON.get(self._kind)
        if schema is None:
            return self._converter.restore(column)
        array, misfits = decode_spans(find_documents(column.array), schema)
        found = self._converter.restore(Column(schema, array))
        if not misfits:
            return found
        rows = found.to_pylist()
        for row in misfits:
            rows[row] = column.array[row].as_py()
        return pa.array(rows, pa.binary())
