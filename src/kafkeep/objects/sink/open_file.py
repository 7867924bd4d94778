"""One open file of a window: encodes rows into an object of values. Runs in tasks.

If the options ask for it, the file has separate objects for keys and headers (``ViewFormats``).

``MemoryTrimmer`` returns freed memory to the system. Workers normally keep freed memory, because
allocating it again is expensive (``spark.jvm.WORKER_MEMORY``). Over time the free fragments add up
to more than the memory in use.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.archive.offset_runs import NO_RUNS, OffsetRuns
from kafkeep.objects.formats.envelope import to_envelope
from kafkeep.objects.formats.format import Encoder, Format
from kafkeep.objects.formats.open import open_format
from kafkeep.options.sink.formats import FormatKind
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.records.compatibility import project
from kafkeep.records.converters.headers import open_headers
from kafkeep.records.rows import Rows
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Kind, Schema, arrow_type
from kafkeep.store.spill import Body, Spill

MORE_BYTES = 200 << 20
"""The growth of a worker after its first task from which it returns memory."""
STEP_BYTES = 16 << 20
"""The growth after which to try again. Memory in use cannot be returned."""
_STATM = Path("/proc/self/statm")
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class MemoryTrimmer:
    """Limits the memory of this process on Linux with glibc. Does nothing on other systems."""

    def __init__(self, more_bytes: int = MORE_BYTES) -> None:
        self._allowed = self._due = _first_bytes() + more_bytes

    def save(self) -> None:
        """Return free memory to the system when the process exceeds its limit."""
        if _trim is not None and resident_bytes() > self._due:
            _trim(0)
            self._due = max(self._allowed, resident_bytes() + STEP_BYTES)


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 if the system does not report it."""
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@cache
def _first_bytes() -> int:
    return resident_bytes()


class ViewFormats:
    """The formats of a sink's objects: one each for values, keys and headers."""

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

    @property
    def keys_have_schema(self) -> bool:
        """Whether keys are stored in a format whose schema states if they may be null."""
        kind = self.sink.format.keys_format_class
        return "keys" in self.formats and kind in (FormatKind.AVRO, FormatKind.PARQUET)

    def extension(self, view: str) -> str:
        """Return the file extension of a view's objects."""
        return ("" if view == "value" else f".{view}") + self.formats[view].extension

    @property
    def longest_extension(self) -> str:
        """The extension with the most bytes."""
        return max(map(self.extension, self.formats), key=lambda text: len(text.encode()))

    def is_nulls(self, view: str, rows: Rows) -> bool:
        """Return whether all rows are null. An object of any schema accepts such rows."""
        if view == "keys":
            return bool(rows.key.array.null_count == len(rows))
        in_line = view == "value" and self._writes_nulls and not self.sink.has_envelope
        return in_line and bool(rows.value.array.null_count == len(rows))

    def nulls(self, schema: Schema | None, count: int) -> Column:
        """Return a column of ``count`` nulls with a schema of values or keys."""
        kind = pa.binary() if schema is None else arrow_type(schema)
        return optional(Column(schema, pa.nulls(count, kind)))

    def schema_of_nulls(self, view: str, schema: Schema | None) -> Schema | None:
        """Return the schema of an object that holds only nulls, whose rows had ``schema``."""
        if view != "keys":
            return schema and schema.as_optional()
        as_bytes = self.sink.format.keys_format_class is FormatKind.BYTES
        return OPTIONAL_BYTES if as_bytes else None  # None: written as a JSON null

    def column(self, view: str, rows: Rows) -> Column:
        """Return the column to write into the objects of a view."""
        if view == "keys":
            # Keep a required schema if possible: a restore rebuilds the bytes of keys from it.
            has_room = rows.key.array.null_count or not self.keys_have_schema
            return optional(rows.key) if has_room else rows.key
        if view == "headers":
            style = self.sink.format.headers_format_class.value
            return self._headers.convert(rows.headers, style)  # type: ignore[arg-type]
        if self.sink.has_envelope:
            return to_envelope(rows, rows.key.array, rows.value.array)
        return optional(rows.value) if self._writes_nulls else rows.value


def optional(column: Column) -> Column:
    """Return a column that may hold nulls."""
    if column.schema is None:
        return _with_json_nulls(column)
    array = column.array
    if array.null_count and column.schema.kind is Kind.STRUCT:
        array = _with_members(array, column.schema)
    return Column(column.schema.as_optional(), array)


def _with_members(array: pa.StructArray, schema: Schema) -> pa.StructArray:
    """Return structs in which required members of a null are not null, as Parquet requires."""
    if not schema.fields:
        return array
    members = [
        array.field(i) if field.schema.optional else _without_nulls(array.field(i), field.schema)
        for i, field in enumerate(schema.fields)
    ]
    fields = list(array.type)
    return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())


def _without_nulls(array: pa.Array, schema: Schema) -> pa.Array:
    if not array.null_count:
        return array
    if schema.kind is Kind.STRUCT:
        whole = _with_members(array, schema)
        return pa.StructArray.from_arrays(
            [whole.field(i) for i in range(array.type.num_fields)], fields=list(array.type)
        )
    inner = [array.values] if schema.kind in (Kind.ARRAY, Kind.MAP) else None
    buffers = [None, *array.buffers()[1 : array.type.num_buffers]]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, offset=array.offset, children=inner
    )


def _with_json_nulls(column: Column) -> Column:
    if column.schema is not None or column.array.null_count == 0:
        return column
    return Column(None, column.array.fill_null(pa.scalar(b"null", pa.binary())))


MAX_RUNS = 100_000
"""The maximum of runs in an entry. More would take too much space in the log."""
TOMBSTONES = "tombstones"


