"""How long tests wait for what must come: far longer than it takes, for machines that stall."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 180.0
Claim = TypeVar("Claim")


def until(
    claim: Callable[[], Claim], what: str = "what is awaited", *, seconds: float = PATIENCE_S
) -> Claim:
    """Wait until ``claim`` holds; return what it said then."""
    deadline = time.monotonic() + seconds
    while not (said := claim()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.02)
    return said
