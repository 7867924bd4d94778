"""The bytes of unfinished objects: in memory, or on disk when all exceed the memory limit."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kafkeep.store.spill import Body, Spill

BUFFERED_BYTES = 32 << 20
"""The memory limit for all buffered objects of this process."""
_READ_BYTES = 1 << 20


class _Budget:
    """Counts the buffered bytes of all threads, which share one file on disk."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._buffered = 0
        self._changing = threading.RLock()
        self.spill = Spill()

    def change(self, by: int) -> bool:
        """Add to the buffered bytes. Return whether they exceed the limit."""
        with self._changing:
            self._buffered += by
            return self._buffered > self._limit


BUDGET = _Budget(BUFFERED_BYTES)


class BufferedBytes:
    """The buffered bytes of one object, which http.client reads as a file.

    ``read`` returns about 1 MiB. http.client asks for less, but sends all it gets.
    """

    def __init__(self, budget: _Budget = BUDGET) -> None:
        self._budget = budget
        self._body = Body(budget.spill)
        self._rest: Iterator[bytes] = iter(())
        self._read = 0

    def __len__(self) -> int:
        return self._body.size

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def __del__(self) -> None:
        self.clear()  # in case the writer was dropped without abort

    def add(self, data: bytes) -> None:
        """Add bytes. Move this object to disk when all objects together exceed the limit."""
        self._body.add(data)
        if self._budget.change(len(data)):
            self._to_disk()

    def to_send(self) -> bytes | BufferedBytes:
        """Return the body of a request: a single chunk as bytes, or else this file."""
        self.seek(0)
        chunk = self._body.single_chunk()
        return self if chunk is None else chunk

    def clear(self) -> None:
        """Discard all bytes."""
        self._budget.change(-self._body.in_memory)
        self._body.drop()
        self.seek(0)

    def _to_disk(self) -> None:
        freed = self._body.in_memory
        self._body.to_disk()
        self._budget.change(-freed)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, about 1 MiB, or the rest when ``size`` is negative."""
        found, length = [], 0
        while length < _READ_BYTES or size < 0:
            chunk = next(self._rest, None)
            if chunk is None:
                break
            found.append(chunk)
            length += len(chunk)
        self._read += length
        return b"".join(found)

    def seek(self, position: int, whence: int = 0) -> int:
        """Seek to the beginning or to the end. http.client needs nothing else."""
        if position or whence == 1:
            raise OSError("can only seek to the beginning and the end")
        self._rest = iter(()) if whence else iter(self._body)
        self._read = len(self) if whence else 0
        return self._read

    def tell(self) -> int:
        """Return the position in the file."""
        return self._read
