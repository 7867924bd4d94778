"""Faults that pass are waited out: whatever a connector does is begun again after them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kafkeep.errors import TransientError
from kafkeep.retry import CONNECTOR

logger = logging.getLogger(__name__)


def sleep_until(stop: threading.Event) -> Callable[[float], None]:
    """Return a ``sleep`` that ends with a TransientError when ``stop`` is set: no more attempts."""

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise TransientError("it is to stop, and does not try again")

    return sleep


def run_patiently(name: str, work: Callable[[], None], stop: threading.Event) -> None:
    """Call ``work`` until it ends, again after each TransientError; a stop ends it too."""
    failures = 0
    while not stop.is_set():
        try:
            work()
            return
        except TransientError as error:
            logger.warning("connector %s: %s; trying again", name, error.message)
        failures += 1
        stop.wait(CONNECTOR.wait_s(failures))
