"""How long tests wait for what must come: far longer than it takes, for machines that stall."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 180.0


def until(
    claim: Callable[[], object], what: str = "what is awaited", *, seconds: float = PATIENCE_S
) -> None:
    """Wait until ``claim`` holds."""
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.02)
