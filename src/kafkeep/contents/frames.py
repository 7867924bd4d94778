"""One frame of a segment object, held against what the log says of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch import Batches, UnsupportedBatchError, check_crcs, scan_batches
from kafkeep.kafka.records import decode
from kafkeep.kafka.segment import unpack_frame
from kafkeep.kafka.unpack import iter_unpacked
from kafkeep.kafka.walk import walk_records


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a frame lies in its object, and what the log's index says of it."""

    number: int
    start: int
    end: int
    point: IndexPoint
    offsets: OffsetRange
    """What of the entry's range this frame answers for."""
    following: int | None
    """The offset the next frame begins at; None for the last."""


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """What a sound frame holds."""

    records: int
    """All of its records, also those outside of the entry's range."""
    wanted: int
    """Those inside of it."""
    raw_bytes: int
    problem: str | None = None
    """What does not agree with the index, or None."""


def plan_frames(entry: Entry) -> list[Frame] | None:
    """Cut an object into the frames of its index; None when the index cannot be right."""
    index = entry.index
    ends = [point.position for point in index[1:]] + [entry.size_bytes]
    if not index or index[0].position != 0 or index[0].offset > entry.range.end:
        return None
    if any(point.position >= end for point, end in zip(index, ends, strict=True)):
        return None
    if any(a.offset >= b.offset or a.records > b.records for a, b in pairwise(index)):
        return None
    starts = [*(point.offset for point in index[1:]), None]
    return [
        Frame(number, point.position, end, point, _answers_for(entry, number), following)
        for number, (point, end, following) in enumerate(zip(index, ends, starts, strict=True))
    ]


def _answers_for(entry: Entry, number: int) -> OffsetRange:
    index, whole = entry.index, entry.range
    start = whole.start if number == 0 else max(index[number].offset, whole.start)
    end = whole.end if number + 1 == len(index) else index[number + 1].offset
    return OffsetRange(start, max(start, min(end, whole.end)))


def check_frame(data: bytes | memoryview, frame: Frame, entry: Entry, *, deep: bool) -> FrameFacts:
    """Unpack a frame and check every batch; DamagedError when it is not sound."""
    raw = unpack_frame(data)
    try:
        batches = scan_batches(raw, partial_tail=False)
    except UnsupportedBatchError as error:
        raise DamagedError(error.message) from error
    if len(batches) == 0:
        raise DamagedError("a frame without record batches")
    check_crcs(batches)
    problem = next(_iter_problems(batches, frame), None)
    if deep:
        low, high = _decode_all(batches)
        if problem is None and low is not None and (low, high) != frame.point[3:]:
            problem = f"record times are {low} to {high}, the index says otherwise"
    records = int(batches.record_counts.sum())
    return FrameFacts(records, _count_inside(batches, entry.range), len(raw), problem)


def _iter_problems(batches: Batches, frame: Frame) -> Iterator[str]:
    if int(batches.base_offsets[0]) != frame.point.offset:
        yield f"begins at offset {int(batches.base_offsets[0])}, not {frame.point.offset}"
    if np.any(batches.base_offsets[1:] <= batches.last_offsets[:-1]):
        yield "offsets of its batches do not ascend"
    if frame.following is not None and int(batches.last_offsets[-1]) >= frame.following:
        yield f"ends at offset {int(batches.last_offsets[-1])}, past {frame.following - 1}"
    if int(batches.max_timestamps.max()) != frame.point.max_timestamp:
        yield "its largest time is not that of the index"


def _count_inside(batches: Batches, range: OffsetRange) -> int:
    inside = (batches.base_offsets >= range.start) & (batches.last_offsets < range.end)
    at_edge = ~inside & (batches.last_offsets >= range.start) & (batches.base_offsets < range.end)
    count = int(batches.record_counts[inside].sum())
    return count + decode(batches.select(at_edge), range=range).num_rows if at_edge.any() else count


def _decode_all(batches: Batches) -> tuple[int | None, int | None]:
    """Go over every record; return the smallest and largest time."""
    low: int | None = None
    high: int | None = None
    last = -1
    for part in iter_unpacked(batches):
        records = walk_records(part)
        if len(records) != int(part.counts.sum()):
            raise DamagedError("a record batch holds fewer records than it says")
        if not len(records):
            continue
        offsets, times = records.offsets, records.timestamps
        if int(offsets[0]) <= last or np.any(offsets[1:] <= offsets[:-1]):
            raise DamagedError(f"record offsets do not ascend after {last}")
        last = int(offsets[-1])
        smallest, largest = int(times.min()), int(times.max())
        low = smallest if low is None else min(low, smallest)
        high = largest if high is None else max(high, largest)
    return low, high
