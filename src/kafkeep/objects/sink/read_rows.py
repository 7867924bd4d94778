"""Read the rows of sink objects and the records of files, with optional changes. Runs in tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry
from kafkeep.errors import DamagedError, PreflightError
from kafkeep.kafka.batch.decode import RECORD_SCHEMA
from kafkeep.kafka.batch.layout import TimestampType
from kafkeep.objects.encode_batches import SourceBytes, null_is_none, without_nulls
from kafkeep.objects.formats.bytes import BytesFormat
from kafkeep.objects.formats.envelope import KAFKA_RECORD, from_envelope
from kafkeep.objects.formats.format import Format
from kafkeep.objects.formats.open import open_format
from kafkeep.objects.prefetch import HINT, ByteRangeReader, naming, open_object
from kafkeep.objects.record_changes import BYTES, Encode, RecordChange, RecordEncoder
from kafkeep.objects.sink.read_windows import UNKNOWN, RowOffsets, StoredFile
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.sink.formats import FormatKind
from kafkeep.records.arrow import number_array
from kafkeep.records.converters.headers import headers_from_column
from kafkeep.records.json.decode import decode_spans
from kafkeep.records.json.edit import find_documents
from kafkeep.records.json.text import check_texts
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import OPTIONAL_BYTES, Column, Kind

_HEADERS = RECORD_SCHEMA.field("headers").type
_NO_HEADER = pa.nulls(0, _HEADERS.value_type)  # pa.array would import pandas


def iter_columns(
    store: ByteRangeReader, entry: Entry, options: ReadOptions, *, memory_bytes: int
) -> Iterator[Column]:
    """Yield the rows of an object in pieces, and compare their number with the log.

    The size and SHA-256 of the object are checked before the first row. Each JSON text is checked
    too.
    """
    with naming(entry), open_object(store, entry, memory_bytes=memory_bytes) as source:
        yield from iter_source(source, entry, options)


def iter_source(source: BinaryIO, entry: Entry, options: ReadOptions) -> Iterator[Column]:
    """Yield the rows of an open object whose checksum was already checked."""
    stored_as = options.format(entry)
    form = open_format(stored_as.format_class, stored_as)
    if isinstance(form, BytesFormat):
        columns = form.read(source, single=entry.records == 1)
    else:
        columns = form.read(source)
    found = 0
    for column in columns:
        if found + len(column) > entry.records:
            raise _miscounted(entry, form, f"more than {entry.records}")
        yield (
            check_documents(column, found) if stored_as.format_class is FormatKind.JSON else column
        )
        found += len(column)
    if found != entry.records:
        raise _miscounted(entry, form, str(found))


def _miscounted(entry: Entry, form: Format, found: str) -> DamagedError | PreflightError:
    if isinstance(form, BytesFormat):
        # The SHA-256 matches, so the object is not damaged: a value holds the separator.
        return PreflightError(
            f"{entry.key}: its {entry.records} records cannot be separated: split at the "
            f"separator they are {found}",
            hint="Bytes objects give back records that do not hold their separator, or are alone "
            "in their object (flush.size=1).",
        )
    return DamagedError(f"{found} rows, the log says {entry.records}", hint=HINT)


def check_documents(column: Column, before: int) -> Column:
    """Return ``column``. Raise DamagedError, with the line number, when a text is not JSON."""
    checked = check_texts(column.array)
    if len(checked.bad):
        row = int(checked.bad[0])
        raise DamagedError(f"line {before + row + 1} is not JSON: {checked.why(row)}")
    return column


def iter_file(
    store: ByteRangeReader, file: StoredFile, options: ReadOptions, *, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file in ``RECORD_SCHEMA``, in the order they were written.

    Missing offsets and timestamps are ``UNKNOWN``. Missing keys are null, missing headers empty.
    """
    if options.changes is not None:
        yield from iter_changed_file(store, file, options, memory_bytes=memory_bytes)
        return
    if file.whole:
        for column in iter_columns(store, file.main, options, memory_bytes=memory_bytes):
            with naming(file.main):
                yield from_whole(column)
        return
    views = [
        _iter_bytes(store, file.main, options, memory_bytes),
        _iter_bytes(store, file.keys, options, memory_bytes),
        _iter_headers(store, file.headers, options, memory_bytes),
    ]
    offsets = RowOffsets(file.main)
    tombstones = file.main.view == "tombstones"
    done = 0
    for main, keys, headers in _aligned(views, file.main.records):
        rows = len(main)
        yield _batch(
            offsets.rows(done, done + rows),
            np.full(rows, time_of(file.main), dtype=np.int64),
            main if tombstones else keys,
            pa.nulls(rows, pa.binary()) if tombstones else main,
            headers,
        )
        done += rows


