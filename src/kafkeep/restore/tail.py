"""Is what stands at a target's end ours? Compared before a restore goes on behind it. In tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import PreflightError
from kafkeep.kafka.batch import scan_batches
from kafkeep.kafka.records import decode
from kafkeep.kafka.rewrite import ReadyBatch
from kafkeep.kafka.wire import FetchWanted, Isolation, Wire

COMPARED = ("timestamp", "key", "value", "headers")


def check_tail(
    wire: Wire,
    topic: str,
    partition: int,
    *,
    topic_id: str,
    last_offset: int,
    expected: Iterator[ReadyBatch],
) -> None:
    """Compare the target's last record with the archived one that belongs there.

    ``expected`` begins with that record. PreflightError when they differ, or when the archive
    has no such record: then the target holds more than this restore wrote.
    """
    ready = next(expected, None)
    if ready is None:
        raise _not_ours(topic, partition, f"it holds more than the archive, up to {last_offset}")
    there = record_at(wire, topic, partition, topic_id=topic_id, offset=last_offset)
    ours = decode(scan_batches(ready.body), range=OffsetRange(0, 1))
    if there != _row(ours):
        raise _not_ours(topic, partition, f"its record at offset {last_offset} is another")


def check_hole(wire: Wire, topic: str, partition: int, *, topic_id: str, offset: int) -> None:
    """PreflightError when a consumer finds a record where there is to be none."""
    if record_at(wire, topic, partition, topic_id=topic_id, offset=offset):
        raise _not_ours(topic, partition, f"it has a record at offset {offset}")


def record_at(
    wire: Wire, topic: str, partition: int, *, topic_id: str, offset: int
) -> list[dict[str, object]]:
    """Return what consumers see at an offset: one record, or none."""
    wanted = FetchWanted(
        topic=topic, topic_id=topic_id, partition=partition, offset=offset, max_bytes=1 << 20
    )
    answer = wire.fetch([wanted], max_bytes=1 << 20, isolation=Isolation.READ_UNCOMMITTED).result()[
        0
    ]
    if answer.error is not None:
        raise answer.error.exception()
    found = scan_batches(answer.records)
    return _row(decode(found.select(~found.is_control), range=OffsetRange(offset, offset + 1)))


def _row(records: pa.RecordBatch) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = records.select(list(COMPARED)).slice(0, 1).to_pylist()
    return rows


def _not_ours(topic: str, partition: int, why: str) -> PreflightError:
    return PreflightError(
        f"{topic}-{partition} is not what this restore wrote: {why}",
        hint="Restore into another topic (--topics a:new-a), or delete this one first.",
    )
