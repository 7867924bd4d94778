"""Prefetch byte ranges of objects, and check whole objects before use. Runs in tasks.

Each request costs a round trip. Prefetching starts the next requests while a reader still works on
the current one.
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
"""An object's key and a byte range ``[start, end)``."""


class ByteRangeReader(Protocol):
    """Reads byte ranges of objects. Every ObjectStore implements it."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``. Raise KeyMissingError when the object does not exist."""


class Prefetcher:
    """Implements ``get_range`` of a store, and fetches expected reads in the background.

    One thread calls it. It holds little more than ``ROOM_BYTES`` for all of its readers. The error
    of a background read is raised by the ``get_range`` call that asks for it.
    """

    def __init__(self, store: ByteRangeReader, pool: ThreadPoolExecutor) -> None:
        self._store = store
        self._pool = pool
        self._coming: dict[Read, Future[bytes]] = {}
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether another read can be prefetched."""
        return self._bytes < ROOM_BYTES and len(self._coming) < ROOM_REQUESTS

    def expect(self, read: Read) -> None:
        """Start to fetch a read in the background, unless the limits are reached."""
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
    """Implements ``get_range`` for a reader whose reads are known, and prefetches the next ones."""

    def __init__(self, prefetcher: Prefetcher, reads: Iterable[Read]) -> None:
        self._prefetcher = prefetcher
        self._coming = iter(reads)
        self._asked: set[Read] = set()
        self._bytes = 0
        self._early: set[Read] = set()
        """Reads that the reader requested before they were prefetched."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """See ByteRangeReader."""
        read = key, start, end
        if read in self._asked:
            self._asked.remove(read)
            self._bytes -= end - start
        else:
            self._early.add(read)
        data = self._prefetcher.get_range(*read)
        self._ask()  # only now: earlier requests would slow down the one the reader waits for
        return data

    def _ask(self) -> None:
        while self._bytes < READER_BYTES and len(self._asked) < READER_REQUESTS:
            read = next(self._coming, None) if self._prefetcher.has_room else None
            if read is None:
                return
            if read in self._early:
                self._early.remove(read)
                continue
            self._asked.add(read)
            self._bytes += read[2] - read[1]
            self._prefetcher.expect(read)


def reads_of(entries: Iterable[Entry]) -> Iterator[Read]:
    """Yield the reads of objects that are read whole.

    Large sink objects are left out: ``open_object`` reads them in pieces.
    """
    for entry in entries:
        if entry.format == SEGMENT:
            for start, end in segment_reads(entry.size_bytes, entry.index, entry.range):
                yield entry.key, start, end
        elif entry.size_bytes <= SMALL_BYTES:
            yield entry.key, 0, entry.size_bytes


@contextmanager
def open_prefetcher(store: ByteRangeReader) -> Iterator[Prefetcher]:
    """Open a prefetcher over a store, or return ``store`` if it is a prefetcher already."""
    if isinstance(store, Prefetcher):
        yield store
        return
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="prefetch")
    try:
        yield Prefetcher(store, pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def read_in_order(store: ByteRangeReader, entries: Iterable[Entry]) -> Iterator[SequentialReader]:
    """Open a reader for objects that are read whole, in about the order of ``entries``."""
    with open_prefetcher(store) as prefetcher:
        yield SequentialReader(prefetcher, reads_of(entries))


logger = logging.getLogger(__name__)
PIECE_BYTES = 8 << 20
MEMORY_BYTES = 32 << 20
HINT = "See what is lost with kafkeep verify; restore --allow-missing continues without it."


@contextmanager
def open_object(
    store: ByteRangeReader, entry: Entry, *, memory_bytes: int = MEMORY_BYTES
) -> Iterator[BinaryIO]:
    """Open an object as a seekable file, after its size and SHA-256 match the log.

    The check is needed because formats like JSON have no checksum of their own. Objects larger
    than ``memory_bytes`` are held in a temporary file. An object that does not match is read
    again. Raise DamagedError when the reads agree, TransientError when each read differs.
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
    """Write the object's bytes into ``spool``. Return None when they match the log.

    Otherwise return the problem, and a digest to compare this read with other reads.
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
    """Describe the records that are lost when the object of ``entry`` cannot be read."""
    return (
        f"it held {entry.records} records of {entry.partition_id}, "
        f"offsets {entry.range.start} to {entry.range.end - 1}"
    )


@contextmanager
def naming(entry: Entry) -> Iterator[None]:
    """Add the object's key to errors about its content, and raise them as DamagedError."""
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
