"""The ``RangeWriter`` protocol, and the parts that both implementations share. Runs in tasks.

``objects.segment.writer.SegmentWriter`` stores record batches unchanged.
``objects.sink.writer.SinkWriter`` stores files in the format of a sink.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.kafka.batch.scan import Batches

MAX_NAMES = 32
"""Names to try for one object while other writers' objects have them. Each adds one zero."""
AT_ONCE = 2
"""Concurrent uploads. Each may hold its object in memory until the upload ends."""
SMALL_AT_ONCE = 8
"""Concurrent uploads of small objects. Each is one request and costs little more than latency."""
SMALL_BYTES = 1 << 20
"""Objects of up to this size are small."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of a range that one Fetch response covers: the batches to keep, and its end.

    The next chunk begins at ``end``. ``gap`` precedes the batches of the chunk. ``aborted`` lists
    the kept batches that belong to aborted transactions.
    """

    batches: Batches | None
    end: int
    aborted: tuple[OffsetRange, ...] = ()
    gap: OffsetRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTail:
    """Records after the last closed window. They stay in Kafka until a rule closes their window."""

    records: int
    bytes: int
    base_time: int | None
    """The timestamp, in ms, of the first record that has one."""
    read_to: int

    def to_json(self) -> dict[str, Any]:
        """Return the form that a task reports."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """The offset up to which a range is archived, and the records that were left out."""

    archived_to: int
    tail: SinkTail | None = None
    bad: int = 0
    """The number of bad records that were skipped because of errors.tolerance."""
    complaints: tuple[str, ...] = ()
    """Descriptions of the first bad records."""


class RangeWriter(Protocol):
    """Stores the records of one planned range as objects.

    The caller adds chunks in offset order, ends the range once, waits for the uploads, and then
    calls ``finish`` and ``report``. It always calls ``abort`` last, also after an error.
    """

    ends_when_full: bool
    """Set when the time is over: a writer that streams begins no object after the open one."""

    @property
    def is_filling(self) -> bool:
        """True while a writer that streams has an object open."""

    @property
    def streams(self) -> bool:
        """Whether data leaves memory while the range is read.

        Ranges that stream are read several at a time. A range that does not stream keeps its files
        in memory until it ends, so such ranges are read one by one.
        """

    @property
    def closed(self) -> int:
        """The number of closed objects (segments) or windows (sink). 0: nothing is archived yet."""

    @property
    def resume_at(self) -> int | None:
        """The offset to read next after ``add``. None: the end of the chunk."""

    def add(self, chunk: Chunk, first: int) -> None:
        """Add a chunk. ``first`` is the first offset that belongs to the range."""

    def end(self, position: int, *, finished: bool) -> None:
        """End the open objects at ``position``. ``finished`` means the whole range was read."""

    def finish(self) -> list[Entry]:
        """Send the dead letters of the range, and return the entries of all objects.

        The caller calls it after all uploads have succeeded.
        """

    def report(self, position: int) -> WriteReport:
        """Report how far the range is archived. It was read up to ``position``."""

    def abort(self) -> None:
        """Discard open objects, which never become visible. Safe to call after ``finish``."""


class Uploads:
    """Uploads objects in the background, a few at a time, while the next records are read.

    An object counts as stored only after ``wait`` returns. ``wait`` raises the error of a failed
    upload. Leaving the context waits even after an error, so that no upload outlives its attempt.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SMALL_AT_ONCE, thread_name_prefix="upload")
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def add(self, finish: Callable[[], None], *, size_bytes: int) -> None:
        """Run ``finish`` in the background. Block while the maximum of uploads is running."""
        at_once = SMALL_AT_ONCE if size_bytes <= SMALL_BYTES else AT_ONCE
        while len(self._pending) >= at_once:
            self.wait_one()
        self._pending.append(self._threads.submit(finish))

    def wait_one(self) -> bool:
        """Wait for the oldest upload. Return False when no upload is running."""
        if not self._pending:
            return False
        self._pending.popleft().result()
        return True

    def wait(self) -> None:
        """Wait until all uploads have ended."""
        while self.wait_one():
            pass
