"""Objects finished in the background, while the next one is read. In tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

AT_ONCE = 2
"""Each may hold its object in memory until the store has it."""
SMALL_AT_ONCE = 8
"""Of objects that are hardly more than a request each: what they take is the way to the store."""


class Uploads:
    """Runs what finishes objects, a few at a time; ``wait`` raises what went wrong.

    Nothing counts as stored before ``wait`` has returned. Leaving by an error waits too, so that
    no upload outlives the attempt it belongs to.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SMALL_AT_ONCE, thread_name_prefix="upload")
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def add(self, finish: Callable[[], None], *, is_small: bool = False) -> None:
        """Run ``finish`` soon; blocks while enough are under way."""
        while len(self._pending) >= (SMALL_AT_ONCE if is_small else AT_ONCE):
            self.wait_one()
        self._pending.append(self._threads.submit(finish))

    def wait_one(self) -> bool:
        """Return when one more is stored; False when none was under way."""
        if not self._pending:
            return False
        self._pending.popleft().result()
        return True

    def wait(self) -> None:
        """Return when everything is stored."""
        while self.wait_one():
            pass
