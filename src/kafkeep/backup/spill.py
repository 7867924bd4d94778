"""The bytes of many objects in the making: in memory, then in one file on disk. In tasks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress

READ_BYTES = 4 << 20


class Spill:
    """One file that many objects share, so that a thousand of them cost one descriptor."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._end = 0

    def append(self, data: bytes) -> int:
        """Write ``data`` behind everything else and return where it begins."""
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
        """Give the space back."""
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None

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
        if self._newest:
            data = b"".join(self._newest)
            self._written.append((self._spill.append(data), len(data)))
            self._newest, self.in_memory = [], 0

    def __iter__(self) -> Iterator[bytes]:
        for start, size in self._written:
            yield from self._spill.read(start, size)
        yield from self._newest
