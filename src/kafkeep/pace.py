"""Keep a transfer below a rate: what ``--rate`` of a backup and of a restore do.

A rate holds for a whole run. Each task gets an equal share of it, by the number of tasks that run
at the same time, and waits on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable

CREDIT_S = 1.0
"""How much unused time a task may make up for: the time that it needs between two transfers."""


def share_of_rate(rate_bytes: int | None, *, slots: int, tasks: int) -> float | None:
    """Return the rate of one of ``tasks`` tasks, of which at most ``slots`` run at a time."""
    return None if rate_bytes is None else rate_bytes / max(1, min(slots, tasks))


class Pace:
    """Waits after each transfer until its bytes are paid for; without a rate it never waits.

    When a call returns, the bytes so far divided by the rate are at most the time since the first
    transfer could begin. Not for several threads.
    """

    def __init__(
        self,
        rate_bytes: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate_bytes = rate_bytes
        self._clock = clock
        self._sleep = sleep
        self._paid_at = clock()

    def __call__(self, size_bytes: int) -> None:
        """Wait for ``size_bytes`` that are sent next, or have just arrived."""
        if self._rate_bytes is None:
            return
        now = self._clock()
        self._paid_at = max(self._paid_at, now - CREDIT_S) + size_bytes / self._rate_bytes
        if self._paid_at > now:
            self._sleep(self._paid_at - now)

    def request_bytes(self, most: int, *, least: int) -> int:
        """Return how many bytes to request at once: a quarter of a second, up to ``most``.

        Large requests would come in bursts, each followed by a long pause.
        """
        if self._rate_bytes is None:
            return most
        return min(most, max(least, int(self._rate_bytes / 4)))
