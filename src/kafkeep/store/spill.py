"""Buffer unfinished objects in memory, and then in one file on disk. Runs in tasks."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from kafkeep.store.local.files import faults

READ_BYTES = 4 << 20


Extent = tuple[int, int]
"""A position in the file, and a number of bytes."""
BUFFERED_BYTES = 32 << 20
"""The memory limit for all buffered objects of this process."""
_SEND_BYTES = 1 << 20


class Spill:
    """One temporary file for many objects, so that a thousand objects need one descriptor.

    Freed space is reused. The file is never larger than the most bytes it held at one time.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._end = 0
        self._free: list[Extent] = []
        self._freed: deque[Extent] = deque()
        self._changing = threading.Lock()

    def append(self, data: bytes) -> int:
        """Write ``data`` at the end and return its position."""
        return self._write(data, self._allocate_end)[0][0]

    def put(self, data: bytes) -> list[Extent]:
        """Write ``data`` into free space and return its extents, in order."""
        return self._write(data, self._allocate)

    def _write(self, data: bytes, allocate: Callable[[int], list[Extent]]) -> list[Extent]:
        try:
            with self._changing, faults(f"keeping bytes of an object in {tempfile.gettempdir()}"):
                if self._file is None:
                    self._file, path = tempfile.mkstemp(prefix="kafkeep-spill-")
                    os.unlink(path)  # the system frees it with the process, also after kill -9
                extents = allocate(len(data))
                try:
                    _write(self._file, extents, memoryview(data))
                except OSError:
                    self._freed.extend(extents)
                    raise
                return extents
        finally:
            self._reclaim()

    def read(self, start: int, size: int) -> Iterator[bytes]:
        """Yield the bytes of an extent in chunks."""
        assert self._file is not None
        while size:
            chunk = os.pread(self._file, min(size, READ_BYTES), start)
            yield chunk
            start += len(chunk)
            size -= len(chunk)

    def free(self, extents: Iterable[Extent]) -> None:
        """Free these extents. Never block, because an object may be dropped during ``put``."""
        self._freed.extend(extents)
        self._reclaim()

    def close(self) -> None:
        """Delete the file. Later writes begin a new one."""
        with self._changing:
            self._close()

    def __del__(self) -> None:
        self.close()  # in case the upload of a window failed

    def _allocate(self, size: int) -> list[Extent]:
        """Allocate free space first, then space at the end."""
        taken = []
        while size and self._free:
            start, length = self._free.pop(0)
            used = min(size, length)
            taken.append((start, used))
            size -= used
            if used < length:
                self._free.insert(0, (start + used, length - used))
        return taken + self._allocate_end(size) if size else taken

    def _allocate_end(self, size: int) -> list[Extent]:
        self._end += size
        return [(self._end - size, size)]

    def _reclaim(self) -> None:
        """Reclaim freed extents. If another thread holds the lock, that thread does it."""
        while self._freed and self._changing.acquire(blocking=False):
            try:
                free = [*self._free]
                while self._freed:
                    free.append(self._freed.popleft())
                self._free = merged(sorted(free))
                self._shorten()
            finally:
                self._changing.release()

    def _shorten(self) -> None:
        if self._file is None or not self._free or sum(self._free[-1]) < self._end:
            return
        self._end = self._free.pop()[0]
        if not self._end:
            self._close()
            return
        with suppress(OSError):
            os.ftruncate(self._file, self._end)

    def _close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
        self._file, self._end, self._free = None, 0, []
        self._freed.clear()


def _write(file: int, extents: Iterable[Extent], view: memoryview) -> None:
    for start, size in extents:
        done = 0
        while done < size:
            done += os.pwrite(file, view[done:size], start + done)
        view = view[size:]


def merged(extents: Iterable[Extent]) -> list[Extent]:
    """Return extents with adjacent ones merged."""
    found: list[Extent] = []
    for start, size in extents:
        if found and sum(found[-1]) == start:
            before, length = found.pop()
            found.append((before, length + size))
        else:
            found.append((start, size))
    return found


class Body:
    """The bytes of one object: the oldest on disk, the newest in memory."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._written: list[Extent] = []
        self._newest: list[bytes] = []
        self.in_memory = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Add bytes."""
        if data:
            self._newest.append(data)
            self.in_memory += len(data)
            self.size += len(data)

    def to_disk(self) -> None:
        """Move the bytes in memory to disk."""
        for data in self._newest:
            self._written[-1:] = merged([*self._written[-1:], *self._spill.put(data)])
        self._newest, self.in_memory = [], 0

    def drop(self) -> None:
        """Discard all bytes and free their space on disk."""
        self._spill.free(self._written)
        self._written, self._newest = [], []
        self.in_memory = self.size = 0

    def single_chunk(self) -> bytes | None:
        """Return all bytes if they are a single chunk in memory, or else None."""
        return self._newest[0] if len(self._newest) == 1 and not self._written else None

    def __iter__(self) -> Iterator[bytes]:
        for start, size in self._written:
            yield from self._spill.read(start, size)
        yield from self._newest


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
        while length < _SEND_BYTES or size < 0:
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
