"""What a target partition gets of one archived one: filtered, its times moved. In tasks."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from kafkeep.archive.entry import Entry
from kafkeep.contents.windows import SEGMENT
from kafkeep.kafka.rewrite import TARGET_BYTES, Merger, ReadyBatch
from kafkeep.restore.read import MAX_BATCH_BYTES
from kafkeep.restore.shape import Shape
from kafkeep.restore.shape_rows import SourceRows

_TIMES_AT = 27


def needs_rows(shape: Shape, entries: Iterable[Entry]) -> bool:
    """Whether records must be looked at one by one.

    The times of a batch follow from its header; but records without a time have none to move.
    """
    if shape.filter or shape.changes is not None:
        return True
    timed = all(entry.format == SEGMENT and entry.min_timestamp >= 0 for entry in entries)
    return bool(shape.shift_ms) and not timed


def iter_shaped(source: SourceRows, shape: Shape, skip_records: int = 0) -> Iterator[ReadyBatch]:
    """Yield the records that pass, less the first ``skip_records``, as batches for Produce."""
    if not shape.drops:
        source, skip_records = source.behind(skip_records)
    merger = Merger(TARGET_BYTES, MAX_BATCH_BYTES)
    for rows, codec in source.rows(shape):
        skipped = min(skip_records, len(rows))
        skip_records -= skipped
        if codec != merger.codec:
            yield from merger.flush()
            merger.start(codec)
        yield from merger.add(rows.select(slice(skipped, None)))
    yield from merger.flush()


def shift_headers(batches: Iterable[ReadyBatch], shift_ms: int) -> Iterator[ReadyBatch]:
    """Move the times of whole batches, which are not unpacked for it."""
    for batch in batches:
        base, latest = struct.unpack_from(">qq", batch.body, _TIMES_AT)
        struct.pack_into(">qq", batch.body, _TIMES_AT, base + shift_ms, latest + shift_ms)
        yield batch
