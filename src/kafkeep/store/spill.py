"""The bytes of many objects in the making: in memory, then in one file on disk. In tasks."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress

from kafkeep.store.disk import faults

READ_BYTES = 4 << 20


class Spill:
    """One file that many objects share, so that a thousand of them cost one descriptor."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._end = 0
        self._growing = threading.Lock()

    def append(self, data: bytes) -> int:
        """Write ``data`` behind everything else and return where it begins."""
        with self._growing, faults(f"keeping bytes of an object in {tempfile.gettempdir()}"):
            if self._file is None:
                self._file, path = tempfile.mkstemp(prefix="kafkeep-spill-")
                os.unlink(path)  # gone with its last reader, also after kill -9
            start = self._end
            view = memoryview(data)
            while view:
                written = os.pwrite(self._file, view, self._end)
                self._end += written
                view = view[written:]
            return start

    def read(self, start: int, size: int) -> Iterator[bytes]:
        """Yield what lies there, in pieces."""
        assert self._file is not None
        while size:
            piece = os.pread(self._file, min(size, READ_BYTES), start)
            yield piece
            start += len(piece)
            size -= len(piece)

    def close(self) -> None:
        """Give the space back; what is appended later begins anew."""
        with self._growing:
            if self._file is not None:
                with suppress(OSError):
                    os.close(self._file)
            self._file, self._end = None, 0

    def __del__(self) -> None:
        self.close()  # a window whose upload failed has nobody else to do it


class Body:
    """An object's bytes so far: written ones on disk, the newest in memory."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._written: list[tuple[int, int]] = []
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
            start = self._spill.append(data)
            if self._written and sum(self._written[-1]) == start:
                before, size = self._written.pop()
                self._written.append((before, size + len(data)))
            else:
                self._written.append((start, len(data)))
        self._newest, self.in_memory = [], 0

    def only_piece(self) -> bytes | None:
        """Return all of it when it is one piece in memory."""
        return self._newest[0] if len(self._newest) == 1 and not self._written else None

    def __iter__(self) -> Iterator[bytes]:
        for start, size in self._written:
            yield from self._spill.read(start, size)
        yield from self._newest
