"""The protocol for writing one planned range, and what its two implementations share. In tasks.

``objects.segment.writer.SegmentWriter`` stores record batches as they are;
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
from kafkeep.kafka.batch.format import Batches

MAX_NAMES = 32
"""Names tried for one object, each with one more zero, while objects of others have them."""
AT_ONCE = 2
"""Uploads under way at a time. Each may hold its object in memory until the store has it."""
SMALL_AT_ONCE = 8
"""The same for objects that are one request each: they cost little but the round trip."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one Fetch response adds to a range: the batches to keep, and how far it was read.

    ``end`` is where the next chunk begins; ``gap`` lies before the chunk's batches. ``aborted``
    marks kept batches of aborted transactions.
    """

    batches: Batches | None
    end: int
    aborted: tuple[OffsetRange, ...] = ()
    gap: OffsetRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTail:
    """Records after the last closed window: read, and left in Kafka until a rule closes them."""

    records: int
    bytes: int
    base_time: int | None
    """Time of the first of them that has one, in ms."""
    read_to: int

    def to_json(self) -> dict[str, Any]:
        """Return the form that a task reports."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """How far a range is archived, and what was left out of it."""

    archived_to: int
    tail: SinkTail | None = None
    bad: int = 0
    """Records left out as errors.tolerance allows."""
    complaints: tuple[str, ...] = ()
    """What was wrong with the first of them."""


class RangeWriter(Protocol):
    """Stores the records of one planned range as objects.

    The caller adds chunks in offset order, ends the range once, waits for the uploads, and then
    calls ``finish`` and ``report``. It calls ``abort`` in the end, whatever happened.
    """

    @property
    def streams(self) -> bool:
        """Whether data leaves memory while the range is read.

        Ranges that stream are read side by side. A range that does not stream keeps its files in
        memory until it ends, so such ranges are read one after the other.
        """

    @property
    def closed(self) -> int:
        """How often the writer has completed what was open: nothing counts before the first."""

    @property
    def resume_at(self) -> int | None:
        """Where reading continues after ``add``, if not behind the chunk."""

    def add(self, chunk: Chunk, first: int) -> None:
        """Take a chunk. ``first`` is where the range's own records begin."""

    def end(self, position: int, *, finished: bool) -> None:
        """End the open objects at ``position``; ``finished`` when the whole range was read."""

    def finish(self) -> list[Entry]:
        """Return the entries of all objects, after the uploads have succeeded.

        Sends the dead letters of the range before it returns.
        """

    def report(self, position: int) -> WriteReport:
        """Describe what was written of the range, which was read up to ``position``."""

    def abort(self) -> None:
        """Drop what is open; nothing of it becomes visible. Safe to call after ``finish``."""


class Uploads:
    """Finishes objects in the background, a few at a time, while the next records are read.

    Nothing counts as stored before ``wait`` has returned; it raises the error of an upload that
    failed. Leaving the context by an error waits too, so that no upload outlives its attempt.
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

    def add(self, finish: Callable[[], None], *, is_small: bool = False) -> None:
        """Run ``finish`` soon; blocks while enough uploads are under way."""
        while len(self._pending) >= (SMALL_AT_ONCE if is_small else AT_ONCE):
            self.wait_one()
        self._pending.append(self._threads.submit(finish))

    def wait_one(self) -> bool:
        """Wait for the oldest upload; return False when none was under way."""
        if not self._pending:
            return False
        self._pending.popleft().result()
        return True

    def wait(self) -> None:
        """Wait until everything is stored."""
        while self.wait_one():
            pass
