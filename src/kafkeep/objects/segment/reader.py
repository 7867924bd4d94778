"""Read segment objects: iterate over batches, check frames, salvage intact frames. Reads the store.

``iter_segment`` yields the checked batches of a range. ``check_frame`` compares one frame with the
index in the log. ``salvage_segment`` returns the intact parts of a damaged object. ``read_end``
finds the end offset of an object from its last frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.scan import Batches, UnsupportedBatchError, check_crcs, scan_batches
from kafkeep.kafka.batch.unpack import iter_unpacked, walk_records
from kafkeep.objects.prefetch import HINT, ByteRangeReader, lost_with
from kafkeep.objects.segment.format import FRAME_BYTES, MAX_FRAME_BYTES, read_segment, unpack_frame
from kafkeep.objects.sink.read_windows import SEGMENT


@dataclass(frozen=True, slots=True)
class SegmentFrame:
    """The byte range of a frame in its object, and its point in the index."""

    number: int
    start: int
    end: int
    point: IndexPoint
    offsets: OffsetRange
    """The part of the entry's range that this frame covers."""
    following: int | None
    """The first offset of the next frame; None for the last frame."""


@dataclass(frozen=True, slots=True)
class FrameContents:
    """The record counts and the size of an intact frame."""

    records: int
    """The number of records, including those outside the entry's range."""
    wanted: int
    """The number of records inside the entry's range."""
    raw_bytes: int
    problem: str | None = None
    """How the frame differs from the index; None when it matches."""


def plan_frames(entry: Entry) -> list[SegmentFrame] | None:
    """Return the frames of an object by its index, or None when the index is inconsistent."""
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
        SegmentFrame(number, point.position, end, point, _answers_for(entry, number), following)
        for number, (point, end, following) in enumerate(zip(index, ends, starts, strict=True))
    ]


def _answers_for(entry: Entry, number: int) -> OffsetRange:
    index, whole = entry.index, entry.range
    start = whole.start if number == 0 else max(index[number].offset, whole.start)
    end = whole.end if number + 1 == len(index) else index[number + 1].offset
    return OffsetRange(start, max(start, min(end, whole.end)))


def check_frame(
    data: bytes | memoryview, frame: SegmentFrame, entry: Entry, *, deep: bool
) -> FrameContents:
    """Decompress a frame and check every batch. Raise DamagedError when it is not intact.

    With ``deep``, also decode every record and compare the timestamps with the index.
    """
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
    return FrameContents(records, _count_inside(batches, entry.range), len(raw), problem)


def _iter_problems(batches: Batches, frame: SegmentFrame) -> Iterator[str]:
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
    """Decode every record. Return the smallest and the largest timestamp."""
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


def iter_segment(
    store: ByteRangeReader,
    entry: Entry,
    range: OffsetRange,
    *,
    aborted: bool = False,
    from_ms: int | None = None,
    until_ms: int | None = None,
) -> Iterator[Batches]:
    """Yield the batches that may hold records of ``range`` and of the given times.

    Batches of aborted transactions are left out unless ``aborted`` is True. Batches at the edge of
    ``range`` are yielded whole. Raise DamagedError, with the object's key and offsets, when
    repeated reads give damaged data.
    """
    try:
        for batches in read_segment(
            lambda start, end: store.get_range(entry.key, start, end),
            entry.size_bytes,
            entry.index,
            range,
            from_ms=from_ms,
            until_ms=until_ms,
            name=entry.key,
        ):
            yield batches if aborted else committed(batches, entry.aborted)
    except KeyMissingError as error:
        raise DamagedError(f"{entry.key} is missing: {lost_with(entry)}", hint=HINT) from error
    except DamagedError as error:
        raise DamagedError(
            f"{entry.key}: {error.message}; {lost_with(entry)}", hint=error.hint or HINT
        ) from error


def committed(batches: Batches, aborted: Sequence[OffsetRange]) -> Batches:
    """Return the batches without those of aborted transactions."""
    if not aborted:
        return batches
    keep = np.ones(len(batches), dtype=np.bool_)
    for stretch in aborted:
        keep &= (batches.base_offsets < stretch.start) | (batches.base_offsets >= stretch.end)
    return batches if keep.all() else batches.select(keep)