@dataclass(frozen=True, slots=True)
class FileLocation:
    """The location of a file: topic and directory, and whether it holds tombstones."""

    topic: str
    path: str
    tombstones: bool = False


@dataclass(slots=True)
class OpenObject:
    """One object of an open file: its values, keys or headers."""

    encoder: Encoder
    schema: Schema | None
    body: Body
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def take(self, data: bytes) -> None:
        """Add encoded bytes to the body and the digest."""
        self.body.add(data)
        self.digest.update(data)

    @property
    def in_memory(self) -> int:
        """The number of bytes held in memory."""
        return self.body.in_memory + self.encoder.buffered_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedObject:
    """One complete object that has no name yet."""

    place: FileLocation
    view: str
    extension: str
    format: str
    codec: str
    first: int
    """The offset of its first row. It becomes part of the name."""
    offsets: NDArray[np.int64]
    min_timestamp: int
    max_timestamp: int
    raw_bytes: int
    """The size of its records in Kafka. For keys and headers, the size of the object."""
    body: Body
    sha256: str

    @property
    def runs(self) -> OffsetRuns:
        """The offsets of its rows as runs; empty when there are too many runs."""
        edges = np.flatnonzero(np.diff(self.offsets) != 1) + 1
        if len(edges) >= MAX_RUNS:
            return NO_RUNS
        firsts = self.offsets[np.concatenate([[0], edges])]
        lasts = self.offsets[np.concatenate([edges - 1, [len(self.offsets) - 1]])]
        return OffsetRuns.of(np.stack([firsts, lasts + 1], axis=1))


class OpenFile:
    """One open file: an object of values, and optional objects of keys and headers."""

    def __init__(self, views: ViewFormats, place: FileLocation, spill: Spill) -> None:
        self._views = views
        self._place = place
        self._spill = spill
        self._offsets: list[NDArray[np.int64]] = []
        self._weight = 0
        self._low, self._high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        self._nulls: dict[str, int] = {}
        """For each view, the number of nulls before the first row that has a schema."""
        self._null_schema: Schema | None = None
        self.parts: dict[str, OpenObject] = {}
        self._names = [v for v in views.formats if not (place.tombstones and v == "value")]

    def prepare(self, rows: Rows) -> dict[str, tuple[OpenObject, Column]]:
        """Return the column for each object. Raise RecordError when an object refuses a row."""
        found = {}
        for view in self._names:
            column = self._views.column(view, rows)
            part = self.parts.get(view)
            if self._views.is_nulls(view, rows):
                if part is not None:
                    column = self._views.nulls(part.schema, len(rows))
                elif view == "value" or column.schema is None:
                    continue  # these nulls are written after a row brings a schema
            if part is None:
                column = optional(column) if view in self._nulls else column
                part = self._begin(view, column.schema)
            elif part.schema != column.schema and part.schema and column.schema:
                column = project(column, part.schema)
            part.encoder.check(column)
            found[view] = part, column
        return found

    @property
    def takes_null_keys(self) -> bool:
        """Whether the schema of the keys so far allows nulls."""
        part = self.parts.get("keys")
        return part is None or part.schema is None or part.schema.optional

    def _begin(self, view: str, schema: Schema | None) -> OpenObject:
        return OpenObject(self._views.formats[view].encoder(schema), schema, Body(self._spill))

    def take(self, prepared: PreparedRows, weight: int) -> None:
        """Add prepared rows. ``weight`` is their size in Kafka."""
        rows = prepared.rows
        self._weight += weight
        self._offsets.append(rows.offsets)
        self._low = min(self._low, int(rows.timestamps.min()))
        self._high = max(self._high, int(rows.timestamps.max()))
        for view in self._names:
            if view not in prepared.columns:
                self._nulls[view] = self._nulls.get(view, 0) + len(rows)
                self._null_schema = rows.value.schema if view == "value" else self._null_schema
        for view, (part, column) in prepared.columns.items():
            self._take_nulls(view, part)
            part.take(part.encoder.add(column))

    def _take_nulls(self, view: str, part: OpenObject) -> None:
        """Add an object to the file if it is new, and write the nulls that preceded its rows."""
        self.parts[view] = part
        if count := self._nulls.pop(view, 0):
            part.take(part.encoder.add(self._views.nulls(part.schema, count)))

    def finish(self) -> Iterator[FinishedObject]:
        """Complete and yield the objects of the file."""
        offsets = np.concatenate(self._offsets)
        for view in tuple(self._nulls):
            schema = self._views.schema_of_nulls(view, self._null_schema)
            self._take_nulls(view, self._begin(view, schema))
        for view, part in sorted(self.parts.items(), key=lambda one: self._names.index(one[0])):
            part.take(part.encoder.finish())
            written_as = self._views.formats[view]
            kinds = self._views.sink.format
            kind = {
                "value": kinds.format_class,
                "keys": kinds.keys_format_class,
                "headers": kinds.headers_format_class,
            }[view]
            yield FinishedObject(
                place=self._place,
                view=TOMBSTONES if self._place.tombstones and view == "keys" else view,
                extension=self._views.extension(view),
                format=str(kind),
                codec=written_as.codec,
                first=int(offsets[0]),
                offsets=offsets,
                min_timestamp=self._low,
                max_timestamp=self._high,
                raw_bytes=self._weight if view == "value" else part.body.size,
                body=part.body,
                sha256=part.digest.hexdigest(),
            )


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Rows of one file as columns of its objects, not added yet."""

    place: FileLocation
    file: OpenFile
    rows: Rows
    columns: Mapping[str, tuple[OpenObject, Column]]
