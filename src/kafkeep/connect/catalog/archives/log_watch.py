"""Looks at the logs that pages show, so that no page waits for a store because of a commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kafkeep.errors import KafkeepError

logger = logging.getLogger(__name__)

LogId = tuple[str, str]
"""The archive's id and the name of the log."""
EVERY_S = 1.0
UNTIL_S = 30.0
"""A log that no page showed for this long is not looked at any more."""


class LogWatch:
    """Calls ``look`` for each log in use, from a thread that ends when none is. Thread-safe."""

    def __init__(self, look: Callable[[LogId], object], every_s: float = EVERY_S) -> None:
        self._look = look
        self._every_s = every_s
        self._lock = threading.Lock()
        self._used: dict[LogId, float] = {}
        self._closed = threading.Event()
        self._is_running = False

    @property
    def is_running(self) -> bool:
        """True while logs in use are looked at."""
        return self._is_running

    def use(self, id: LogId) -> None:
        """Note that a page shows a log now."""
        with self._lock:
            self._used[id] = time.monotonic()
            if self._is_running or self._closed.is_set():
                return
            self._is_running = True
        threading.Thread(target=self._run, name="log-watch", daemon=True).start()

    def close(self) -> None:
        """End the thread soon."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            for id in self._in_use():
                try:
                    self._look(id)
                except KafkeepError as error:
                    # The next page that shows the log says so.
                    logger.debug("cannot look at the log %s: %s", id[1], error.message)
            if self._is_unused():
                return

    def _in_use(self) -> list[LogId]:
        with self._lock:
            now = time.monotonic()
            self._used = {id: at for id, at in self._used.items() if now - at < UNTIL_S}
            return list(self._used)

    def _is_unused(self) -> bool:
        with self._lock:
            self._is_running = bool(self._used)
            return not self._used