IntactFrame = tuple[SegmentFrame, FrameContents]


def salvage_segment(data: bytes, entry: Entry) -> tuple[Entry, ...]:
    """Return one entry for each run of intact frames in a damaged segment.

    The result is empty for other formats. It is also empty when every frame is intact: the damage
    cannot be located then, so no frame can be trusted.
    """
    frames = plan_frames(entry.stored) if entry.format == SEGMENT else None
    if frames is None:
        return ()
    checked = [_checked(data, frame, entry) for frame in frames]
    if None not in checked:
        return ()
    parts = (_part(entry, stretch) for stretch in _stretches(checked))
    return tuple(part for part in parts if part is not None)


def lost_ranges(entry: Entry, parts: Sequence[Entry]) -> Iterator[OffsetRange]:
    """Yield the offsets of an entry that none of its parts covers."""
    reached = entry.range.start
    for part in parts:
        if part.range.start > reached:
            yield OffsetRange(reached, part.range.start)
        reached = part.range.end
    if reached < entry.range.end:
        yield OffsetRange(reached, entry.range.end)


def _checked(data: bytes, frame: SegmentFrame, entry: Entry) -> IntactFrame | None:
    if frame.end > len(data):
        return None
    try:
        facts = check_frame(data[frame.start : frame.end], frame, entry, deep=False)
    except DamagedError:
        return None
    return (frame, facts) if facts.problem is None else None


def _stretches(checked: Sequence[IntactFrame | None]) -> Iterator[list[IntactFrame]]:
    """Yield each run of consecutive intact frames."""
    stretch: list[IntactFrame] = []
    for frame in (*checked, None):
        if frame is not None:
            stretch.append(frame)
        elif stretch:
            yield stretch
            stretch = []


def _part(entry: Entry, stretch: Sequence[IntactFrame]) -> Entry | None:
    """Return an entry for these frames only, or None when they cover no offset of ``entry``.

    The positions in its index are byte positions in the whole object.
    """
    first, last = stretch[0][0], stretch[-1][0]
    range = OffsetRange(first.offsets.start, last.offsets.end).overlap(entry.range)
    if range is None:
        return None
    points = [frame.point for frame, _ in stretch]
    return replace(
        entry,
        range=range,
        records=sum(facts.wanted for _, facts in stretch),
        raw_bytes=sum(facts.raw_bytes for _, facts in stretch),
        size_bytes=last.end,
        index=tuple(p._replace(records=p.records - points[0].records) for p in points),
        min_timestamp=min(point.min_timestamp for point in points),
        max_timestamp=max(point.max_timestamp for point in points),
        whole_end=0,
        whole_records=0,
    )


_MAGIC = b"\x28\xb5\x2f\xfd"
"""The first bytes of a zstd frame. Batches may hold the same bytes, but never an intact frame."""


def read_end(store: ObjectStore, key: str) -> int | None:
    """Return the offset after the last batch.

    Return None when the object does not exist, or does not end with an intact frame.
    """
    try:
        size, wanted = store.head(key).size_bytes, FRAME_BYTES
        while True:
            begin = max(0, size - wanted)
            tail = store.get_range(key, begin, size)
            at = tail.rfind(_MAGIC)
            while at >= 0:
                if (end := _end_of(memoryview(tail)[at:])) is not None:
                    return end
                at = tail.rfind(_MAGIC, 0, at)
            if begin == 0 or wanted > MAX_FRAME_BYTES:
                return None
            wanted *= 8
    except KeyMissingError:
        return None  # deleted after the listing


def _end_of(frame: memoryview) -> int | None:
    try:
        raw = unpack_frame(frame)
        batches = scan_batches(raw, partial_tail=False)
        check_crcs(batches)
    except (DamagedError, UnsupportedBatchError):
        return None
    return int(batches.last_offsets[-1]) + 1 if len(batches) else None
