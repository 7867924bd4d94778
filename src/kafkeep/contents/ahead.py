"""Small objects fetched before their turn: a sink's are many, and each costs a round trip."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from kafkeep.archive.entry import Entry

SMALL_BYTES = 1 << 20
AHEAD_BYTES = 16 << 20
AHEAD_OBJECTS = 32
THREADS = 8


class Ranges(Protocol):
    """What reads bytes of objects: an ObjectStore does."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``; raise KeyMissingError when there is no object."""


class ReadAhead:
    """A store's ``get_range`` for objects that will be read whole, about in the order given.

    What goes wrong with an object is raised when its turn comes.
    """

    def __init__(self, store: Ranges, entries: Iterable[Entry], pool: ThreadPoolExecutor) -> None:
        self._store = store
        self._coming = (entry for entry in entries if entry.size_bytes <= SMALL_BYTES)
        self._pool = pool
        self._waiting: OrderedDict[str, tuple[int, Future[bytes]]] = OrderedDict()
        self._bytes = 0
        self._read: set[str] = set()
        """What was wanted before it was asked for."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """See ObjectStore."""
        self._ask()
        size, future = self._waiting.pop(key, (0, None))
        self._bytes -= size
        if future is None or (start, end) != (0, size):
            self._read.add(key)
            return self._store.get_range(key, start, end)
        return future.result()

    def _ask(self) -> None:
        while self._bytes < AHEAD_BYTES and len(self._waiting) < AHEAD_OBJECTS:
            entry = next(self._coming, None)
            if entry is None:
                return
            if entry.key in self._read:
                continue
            size = entry.size_bytes
            future = self._pool.submit(self._store.get_range, entry.key, 0, size)
            self._waiting[entry.key] = (size, future)
            self._bytes += size


@contextmanager
def read_ahead(store: Ranges, entries: Iterable[Entry]) -> Iterator[ReadAhead]:
    """Open one; what was fetched and not used is dropped at the end."""
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read-ahead")
    try:
        yield ReadAhead(store, entries, pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
