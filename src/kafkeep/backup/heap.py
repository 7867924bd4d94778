"""What the allocator keeps of freed memory, given back before it is too much. In tasks.

Workers keep what is freed, as taking it again from the system costs more than the work done in it
(``spark.jvm.WORKER_MEMORY``). Between the small things that stay, free pieces then add up to more
than all that is in use.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

MORE_BYTES = 200 << 20
"""A worker may hold so much more than it did at its first task before anything is given back."""
STEP_BYTES = 16 << 20
"""What is in use cannot be given back: the next try is worth it when so much more has come."""
_STATM = Path("/proc/self/statm")
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class Heap:
    """Watches the memory of this process; elsewhere than on Linux with glibc it does nothing."""

    def __init__(self, more_bytes: int = MORE_BYTES) -> None:
        self._allowed = self._due = _first_bytes() + more_bytes

    def save(self) -> None:
        """Give free memory back when the process holds much."""
        if _trim is not None and resident_bytes() > self._due:
            _trim(0)
            self._due = max(self._allowed, resident_bytes() + STEP_BYTES)


def resident_bytes() -> int:
    """Return what this process holds in memory; 0 where the system does not say."""
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@cache
def _first_bytes() -> int:
    return resident_bytes()
