"""The segment format: zstd frames that hold whole record batches. Pure functions over bytes.

Each frame is independent and holds about 1 MiB of batches, or a single larger batch. A reader with
the index fetches and decompresses only the frames it needs. ``zstd -d`` turns the whole object into
a plain Kafka log segment. A frame has a checksum of its content, because Kafka's CRC does not cover
the base offset of a batch. Frames from older versions of kafkeep have no checksum.

Batches that the producer compressed are compressed again at level 1. It passes such bytes through
at 3.5 GB/s on the machine this was measured on, so a separate code path would gain nothing.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import zstandard

from kafkeep.archive.document import RepeatedReads
from kafkeep.archive.entry import IndexPoint, OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.scan import (
    NO_RECORD,
    Batches,
    UnsupportedBatchError,
    check_crcs,
    scan_batches,
)
from kafkeep.numba_setup import Int64s

logger = logging.getLogger(__name__)
_of_thread = threading.local()
FRAME_BYTES = 1 << 20
READ_BYTES = 4 << 20
"""The size of one read request when several consecutive frames are needed."""
FIRST_READ_BYTES = 1 << 20
"""The size of the first read request. It is smaller, so that the reader starts sooner."""
MAX_FRAME_BYTES = 256 << 20
"""The largest valid frame size. A frame holds 1 MiB or a single batch, and the Kafka client accepts
no larger response from a broker. A frame that claims more is damaged or malicious."""

GetRange = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """The index, counts and sizes of a finished segment, for its entry.

    The timestamps are -1 when the segment holds no batch.
    """

    index: tuple[IndexPoint, ...]
    records: int
    min_timestamp: int
    max_timestamp: int
    raw_bytes: int
    size_bytes: int


class SegmentEncoder:
    """Packs batches into frames, in the given order.

    The same batches always give the same bytes, however they are split over calls of ``add``.
    Between calls, the encoder holds at most one frame in memory.
    """

    def __init__(self, *, level: int = 1, frame_bytes: int = FRAME_BYTES) -> None:
        self._compressor = zstandard.ZstdCompressor(
            level=level, write_content_size=True, write_checksum=True
        )
        self._frame_bytes = frame_bytes
        self._pending: list[memoryview] = []
        self._pending_bytes = 0
        self._open: IndexPoint | None = None
        self._index: list[IndexPoint] = []
        self._records = 0
        self._raw_bytes = 0
        self._size_bytes = 0

    @property
    def raw_bytes(self) -> int:
        """The size of the batches added so far."""
        return self._raw_bytes

    @property
    def records(self) -> int:
        """The number of records added so far."""
        return self._records

    def add(self, batches: Batches, min_timestamps: Int64s) -> Iterator[bytes]:
        """Add batches in offset order, and yield the full frames. Exhaust the iterator.

        ``min_timestamps`` holds one value for each batch, from the function of that name. The
        buffer of the batches may be reused when the iterator is exhausted.
        """
        ends = np.cumsum(batches.sizes, dtype=np.int64).tolist()
        done, count = 0, len(ends)
        while done < count:
            before = ends[done - 1] if done else 0
            room = self._frame_bytes - self._pending_bytes
            stop = bisect_right(ends, before + room)
            if stop <= done and self._pending_bytes:
                yield self._close_frame()
                continue
            stop = max(stop, done + 1)  # a batch larger than a frame gets its own frame
            self._take(batches, min_timestamps, slice(done, stop))
            done = stop
        self._pending = [memoryview(b"".join(self._pending))] if self._pending else []

    def finish(self) -> tuple[bytes, SegmentSummary]:
        """Return the last frame, which may be empty, and the summary. Call it once, at the end."""
        last = self._close_frame() if self._pending_bytes else b""
        summary = SegmentSummary(
            index=tuple(self._index),
            records=self._records,
            min_timestamp=min((point.min_timestamp for point in self._index), default=-1),
            max_timestamp=max((point.max_timestamp for point in self._index), default=-1),
            raw_bytes=self._raw_bytes,
            size_bytes=self._size_bytes,
        )
        return last, summary

    def _take(self, batches: Batches, min_timestamps: Int64s, part: slice) -> None:
        high = int(batches.max_timestamps[part].max())
        low = int(min_timestamps[part].min())
        low = high if low == NO_RECORD else low
        if self._open is None:
            offset = int(batches.base_offsets[part.start])
            self._open = IndexPoint(offset, self._size_bytes, self._records, low, high)
        else:
            self._open = self._open._replace(
                min_timestamp=min(self._open.min_timestamp, low),
                max_timestamp=max(self._open.max_timestamp, high),
            )
        self._pending.append(batches.packed(part))
        size = len(self._pending[-1])
        self._pending_bytes += size
        self._raw_bytes += size
        self._records += int(batches.record_counts[part].sum())

    def _close_frame(self) -> bytes:
        assert self._open is not None
        whole = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        frame = self._compressor.compress(whole)
        self._index.append(self._open)
        self._size_bytes += len(frame)
        self._open, self._pending, self._pending_bytes = None, [], 0
        return frame


def wanted_frames(
    index: Sequence[IndexPoint],
    range: OffsetRange | None = None,
    *,
    from_ms: int | None = None,
    until_ms: int | None = None,
) -> list[int]:
    """Return the numbers of the frames that may hold records of ``range`` and ``[from, until)``.

    None means no limit.
    """
    return [
        number
        for number, point in enumerate(index)
        if (range is None or point.offset < range.end)
        and (range is None or number + 1 == len(index) or index[number + 1].offset > range.start)
        and (from_ms is None or point.max_timestamp >= from_ms)
        and (until_ms is None or point.min_timestamp < until_ms)
    ]


def segment_reads(
    size_bytes: int, index: Sequence[IndexPoint], range: OffsetRange | None = None
) -> list[tuple[int, int]]:
    """Return the byte ranges ``[start, end)`` that ``read_segment`` requests."""
    ends = _ends(index, size_bytes)
    return [
        (index[stretch[0]].position, ends[stretch[-1]])
        for stretch in _stretches(wanted_frames(index, range), index, ends)
    ]


def read_segment(
    get_range: GetRange,
    size_bytes: int,
    index: Sequence[IndexPoint],
    range: OffsetRange | None = None,
    *,
    from_ms: int | None = None,
    until_ms: int | None = None,
    name: str = "a segment",
) -> Iterator[Batches]:
    """Yield the batches that may hold the wanted records, one frame at a time, in offset order.

    Only the needed frames are fetched, about ``READ_BYTES`` per request. Batches entirely outside
    ``range`` are left out. Batches at the edge of ``range`` are yielded whole. The times select
    frames, not batches, so some batches may be outside the times. A frame that does not decompress
    to whole batches with valid CRCs is fetched again. Raise DamagedError when it stays damaged.
    ``name`` is the object's name in log messages.
    """
    ends = _ends(index, size_bytes)
    frames = wanted_frames(index, range, from_ms=from_ms, until_ms=until_ms)
    for stretch in _stretches(frames, index, ends):
        start, end = index[stretch[0]].position, ends[stretch[-1]]
        data = memoryview(get_range(start, end))
        for frame in stretch:
            place = (index[frame].position, ends[frame])
            part = data[place[0] - start : place[1] - start]
            yield _within(_read_batches(get_range, part, *place, name), range)


def _read_batches(
    get_range: GetRange, data: bytes | memoryview, start: int, end: int, name: str
) -> Batches:
    """Return the batches of the frame at ``[start, end)``. ``data`` is the first read of it."""
    readings = RepeatedReads(f"{name} from byte {start} on")
    while True:
        try:
            return _checked_batches(data, start, end)
        except DamagedError as error:
            if readings.is_conclusive(data):
                raise
            logger.warning("reading %s again from byte %d on: %s", name, start, error.message)
        data = get_range(start, end)


def _checked_batches(data: bytes | memoryview, start: int, end: int) -> Batches:
    if len(data) != end - start:
        raise DamagedError(f"asked for bytes {start}..{end}, {len(data)} came")
    try:
        batches = scan_batches(unpack_frame(data), partial_tail=False)
    except UnsupportedBatchError as error:
        raise DamagedError(error.message) from error
    check_crcs(batches)
    return batches


def _ends(index: Sequence[IndexPoint], size_bytes: int) -> list[int]:
    return [point.position for point in index[1:]] + [size_bytes]


def _stretches(
    frames: list[int], index: Sequence[IndexPoint], ends: Sequence[int]
) -> Iterator[list[int]]:
    """Group consecutive frames into reads of about ``READ_BYTES``."""
    stretch: list[int] = []
    most = FIRST_READ_BYTES
    for frame in frames:
        apart = stretch and frame != stretch[-1] + 1
        if stretch and (apart or ends[frame] - index[stretch[0]].position > most):
            yield stretch
            stretch = []
            most = READ_BYTES
        stretch.append(frame)
    if stretch:
        yield stretch


def _decompressor() -> zstandard.ZstdDecompressor:
    """Return the decompressor of this thread. A new one for each frame takes a third longer."""
    if not hasattr(_of_thread, "decompressor"):
        _of_thread.decompressor = zstandard.ZstdDecompressor()
    found: zstandard.ZstdDecompressor = _of_thread.decompressor
    return found


def unpack_frame(frame: bytes | memoryview) -> bytes:
    """Decompress one frame. Raise DamagedError unless ``frame`` is exactly one intact frame."""
    try:
        size = zstandard.get_frame_parameters(frame).content_size
        if size > MAX_FRAME_BYTES:
            raise DamagedError(f"a zstd frame claims {size} bytes")
        return _decompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamagedError(f"not an intact zstd frame: {error}") from error


def _within(batches: Batches, range: OffsetRange | None) -> Batches:
    if range is None:
        return batches
    return batches.select(
        (batches.last_offsets >= range.start) & (batches.base_offsets < range.end)
    )
