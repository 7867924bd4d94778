"""Jobs of a service that plan and commit take turns: calls to the REST API wait for few of them.

One thread of Python runs at a time. Dozens that all have something to do at the same moment, as
when all their files are full, would each go before a call, again and again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any

AT_ONCE = 2
"""While one waits for Kafka or the store, another goes on."""
PATIENCE_S = 0.5
"""Nobody waits longer for a turn: a job whose store hangs keeps its own for minutes."""


class Turns:
    """A context to plan and commit in, for any number of threads; not to be entered twice."""

    def __init__(self, at_once: int = AT_ONCE, patience_s: float = PATIENCE_S) -> None:
        self._free = threading.Semaphore(at_once)
        self._patience_s = patience_s
        self._mine = threading.local()

    def __enter__(self) -> None:
        self._mine.is_taken = self._free.acquire(timeout=self._patience_s)

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        if self._mine.is_taken:
            self._mine.is_taken = False
            self._free.release()

    def given_up_for(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``work`` such that a turn, if this thread is in one, is others' meanwhile."""

        @wraps(work)
        def run(*given: Any, **named: Any) -> Any:
            if not getattr(self._mine, "is_taken", False):
                return work(*given, **named)
            self.__exit__()
            try:
                return work(*given, **named)
            finally:
                self.__enter__()

        return run
