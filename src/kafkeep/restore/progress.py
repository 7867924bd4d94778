"""Tell how far the targets of a restore have grown while its tasks run. On the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkeep.errors import KafkeepError

POLL_SECONDS = 0.5


@contextmanager
def watch(measure: Callable[[], int], tell: Callable[[int], None]) -> Iterator[None]:
    """Call ``tell`` with what ``measure`` says, twice a second; what it cannot measure is left."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(POLL_SECONDS):
            try:
                tell(measure())
            except KafkeepError:
                continue  # the tasks will say what is wrong

    thread = threading.Thread(target=poll, name="restore-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
