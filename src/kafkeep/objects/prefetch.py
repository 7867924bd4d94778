"""Fetch bytes of objects before they are needed, and check whole objects before use. In tasks.

Each request costs a round trip, so the reads that follow are started early.
"""

from __future__ import annotations

import hashlib
import io
import logging
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, Protocol, cast

from kafkeep.archive.document import WHOLE_OBJECT_READS, RepeatedReads
from kafkeep.archive.entry import Entry
from kafkeep.errors import DamagedError, KeyMissingError, RecordError
from kafkeep.objects.segment.format import segment_reads
from kafkeep.objects.sink.read_windows import SEGMENT

SMALL_BYTES = 1 << 20
ROOM_BYTES = 32 << 20
ROOM_REQUESTS = 64
READER_BYTES = 8 << 20
READER_REQUESTS = 32
THREADS = 8

Read = tuple[str, int, int]
"""An object's key, and its bytes from a start to an end."""


class ByteRangeReader(Protocol):
    """What reads bytes of objects: an ObjectStore does."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``; raise KeyMissingError when there is no object."""


class Prefetcher:
    """A store's ``get_range``, for one thread; what it is told to expect is fetched meanwhile.

    It holds little more than ``ROOM_BYTES``, however many readers share it. What goes wrong with
    a read is raised when its turn comes.
    """

    def __init__(self, store: ByteRangeReader, pool: ThreadPoolExecutor) -> None:
        self._store = store
        self._pool = pool
        self._coming: dict[Read, Future[bytes]] = {}
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether something more may be expected."""
        return self._bytes < ROOM_BYTES and len(self._coming) < ROOM_REQUESTS

    def expect(self, read: Read) -> None:
        """Begin to fetch what will be asked for, unless there is no room."""
        if self.has_room and read not in self._coming:
            self._coming[read] = self._pool.submit(self._store.get_range, *read)
            self._bytes += read[2] - read[1]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """See ByteRangeReader."""
        coming = self._coming.pop((key, start, end), None)
        if coming is None:
            return self._store.get_range(key, start, end)
        self._bytes -= end - start
        return coming.result()


class SequentialReader:
    """The ``get_range`` of one reader whose reads are known: those that follow are expected."""

    def __init__(self, ahead: Prefetcher, reads: Iterable[Read]) -> None:
        self._ahead = ahead
        self._coming = iter(reads)
        self._asked: set[Read] = set()
        self._bytes = 0
        self._early: set[Read] = set()
        """What was wanted before it was asked for."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """See ByteRangeReader."""
        read = key, start, end
        if read in self._asked:
            self._asked.remove(read)
            self._bytes -= end - start
        else:
            self._early.add(read)
        data = self._ahead.get_range(*read)
        self._ask()  # not sooner: it would slow down what is waited for
        return data

    def _ask(self) -> None:
        while self._bytes < READER_BYTES and len(self._asked) < READER_REQUESTS:
            read = next(self._coming, None) if self._ahead.has_room else None
            if read is None:
                return
            if read in self._early:
                self._early.remove(read)
                continue
            self._asked.add(read)
            self._bytes += read[2] - read[1]
            self._ahead.expect(read)


def reads_of(entries: Iterable[Entry]) -> Iterator[Read]:
    """Yield how objects that are read whole will be; large ones of a sink go another way."""
    for entry in entries:
        if entry.format == SEGMENT:
            for start, end in segment_reads(entry.size_bytes, entry.index, entry.range):
                yield entry.key, start, end
        elif entry.size_bytes <= SMALL_BYTES:
            yield entry.key, 0, entry.size_bytes


@contextmanager
def open_prefetcher(store: ByteRangeReader) -> Iterator[Prefetcher]:
    """Open one over a store; one that is given is shared."""
    if isinstance(store, Prefetcher):
        yield store
        return
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-ahead")
    try:
        yield Prefetcher(store, pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def read_in_order(store: ByteRangeReader, entries: Iterable[Entry]) -> Iterator[SequentialReader]:
    """Open a reader of objects that will be read whole, about in the order given."""
    with open_prefetcher(store) as ahead:
        yield SequentialReader(ahead, reads_of(entries))


logger = logging.getLogger(__name__)
PIECE_BYTES = 8 << 20
MEMORY_BYTES = 32 << 20
HINT = "See what is lost with kafkeep verify; restore --allow-missing goes on without it."


@contextmanager
def open_object(
    store: ByteRangeReader, entry: Entry, *, memory_bytes: int = MEMORY_BYTES
) -> Iterator[BinaryIO]:
    """Give the object's bytes as a file that can be read from any place.

    Up to ``memory_bytes`` stay in memory, larger ones lie on disk meanwhile. It is read again
    unless size and SHA-256 are those of the log: formats like JSON have no checksum of their own.
    Then it is a DamagedError, or a TransientError where each reading differs.
    """
    with _spool(entry.size_bytes, memory_bytes) as spool:
        readings = RepeatedReads(entry.key, WHOLE_OBJECT_READS)
        while (found := _fill(spool, store, entry)) is not None:
            problem, reading = found
            if readings.is_conclusive(reading):
                raise DamagedError(f"{entry.key}: {problem}; {lost_with(entry)}", hint=HINT)
            logger.warning("%s came damaged: %s", entry.key, problem)
        spool.seek(0)
        yield spool


def _fill(spool: BinaryIO, store: ByteRangeReader, entry: Entry) -> tuple[str, bytes] | None:
    """Write the object's bytes into ``spool``; None when they are the log's.

    Else what is wrong with them, and what tells this reading from another.
    """
    spool.seek(0)
    digest = hashlib.sha256()
    for start in range(0, entry.size_bytes, PIECE_BYTES):
        end = min(start + PIECE_BYTES, entry.size_bytes)
        data = _get(store, entry, start, end)
        digest.update(data)
        if len(data) != end - start:
            return f"asked for bytes {start}..{end}, {len(data)} came", digest.digest()
        spool.write(data)
    same = digest.hexdigest() == entry.sha256
    return None if same else ("its SHA-256 is not that of the log", digest.digest())


def lost_with(entry: Entry) -> str:
    """Say what nobody can read when the object of ``entry`` cannot be read."""
    return (
        f"it held {entry.records} records of {entry.partition_id}, "
        f"offsets {entry.range.start} to {entry.range.end - 1}"
    )


@contextmanager
def naming(entry: Entry) -> Iterator[None]:
    """Put the object's name in front of what is wrong with its content."""
    try:
        yield
    except DamagedError as error:
        if error.message.startswith(entry.key):
            raise
        raise DamagedError(f"{entry.key}: {error.message}", hint=error.hint or HINT) from error
    except RecordError as error:
        raise DamagedError(f"{entry.key}: {error.message}", hint=error.hint) from error


def _spool(size_bytes: int, memory_bytes: int) -> BinaryIO:
    if size_bytes <= memory_bytes:
        return io.BytesIO()
    return cast(BinaryIO, tempfile.TemporaryFile(prefix="kafkeep-object-"))


def _get(store: ByteRangeReader, entry: Entry, start: int, end: int) -> bytes:
    try:
        return store.get_range(entry.key, start, end)
    except KeyMissingError as error:
        raise DamagedError(f"{entry.key} is missing: {lost_with(entry)}", hint=HINT) from error
