"""Turn the rows of sink objects into record batches that a broker accepts. Runs in tasks.

Segments do not need this: they hold record batches. The converter that wrote a row also rebuilds
the bytes that Kafka had. When it cannot, because a transform changed the value, bytes and strings
keep their bytes and other values become JSON.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.archive.entry import Entry
from kafkeep.errors import PreflightError, RecordError, UsageError
from kafkeep.kafka.batch.layout import CRC_START, HEADER_BYTES
from kafkeep.kafka.batch.rewrite import TARGET_BYTES, ReadyBatch
from kafkeep.numba_setup import (
    Bytes,
    Int64s,
    copy_bytes,
    inlined,
    kernel,
    varlong_size,
    write_varlong,
)
from kafkeep.objects.sink.spec import REGISTERED, ReadOptions
from kafkeep.options.sink.converters import ConverterClass
from kafkeep.options.sink.formats import DecimalText, FormatKind
from kafkeep.records.arrow import frozen, is_valid, view_binary, view_numbers, view_offsets
from kafkeep.records.converters.converter import Converter
from kafkeep.records.converters.open import open_converter
from kafkeep.records.json.decode import decode_spans
from kafkeep.records.json.edit import find_documents
from kafkeep.records.json.encode import constant, json_texts
from kafkeep.records.schema import OPTIONAL_BYTES, OPTIONAL_STRING, Column, Kind, Schema

IN_JSON = {
    ConverterClass.STRING: OPTIONAL_STRING,
    ConverterClass.BYTES: OPTIONAL_BYTES,
    ConverterClass.ALREADY_BYTES: OPTIONAL_BYTES,
    ConverterClass.LONG: Schema(kind=Kind.INT64, optional=True),
    ConverterClass.INTEGER: Schema(kind=Kind.INT32, optional=True),
    ConverterClass.SHORT: Schema(kind=Kind.INT16, optional=True),
    ConverterClass.FLOAT: Schema(kind=Kind.FLOAT32, optional=True),
    ConverterClass.DOUBLE: Schema(kind=Kind.FLOAT64, optional=True),
    ConverterClass.BOOLEAN: Schema(kind=Kind.BOOLEAN, optional=True),
}
"""The schema of a converter's values. JSON objects do not store it."""


class SourceBytes:
    """Rebuilds the source bytes of the rows of one object of values, keys or tombstones."""

    def __init__(self, entry: Entry, options: ReadOptions, topic: str | None = None) -> None:
        """Register schemas for ``topic``, or for the topic of ``entry`` when it is None."""
        self._entry = entry
        self._topic = topic or entry.partition_id.topic
        self._converter_options = options.converter(entry)
        self._null_is_none = null_is_none(entry, options)
        self._registered = (
            self._converter_options is not None and self._converter_options.kind in REGISTERED
        )
        self._registers = self._registered and options.registers

    def restore(self, column: Column) -> pa.BinaryArray:
        """Return the source bytes of a column's rows. A null row stays null."""
        if column.schema is None:
            return self._from_texts(column.array)
        kind = column.schema.kind
        if kind is Kind.BYTES and not column.schema.name:
            return column.array
        try:
            return self._converter.restore(column) if self._converter else as_stored(column)
        except RecordError as error:
            if self._registers:
                raise PreflightError(
                    f"{self._entry.key}: {error.message}", hint=error.hint
                ) from error
            return as_stored(column)

    @cached_property
    def _converter(self) -> Converter | None:
        """The converter; None when it needs a registry whose address is unknown."""
        options = self._converter_options
        if options is None or options.role == "header":
            return None
        if options.kind is ConverterClass.JSON:
            options = replace(options, output={**options.output, "schemas.enable": "true"})
        if self._registered and not self._registers:
            options = replace(options, output={**options.output, "auto.register.schemas": "false"})
        try:
            role: Literal["key", "value"] = "key" if options.role == "key" else "value"
            return open_converter(role, options, self._topic)
        except UsageError:
            return None

    def _from_texts(self, texts: pa.BinaryArray) -> pa.BinaryArray:
        schema = (
            IN_JSON.get(self._converter_options.kind)
            if self._converter_options is not None
            else None
        )
        if schema is None or self._entry.format != FormatKind.JSON:
            return without_nulls(texts) if self._null_is_none else texts
        array, misfits = decode_spans(find_documents(texts), schema)
        assert self._converter is not None
        found = self._converter.restore(Column(schema, array))
        if not misfits:
            return found
        rows = found.to_pylist()
        for row in misfits:
            rows[row] = texts[row].as_py()
        return pa.array(rows, pa.binary())


def null_is_none(entry: Entry, options: ReadOptions) -> bool:
    """Return whether a JSON ``null`` in the object means a record without a value or key."""
    sink = options.sink
    in_line = sink is None or sink.nulls.behavior_on_null_values == "write"
    return in_line or entry.view != "value"


def without_nulls(texts: pa.BinaryArray) -> pa.BinaryArray:
    """Return the texts, with each JSON ``null`` replaced by an Arrow null."""
    lengths = pc.binary_length(texts)
    if not np.any(np.asarray(lengths.fill_null(0)) == len(b"null")):
        return texts
    return pc.if_else(pc.equal(texts, constant(b"null")), pa.nulls(len(texts), pa.binary()), texts)


def as_stored(column: Column) -> pa.BinaryArray:
    """Encode a column without a converter: bytes and strings unchanged, other values as JSON."""
    assert column.schema is not None
    if column.schema.kind in (Kind.BYTES, Kind.STRING):
        return column.array.cast(pa.binary())
    texts = json_texts(column.array, column.schema, DecimalText.BASE64)
    if column.array.null_count:
        return pc.if_else(column.array.is_valid(), texts, pa.nulls(len(texts), pa.binary()))
    return texts


