"""Change records during a restore: decode, transform, encode. Runs in tasks.

All restores that change records use this module. Records of segments and envelope objects hold
bytes, which the configured converters decode. Rows of other sink objects are already decoded.

The result depends only on the record and the options, not on the clock or on batch boundaries.
Every attempt of a task therefore makes the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry
from kafkeep.errors import PreflightError, RecordError
from kafkeep.kafka.batch.decode import RECORD_SCHEMA
from kafkeep.kafka.batch.layout import TimestampType
from kafkeep.objects.encode_batches import IN_JSON, as_stored
from kafkeep.objects.sink.read_windows import UNKNOWN
from kafkeep.objects.sink.spec import REGISTERED
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.sink.converters import ConverterClass, ConverterOptions
from kafkeep.records.arrow import number_array, view_numbers
from kafkeep.records.converters.converter import ConvertedRange, Converter, iter_aligned
from kafkeep.records.converters.open import open_converter
from kafkeep.records.json.decode import decode_spans
from kafkeep.records.json.edit import find_documents
from kafkeep.records.partitioners.record_time import Extractor
from kafkeep.records.rows import Rows
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Kind
from kafkeep.records.transforms.chain import open_chain

BYTES = (ConverterClass.BYTES, ConverterClass.ALREADY_BYTES)
_TAKE_BYTES = (*BYTES, ConverterClass.STRING)


class RecordEncoder:
    """Encodes a column of keys or values with a converter.

    Without a converter, bytes and strings keep their bytes and other values become JSON. With
    ``read_only``, the encoder registers no schema, and it encodes values that the converter rejects
    as if there were no converter.
    """

    def __init__(
        self,
        role: Literal["key", "value"],
        options: ConverterOptions | None,
        topic: str,
        *,
        read_only: bool = False,
    ) -> None:
        self._read_only = read_only
        if read_only and options is not None and options.kind in REGISTERED:
            options = replace(options, output={**options.output, "auto.register.schemas": "false"})
        self._kind = options.kind if options is not None else None
        self._converter: Converter | None = (
            open_converter(role, options, topic) if options else None
        )

    def encode(self, column: Column) -> pa.BinaryArray:
        """Return the encoded rows. A null row stays null."""
        if column.array.null_count == len(column):
            return pa.nulls(len(column), pa.binary())
        if self._converter is None:
            return _as_it_stands(column)
        try:
            return self._convert(self._converter, column)
        except RecordError:
            if not self._read_only:
                raise
            return _as_it_stands(column)

    def _convert(self, converter: Converter, column: Column) -> pa.BinaryArray:
        if column.schema is None:
            return self._from_texts(converter, column)
        if is_plain_bytes(column) and self._kind in _TAKE_BYTES:
            return column.array
        return converter.restore(column)

    def _from_texts(self, converter: Converter, column: Column) -> pa.BinaryArray:
        """Parse JSON texts as the strings, numbers or bytes of the converter, and encode them."""
        assert self._kind is not None
        schema = IN_JSON.get(self._kind)
        if schema is None:
            return converter.restore(column)
        array, misfits = decode_spans(find_documents(column.array), schema)
        found = converter.restore(Column(schema, array))
        if not misfits:
            return found
        rows = found.to_pylist()
        for row in misfits:
            rows[row] = column.array[row].as_py()
        return pa.array(rows, pa.binary())


def is_plain_bytes(column: Column) -> bool:
    """Return whether a column holds undecoded bytes."""
    schema = column.schema
    return schema is not None and schema.kind is Kind.BYTES and not schema.name


def _as_it_stands(column: Column) -> pa.BinaryArray:
    return column.array if column.schema is None else as_stored(column)


PlainRole = Literal["key", "value"]
Encode = Callable[[Column], pa.BinaryArray]
ChangeRecords = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]

_HEADERS = RECORD_SCHEMA.field("headers").type
_SIDES: tuple[PlainRole, PlainRole] = ("key", "value")


class RecordChange:
    """Applies the configured converters and transforms to the records of one archived topic.

    ``key`` and ``value`` encode where the options name no converter. Without them, bytes and
    strings keep their bytes and other values become JSON. Bytes that no transform reads stay
    unchanged. With ``encodes_bytes``, the converter encodes those bytes too. For ``read_only`` see
    ``RecordEncoder``.
    """

    def __init__(
        self,
        options: ChangeOptions,
        topic: str,
        *,
        key: Encode | None = None,
        value: Encode | None = None,
        encodes_bytes: bool = False,
        read_only: bool = False,
    ) -> None:
        self.topic = topic
        self._options = options
        self._encodes_bytes = encodes_bytes
        self._chain = open_chain(options.transforms)
        named, target = options.converters, options.target(topic)
        self._encode: dict[PlainRole, Encode] = {}
        own: Mapping[PlainRole, Encode | None] = {"key": key, "value": value}
        for role in _SIDES:
            made = RecordEncoder(role, named.get(role), target, read_only=read_only).encode
            self._encode[role] = made if role in named else own[role] or made
        self._decoders: dict[PlainRole, Converter] = {
            role: open_converter(role, named[role], topic)
            for role in _SIDES
            if options.reads(role) and role in named and named[role].kind not in BYTES
        }

    def apply_to_records(
        self, batch: pa.RecordBatch, partition: int, where: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changed records of ``batch``, which has ``RECORD_SCHEMA``.

        Keys and values that no transform changes keep their exact bytes.
        """
        rows = Rows(
            topic=self.topic,
            partition=partition,
            offsets=view_numbers(batch.column("offset"), np.int64),
            timestamps=view_numbers(batch.column("timestamp"), np.int64),
            key=Column(OPTIONAL_BYTES, batch.column("key")),
            value=Column(OPTIONAL_BYTES, batch.column("value")),
            headers=batch.column("headers"),
        )
        kept = tuple(role for role in _SIDES if not self._options.changes(role))
        for made in self._apply(rows, where, kept=kept):
            yield _filled(made, batch, kept) if kept else made

    def apply(self, rows: Rows, where: str, *, row: int) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows in ``RECORD_SCHEMA``, without those that a Filter drops.

        A record without a timestamp takes it from the configured field. ``row`` is the number of
        the first row in its object. Raise PreflightError, with the row number, when a row cannot
        be converted.
        """
        yield from self._apply(rows, where, row=row)

    def _apply(
        self, rows: Rows, where: str, *, row: int | None = None, kept: tuple[PlainRole, ...] = ()
    ) -> Iterator[pa.RecordBatch]:
        if not len(rows):
            return
        try:
            changed = self._changed(rows, timed=row is not None)
            made = [self._batch(piece, rows, kept) for piece in changed]
        except RecordError as error:
            if len(rows) == 1:
                raise _refused(rows, where, row, error) from error
            half = len(rows) // 2
            second = None if row is None else row + half
            yield from self._apply(rows.slice(0, half), where, row=row, kept=kept)
            yield from self._apply(rows.slice(half, len(rows)), where, row=second, kept=kept)
            return
        yield from made

    def _changed(self, rows: Rows, timed: bool) -> Iterator[Rows]:
        for decoded in self._decoded(rows):
            yield from self._chain.apply(self._with_times(decoded) if timed else decoded)

    def _decoded(self, rows: Rows) -> Iterator[Rows]:
        """Yield rows in which the bytes that transforms read are decoded."""
        plain = [role for role in self._decoders if is_plain_bytes(_side(rows, role))]
        if not plain:
            yield rows
            return
        keys, values = (
            list(self._decoders[role].convert(_side(rows, role).array))
            if role in plain
            else [ConvertedRange(0, len(rows), _side(rows, role))]
            for role in _SIDES
        )
        for start, stop, key, value in iter_aligned(keys, values, len(rows)):
            if isinstance(key, RecordError):
                raise key
            if isinstance(value, RecordError):
                raise value
            yield replace(rows.slice(start, stop), key=key, value=value)

    def _with_times(self, rows: Rows) -> Rows:
        name, unknown = self._options.time_field, rows.timestamps == UNKNOWN
        if name is None or not unknown.any():
            return rows
        found = Extractor("RecordField", name).read_or_kafka(rows, at_ms=UNKNOWN)
        return replace(rows, timestamps=np.where(unknown, found, rows.timestamps).astype(np.int64))

    def _batch(self, made: Rows, rows: Rows, kept: tuple[PlainRole, ...]) -> pa.RecordBatch:
        """Encode rows that were made from ``rows``. The caller fills in the ``kept`` columns."""
        types = np.full(len(made), int(TimestampType.CREATE), dtype=np.int8)
        sides = [
            pa.nulls(len(made), pa.binary()) if role in kept else self._encoded(role, made, rows)
            for role in _SIDES
        ]
        columns = [
            number_array(pa.int64(), made.offsets),
            number_array(pa.int64(), made.timestamps),
            number_array(pa.int8(), types),
            *sides,
            made.headers.cast(_HEADERS),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)

    def _encoded(self, role: PlainRole, made: Rows, rows: Rows) -> pa.BinaryArray:
        column = _side(made, role)
        undecoded = role not in self._decoders and is_plain_bytes(_side(rows, role))
        if undecoded and is_plain_bytes(column) and not self._encodes_bytes:
            return column.array
        return self._encode[role](column)


def open_segment_change(
    options: ChangeOptions, entry: Entry, *, read_only: bool = False
) -> ChangeRecords:
    """Return what changes the records of a segment, batch by batch."""
    change = RecordChange(options, entry.partition_id.topic, read_only=read_only)
    return partial(change.apply_to_records, partition=entry.partition_id.partition, where=entry.key)


def _filled(
    made: pa.RecordBatch, batch: pa.RecordBatch, kept: tuple[PlainRole, ...]
) -> pa.RecordBatch:
    """Copy the ``kept`` columns from the rows of ``batch`` with the same offsets, which ascend."""
    before, after = (view_numbers(one.column("offset"), np.int64) for one in (batch, made))
    places = number_array(pa.int64(), np.searchsorted(before, after).astype(np.int64))
    columns = [
        batch.column(name).take(places) if name in kept else made.column(name)
        for name in RECORD_SCHEMA.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def _side(rows: Rows, role: PlainRole) -> Column:
    return rows.key if role == "key" else rows.value


def _refused(rows: Rows, where: str, row: int | None, error: RecordError) -> PreflightError:
    offset = int(rows.offsets[0])
    place = f"row {row + 1}" if row is not None else ""
    place += f"{', ' if place else ''}offset {offset}" if offset != UNKNOWN else ""
    return PreflightError(
        f"{where}: {place}: {error.message}",
        hint=error.hint or "Name other converters or transforms.",
    )