def time_of(entry: Entry) -> int:
    """Return the timestamp of the rows if all have the same one, else ``UNKNOWN``."""
    return entry.min_timestamp if entry.min_timestamp == entry.max_timestamp else UNKNOWN


def _iter_bytes(
    store: ByteRangeReader, entry: Entry | None, options: ReadOptions, memory_bytes: int
) -> Iterator[pa.BinaryArray] | None:
    if entry is None:
        return None
    original = SourceBytes(entry, options)
    return _iter_changed(store, entry, options, memory_bytes, original.restore)


def _iter_headers(
    store: ByteRangeReader, entry: Entry | None, options: ReadOptions, memory_bytes: int
) -> Iterator[pa.ListArray] | None:
    if entry is None:
        return None
    stored_as = options.converter(entry)
    return _iter_changed(
        store, entry, options, memory_bytes, lambda column: headers_from_column(column, stored_as)
    )


def _iter_changed(
    store: ByteRangeReader,
    entry: Entry,
    options: ReadOptions,
    memory_bytes: int,
    change: Callable[[Column], pa.Array],
) -> Iterator[pa.Array]:
    for column in iter_columns(store, entry, options, memory_bytes=memory_bytes):
        with naming(entry):
            yield change(column)


def _aligned(
    views: list[Iterator[pa.Array] | None], records: int
) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
    """Yield pieces of equal length from the objects. Missing keys are null, headers empty."""
    waiting: list[pa.Array | None] = [None, None, None]
    left = records
    while left:
        for i, view in enumerate(views):
            if view is not None and not waiting[i]:
                waiting[i] = next(view)
        rows = min(left, *(len(array) for array in waiting if array))
        cut = [None if array is None else array.slice(0, rows) for array in waiting]
        waiting = [None if array is None else array.slice(rows) for array in waiting]
        yield (
            cut[0],
            pa.nulls(rows, pa.binary()) if cut[1] is None else cut[1],
            _no_headers(rows) if cut[2] is None else cut[2],
        )
        left -= rows
    for view in views:
        for _ in view or ():  # read each object to its end, to detect damage there
            pass


def _no_headers(rows: int) -> pa.ListArray:
    lists = pa.py_buffer(np.zeros(rows + 1, dtype=np.int32))
    return pa.Array.from_buffers(_HEADERS, rows, [None, lists], children=[_NO_HEADER])


def from_whole(column: Column) -> pa.RecordBatch:
    """Convert envelope rows to ``RECORD_SCHEMA``. Raise DamagedError for any other rows."""
    if column.schema is None:
        array, misfits = decode_spans(find_documents(column.array), KAFKA_RECORD)
        if misfits:
            raise DamagedError(f"a row is no Kafka record: {next(iter(misfits.values()))}")
        column = Column(KAFKA_RECORD, array)
    try:
        found = from_envelope(column)
    except TypeError as error:
        raise DamagedError("its rows are no Kafka records") from error
    return _batch(
        found["offset"], found["timestamp"], found["key"], found["value"], found["headers"]
    )