# Compiled code has one integer type, but mypy distinguishes numpy's integers from Python's.
# mypy: disable-error-code="return-value,assignment,arg-type"


Texts: TypeAlias = tuple[Bytes, NDArray[np.int32], Bytes, int]
"""The fields of ``BinaryView``: data, offsets, validity bits, and the bit of the first row."""


@inlined
def _size(texts: Texts, row: int) -> int:
    """Return the encoded size of a value with its length prefix. A null is only the prefix."""
    _, offsets, valid, first = texts
    if not is_valid(valid, first + row):
        return np.int64(1)
    length = np.int64(offsets[row + 1]) - np.int64(offsets[row])
    return varlong_size(length) + length


@inlined
def _put(out: Bytes, at: int, texts: Texts, row: int) -> int:
    data, offsets, valid, first = texts
    if not is_valid(valid, first + row):
        return write_varlong(out, at, np.int64(-1))
    start = np.int64(offsets[row])
    length = np.int64(offsets[row + 1]) - start
    at = write_varlong(out, at, length)
    copy_bytes(out, at, data, start, length)
    return at + length


@kernel
def _append(  # noqa: PLR0917
    out: Bytes,
    state: Int64s,
    timestamps: Int64s,
    keys: Texts,
    values: Texts,
    lists: NDArray[np.int32],
    header_keys: Texts,
    header_values: Texts,
    first: int,
) -> tuple[int, int]:
    """Append records from row ``first`` to ``out`` until one does not fit.

    ``state`` holds position, count, base time and max time. Return the first row that was not
    appended, and its encoded size.
    """
    position, count, base, latest = state[0], state[1], state[2], state[3]
    needed = np.int64(0)
    i = first
    while i < len(timestamps):
        if count == 0:
            base = latest = timestamps[i]
        delta = timestamps[i] - base  # may overflow; the reader's addition overflows back
        begin, end = np.int64(lists[i]), np.int64(lists[i + 1])
        size = 1 + varlong_size(delta) + varlong_size(count)
        size += _size(keys, i) + _size(values, i) + varlong_size(end - begin)
        for j in range(begin, end):
            size += _size(header_keys, j) + _size(header_values, j)
        needed = varlong_size(size) + size
        if position + needed > len(out):
            break
        position = write_varlong(out, position, size)
        out[position] = 0
        position = write_varlong(out, position + 1, delta)
        position = write_varlong(out, position, count)
        position = _put(out, position, keys, i)
        position = _put(out, position, values, i)
        position = write_varlong(out, position, end - begin)
        for j in range(begin, end):
            position = _put(out, position, header_keys, j)
            position = _put(out, position, header_values, j)
        latest = max(latest, timestamps[i])
        count += 1
        i += 1
    state[0], state[1], state[2], state[3] = position, count, base, latest
    return i, needed


def iter_ready_batches(
    records: Iterable[pa.RecordBatch], *, target_bytes: int = TARGET_BYTES
) -> Iterator[ReadyBatch]:
    """Yield records of ``RECORD_SCHEMA``, in the given order, as batches for Produce requests.

    A batch exceeds ``target_bytes`` only if it holds a single record. Batches are not compressed,
    because objects do not record the producer's compression. Memory use is one batch.
    """
    batch = _Batch(target_bytes)
    for piece in records:
        yield from batch.add(piece)
    yield from batch.flush()


class _Batch:
    """Builds one batch at a time."""

    def __init__(self, target_bytes: int) -> None:
        self._room = max(target_bytes, HEADER_BYTES)
        self._out: Bytes = np.empty(self._room, dtype=np.uint8)
        self._state: Int64s = np.array([HEADER_BYTES, 0, 0, 0], dtype=np.int64)
        self._offsets: list[Int64s] = []

    def add(self, piece: pa.RecordBatch) -> Iterator[ReadyBatch]:
        """Add records, and yield each batch that is full."""
        offsets = view_numbers(piece.column("offset"), np.int64)
        headers = piece.column("headers")
        columns = (
            view_numbers(piece.column("timestamp"), np.int64),
            _texts(piece.column("key")),
            _texts(piece.column("value")),
            view_offsets(headers),
            _texts(headers.values.field(0)),
            _texts(headers.values.field(1)),
        )
        first = 0
        while first < piece.num_rows:
            left, needed = _append(self._out, self._state, *columns, first)
            if left > first:
                self._offsets.append(offsets[first:left])
            if left < piece.num_rows and not self._offsets:
                # A record larger than the target gets a batch of its own.
                self._out = np.empty(HEADER_BYTES + int(needed), dtype=np.uint8)
            elif left < piece.num_rows:
                yield from self.flush()
            first = left

    def flush(self) -> Iterator[ReadyBatch]:
        """Yield the open batch, if it holds records."""
        if not self._offsets:
            return
        position, count, base, latest = self._state.tolist()
        body = bytearray(memoryview(self._out)[:position])
        struct.pack_into(">qiibI", body, 0, 0, position - 12, -1, 2, 0)
        struct.pack_into(">hiqq", body, CRC_START, 0, count - 1, base, latest)
        struct.pack_into(">qhii", body, 43, -1, -1, -1, count)
        offsets = np.concatenate(self._offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        self._state[:] = (HEADER_BYTES, 0, 0, 0)
        self._offsets = []
        if len(self._out) != self._room:
            self._out = np.empty(self._room, dtype=np.uint8)
        dense = last - first + 1 == count
        yield ReadyBatch(body, count, first, last, None if dense else offsets)


def _texts(array: pa.Array) -> Texts:
    view = view_binary(array)
    frozen(view.offsets)
    return view.data, view.offsets, view.valid, view.first
