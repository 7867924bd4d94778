"""The bytes of many objects in the making: in memory, then in one file on disk. In tasks."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from kafkeep.store.local_files import faults

READ_BYTES = 4 << 20


Place = tuple[int, int]
"""Where bytes lie in the file, and how many."""


class Spill:
    """One file that many objects share, so that a thousand of them cost one descriptor.

    What is given back is written over by the next: the file is never larger than what lay in it
    at one time.
    """

    def __init__(self) -> None:
        self._file: int | None = None
        self._end = 0
        self._free: list[Place] = []
        self._given_back: deque[Place] = deque()
        self._changing = threading.Lock()

    def append(self, data: bytes) -> int:
        """Write ``data`` behind everything else and return where it begins."""
        return self._write(data, self._take_new)[0][0]

    def put(self, data: bytes) -> list[Place]:
        """Write ``data`` where there is room and return where it lies, in order."""
        return self._write(data, self._take)

    def _write(self, data: bytes, take: Callable[[int], list[Place]]) -> list[Place]:
        try:
            with self._changing, faults(f"keeping bytes of an object in {tempfile.gettempdir()}"):
                if self._file is None:
                    self._file, path = tempfile.mkstemp(prefix="kafkeep-spill-")
                    os.unlink(path)  # gone with its last reader, also after kill -9
                places = take(len(data))
                try:
                    _write(self._file, places, memoryview(data))
                except OSError:
                    self._given_back.extend(places)
                    raise
                return places
        finally:
            self._settle()

    def read(self, start: int, size: int) -> Iterator[bytes]:
        """Yield what lies there, in pieces."""
        assert self._file is not None
        while size:
            piece = os.pread(self._file, min(size, READ_BYTES), start)
            yield piece
            start += len(piece)
            size -= len(piece)

    def give_back(self, places: Iterable[Place]) -> None:
        """Need these bytes no longer. Never waits: an object may be dropped inside ``put``."""
        self._given_back.extend(places)
        self._settle()

    def close(self) -> None:
        """Give the space back; what is appended later begins anew."""
        with self._changing:
            self._close()

    def __del__(self) -> None:
        self.close()  # a window whose upload failed has nobody else to do it

    def _take(self, size: int) -> list[Place]:
        """Find room: where others were, and only then behind everything else."""
        taken = []
        while size and self._free:
            start, length = self._free.pop(0)
            used = min(size, length)
            taken.append((start, used))
            size -= used
            if used < length:
                self._free.insert(0, (start + used, length - used))
        return taken + self._take_new(size) if size else taken

    def _take_new(self, size: int) -> list[Place]:
        self._end += size
        return [(self._end - size, size)]

    def _settle(self) -> None:
        """Make room of what was given back; whoever is inside does it when they leave."""
        while self._given_back and self._changing.acquire(blocking=False):
            try:
                free = [*self._free]
                while self._given_back:
                    free.append(self._given_back.popleft())
                self._free = joined(sorted(free))
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
        self._given_back.clear()


def _write(file: int, places: Iterable[Place], view: memoryview) -> None:
    for start, size in places:
        done = 0
        while done < size:
            done += os.pwrite(file, view[done:size], start + done)
        view = view[size:]


def joined(places: Iterable[Place]) -> list[Place]:
    """Return them with neighbours made one."""
    found: list[Place] = []
    for start, size in places:
        if found and sum(found[-1]) == start:
            before, length = found.pop()
            found.append((before, length + size))
        else:
            found.append((start, size))
    return found


class Body:
    """An object's bytes so far: written ones on disk, the newest in memory."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._written: list[Place] = []
        self._newest: list[bytes] = []
        self.in_memory = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Take bytes."""
        if data:
            self._newest.append(data)
            self.in_memory += len(data)
            self.size += len(data)

    def to_disk(self) -> None:
        """Free the memory."""
        for data in self._newest:
            self._written[-1:] = joined([*self._written[-1:], *self._spill.put(data)])
        self._newest, self.in_memory = [], 0

    def drop(self) -> None:
        """Forget everything; others may have the room on disk."""
        self._spill.give_back(self._written)
        self._written, self._newest = [], []
        self.in_memory = self.size = 0

    def only_piece(self) -> bytes | None:
        """Return all of it when it is one piece in memory."""
        return self._newest[0] if len(self._newest) == 1 and not self._written else None

    def __iter__(self) -> Iterator[bytes]:
        for start, size in self._written:
            yield from self._spill.read(start, size)
        yield from self._newest
