"""Bytes of objects fetched before their turn: each request costs a round trip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from kafkeep.archive.entry import Entry
from kafkeep.contents.windows import SEGMENT
from kafkeep.kafka.segment import segment_reads

SMALL_BYTES = 1 << 20
ROOM_BYTES = 32 << 20
ROOM_REQUESTS = 64
READER_BYTES = 8 << 20
READER_REQUESTS = 32
THREADS = 8

Read = tuple[str, int, int]
"""An object's key, and its bytes from a start to an end."""


class Ranges(Protocol):
    """What reads bytes of objects: an ObjectStore does."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``; raise KeyMissingError when there is no object."""


class Ahead:
    """A store's ``get_range``, for one thread; what it is told to expect is fetched meanwhile.

    It holds little more than ``ROOM_BYTES``, however many readers share it. What goes wrong with
    a read is raised when its turn comes.
    """

    def __init__(self, store: Ranges, pool: ThreadPoolExecutor) -> None:
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
        """See Ranges."""
        coming = self._coming.pop((key, start, end), None)
        if coming is None:
            return self._store.get_range(key, start, end)
        self._bytes -= end - start
        return coming.result()


class InOrder:
    """The ``get_range`` of one reader whose reads are known: those that follow are expected."""

    def __init__(self, ahead: Ahead, reads: Iterable[Read]) -> None:
        self._ahead = ahead
        self._coming = iter(reads)
        self._asked: set[Read] = set()
        self._bytes = 0
        self._early: set[Read] = set()
        """What was wanted before it was asked for."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """See Ranges."""
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
def open_ahead(store: Ranges) -> Iterator[Ahead]:
    """Open one over a store; one that is given is shared."""
    if isinstance(store, Ahead):
        yield store
        return
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-ahead")
    try:
        yield Ahead(store, pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def read_in_order(store: Ranges, entries: Iterable[Entry]) -> Iterator[InOrder]:
    """Open a reader of objects that will be read whole, about in the order given."""
    with open_ahead(store) as ahead:
        yield InOrder(ahead, reads_of(entries))