def _batch(
    offsets: np.ndarray | pa.Array,
    times: np.ndarray | pa.Array,
    keys: pa.BinaryArray,
    values: pa.BinaryArray,
    headers: pa.ListArray,
) -> pa.RecordBatch:
    types = np.full(len(keys), int(TimestampType.CREATE), dtype=np.int8)
    columns = [
        offsets if isinstance(offsets, pa.Array) else number_array(pa.int64(), offsets),
        times if isinstance(times, pa.Array) else number_array(pa.int64(), times),
        number_array(pa.int8(), types),
        keys,
        values,
        headers,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def iter_changed_file(
    store: ByteRangeReader, file: StoredFile, options: ReadOptions, *, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the changed records of a file in ``RECORD_SCHEMA``. A Filter may drop some.

    Raise PreflightError when the options cannot be applied to a row.
    """
    pid, where = file.main.partition_id, file.main.key
    change = _open_change(file, options)
    if file.whole:
        for column in iter_columns(store, file.main, options, memory_bytes=memory_bytes):
            with naming(file.main):
                records = from_whole(column)
            yield from change.apply_to_records(records, pid.partition, where)
        return
    done = 0
    for rows in _iter_rows(store, file, options, memory_bytes):
        yield from change.apply(rows, where, row=done)
        done += len(rows)


def _open_change(file: StoredFile, options: ReadOptions) -> RecordChange:
    """Open the converters and transforms of the options, or else the converters in the log.

    A transform may make keys for records that had none. No object of keys exists then, so the key
    converter comes from the options of the sink.
    """
    changes = options.changes
    assert changes is not None
    topic = file.main.partition_id.topic
    make = partial(RecordChange, changes, topic, read_only=not options.registers)
    if options.unlogged is not None or file.whole:
        return make(encodes_bytes=options.unlogged is not None)
    target = changes.target(topic)

    def own(entry: Entry | None) -> Encode | None:
        return SourceBytes(entry, options, target).restore if entry is not None else None

    tombstones = file.main.view == "tombstones"
    key = own(file.main if tombstones else file.keys)
    key_options = options.sink.key_converter if options.sink is not None else None
    if key is None and key_options is not None and key_options.kind not in BYTES:
        key = RecordEncoder("key", key_options, target).encode
    return make(key=key, value=None if tombstones else own(file.main))


def _iter_rows(
    store: ByteRangeReader, file: StoredFile, options: ReadOptions, memory_bytes: int
) -> Iterator[Rows]:
    """Yield the decoded rows of a file. Missing parts are null, empty or ``UNKNOWN``."""
    main, offsets, done = file.main, RowOffsets(file.main), 0
    tombstones = main.view == "tombstones"
    header_options = None
    if options.unlogged is not None:
        header_options = options.unlogged.converters.get("header")
    elif file.headers is not None:
        header_options = options.converter(file.headers)
    for values, keys, headers in _changed_aligned(store, file, options, memory_bytes):
        count = len(values)
        yield Rows(
            topic=main.partition_id.topic,
            partition=main.partition_id.partition,
            offsets=offsets.rows(done, done + count),
            timestamps=np.full(count, time_of(main), dtype=np.int64),
            key=values if tombstones else keys or _nothing(count),
            value=_nothing(count) if tombstones else values,
            headers=_no_changed_headers(count)
            if headers is None
            else headers_from_column(headers, header_options),
        )
        done += count


def _nothing(rows: int) -> Column:
    return Column(OPTIONAL_BYTES, pa.nulls(rows, pa.binary()))


def _no_changed_headers(rows: int) -> pa.ListArray:
    return pa.array([[]] * rows, HEADERS_TYPE)


def _changed_aligned(
    store: ByteRangeReader, file: StoredFile, options: ReadOptions, memory_bytes: int
) -> Iterator[tuple[Column, Column | None, Column | None]]:
    """Yield pieces of equal length from the objects of a file; None for a missing object."""
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
        for _ in view or ():  # read each object to its end, to detect damage there
            pass


def _iter_named(
    store: ByteRangeReader, entry: Entry, options: ReadOptions, memory_bytes: int
) -> Iterator[Column]:
    nulls = null_is_none(entry, options)
    for column in iter_columns(store, entry, options, memory_bytes=memory_bytes):
        with naming(entry):
            yield _plain(column, nulls)


def _plain(column: Column, nulls: bool) -> Column:
    """Unwrap keys from the ``RecordKey`` struct of Parquet, which has one member.

    With ``nulls``, replace each JSON null by an Arrow null.
    """
    schema = column.schema
    if schema is not None and schema.kind is Kind.STRUCT and schema.name == "RecordKey":
        return Column(schema.fields[0].schema, column.array.field(0))
    if schema is None and nulls:
        return Column(None, without_nulls(column.array))
    return column
