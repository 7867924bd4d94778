"""What the log says of an object of a sink. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.runs import NO_RUNS
from kafkeep.backup.object import Origin
from kafkeep.backup.open_file import Finished
from kafkeep.backup.rotate import Reason
from kafkeep.config.sink import SinkOptions


def entry_of(
    origin: Origin,
    sink: SinkOptions,
    done: Finished,
    window: OffsetRange,
    *,
    parts: int,
    reason: Reason,
) -> Entry:
    """Return the entry of one of the ``parts`` objects of a window; its name is not known yet."""
    return Entry(
        key="to be named",
        partition_id=origin.planned.partition_id,
        topic_id=origin.planned.topic_id,
        range=window,
        records=len(done.offsets),
        min_timestamp=done.min_timestamp,
        max_timestamp=done.max_timestamp,
        size_bytes=done.body.size,
        raw_bytes=done.raw_bytes,
        format=done.format,
        codec=done.codec,
        sha256=done.sha256,
        view=done.view,
        parts=parts,
        closed_by=str(reason),
        converter=_converter(sink, done.view),
        runs=NO_RUNS if len(done.offsets) == len(window) else done.runs,
    )


def _converter(sink: SinkOptions, view: str) -> str:
    if view == "value" and sink.has_envelope:
        return "envelope"
    chosen: Mapping[str, Any] = {
        "value": sink.value,
        "keys": sink.key,
        "tombstones": sink.key,
        "headers": sink.header_converter,
    }
    options = chosen[view]
    return "" if options is None else str(options.kind).rpartition(".")[2]
