"""Rows of a sink's objects made records again, changed on the way. In tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import Entry
from kafkeep.contents.ahead import Ranges
from kafkeep.contents.change import Change, Encode
from kafkeep.contents.encode import BYTES, Encoder
from kafkeep.contents.options import ReadOptions
from kafkeep.contents.original import Original, null_is_none, without_nulls
from kafkeep.contents.rows import from_whole, iter_columns, time_of
from kafkeep.contents.spool import naming
from kafkeep.contents.windows import Offsets, StoredFile
from kafkeep.converters.headers import headers_from_column
from kafkeep.data.column import OPTIONAL_BYTES, Column
from kafkeep.data.rows import HEADERS_TYPE, Rows
from kafkeep.data.schema import Kind


def iter_changed_file(
    store: Ranges, file: StoredFile, options: ReadOptions, *, memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield what becomes of a file's records in ``RECORD_SCHEMA``; some may be left out.

    PreflightError when rows cannot become what the options want.
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


def _open_change(file: StoredFile, options: ReadOptions) -> Change:
    """Open what the options name; where they name no converter, the log's counts if there is one.

    Keys may be made of values that had none: then no object tells how.
    """
    changes = options.changes
    assert changes is not None
    topic = file.main.partition_id.topic
    make = partial(Change, changes, topic, looking=not options.registers)
    if options.foreign is not None or file.whole:
        return make(encodes_bytes=options.foreign is not None)
    target = changes.target(topic)

    def own(entry: Entry | None) -> Encode | None:
        return Original(entry, options, target).restore if entry is not None else None

    tombstones = file.main.view == "tombstones"
    key = own(file.main if tombstones else file.keys)
    told = options.sink.key_converter if options.sink is not None else None
    if key is None and told is not None and told.kind not in BYTES:
        key = Encoder("key", told, target).encode
    return make(key=key, value=None if tombstones else own(file.main))


def _iter_rows(
    store: Ranges, file: StoredFile, options: ReadOptions, memory_bytes: int
) -> Iterator[Rows]:
    """Yield the rows of a file as values; what it does not hold is null, empty or unknown."""
    main, offsets, done = file.main, Offsets(file.main), 0
    tombstones = main.view == "tombstones"
    told = None
    if options.foreign is not None:
        told = options.foreign.converters.get("header")
    elif file.headers is not None:
        told = options.converter(file.headers)
    for values, keys, headers in _aligned(store, file, options, memory_bytes):
        count = len(values)
        yield Rows(
            topic=main.partition_id.topic,
            partition=main.partition_id.partition,
            offsets=offsets.rows(done, done + count),
            timestamps=np.full(count, time_of(main), dtype=np.int64),
            key=values if tombstones else keys or _nothing(count),
            value=_nothing(count) if tombstones else values,
            headers=_no_headers(count) if headers is None else headers_from_column(headers, told),
        )
        done += count


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
    nulls = null_is_none(entry, options)
    for column in iter_columns(store, entry, options, memory_bytes=memory_bytes):
        with naming(entry):
            yield _plain(column, nulls)


def _plain(column: Column, nulls: bool) -> Column:
    """Take Parquet's envelope from keys: ``RecordKey`` has one member."""
    schema = column.schema
    if schema is not None and schema.kind is Kind.STRUCT and schema.name == "RecordKey":
        return Column(schema.fields[0].schema, column.array.field(0))
    if schema is None and nulls:
        return Column(None, without_nulls(column.array))
    return column
