"""Bytes that wait for their object to be sent: in memory, and on disk where that is too much."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kafkeep.store.spill import Body, Spill

HELD_BYTES = 32 << 20
"""What all objects on their way from this process hold in memory."""
_SENT_BYTES = 1 << 20


class _Budget:
    """Counts what is held, by any thread; those that go to disk share one file."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._changing = threading.RLock()
        self.spill = Spill()

    def change(self, by: int) -> bool:
        """Add to what is held; tell whether that is too much."""
        with self._changing:
            self._held += by
            return self._held > self._limit


BUDGET = _Budget(HELD_BYTES)


class HeldBytes:
    """The bytes of one object until it is sent; a file that is read, for http.client.

    That asks for little and takes what it is given, here about 1 MiB.
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
        self.clear()  # of a writer that was dropped

    def add(self, data: bytes) -> None:
        """Take bytes; where all objects hold too much by now, this one's go to disk."""
        self._body.add(data)
        if self._budget.change(len(data)):
            self._to_disk()

    def to_send(self) -> bytes | HeldBytes:
        """Return what to give to a request: bytes where they are one piece, else a file."""
        self.seek(0)
        piece = self._body.only_piece()
        return self if piece is None else piece

    def clear(self) -> None:
        """Forget everything."""
        self._budget.change(-self._body.in_memory)
        self._body.drop()
        self.seek(0)

    def _to_disk(self) -> None:
        freed = self._body.in_memory
        self._body.to_disk()
        self._budget.change(-freed)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, about 1 MiB; all that are left when no size was asked for."""
        found, length = [], 0
        while length < _SENT_BYTES or size < 0:
            piece = next(self._rest, None)
            if piece is None:
                break
            found.append(piece)
            length += len(piece)
        self._read += length
        return b"".join(found)

    def seek(self, position: int, whence: int = 0) -> int:
        """Go to the beginning or to the end: nobody asks for anything else."""
        if position or whence == 1:
            raise OSError("only the beginning and the end can be gone to")
        self._rest = iter(()) if whence else iter(self._body)
        self._read = len(self) if whence else 0
        return self._read

    def tell(self) -> int:
        """Tell where in the file it is."""
        return self._read
