"""Follow a cluster: run cycles until stopped, wait between them, retry. Runs on the driver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from kafkeep.backup.plan import PlanInput
from kafkeep.errors import AccessDeniedError, PreflightError, TransientError
from kafkeep.retry import FOLLOW

REFUSED_MS = 60_000
"""Errors that a topic being created or deleted may cause are retried this long."""
DENIED_MS = 300_000
"""Credentials that worked before and are refused are retried this long."""
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class FollowLoop:
    """Repeats the steps of a backup. The caller passes them in."""

    name: str
    """What log lines call the job."""
    interval_ms: int
    now_ms: Callable[[], int]
    stop: threading.Event
    cycle_slot: AbstractContextManager[None]
    """A semaphore that each cycle holds, so that jobs share the cores."""
    begin: Callable[[], None]
    """Opens the log again, after a failure that left its state unknown."""
    is_idle: Callable[[], bool]
    observe: Callable[[], PlanInput]
    run_cycle: Callable[[PlanInput], bool]
    """Runs one cycle and returns True if there may be more to read now."""
    _refused_at: int | None = field(init=False, default=None)
    _denied_at: int | None = field(init=False, default=None)
    _has_succeeded: bool = field(init=False, default=False)

    def run(self) -> bool:
        """Run cycles until stopped. After a transient failure, continue from the log's state.

        Return whether the state of the log is known at the end.
        """
        unsure, failures = False, 0
        while not self.stop.is_set():
            busy = False
            try:
                if unsure:
                    self.begin()
                    unsure = False
                if not self.is_idle():
                    with self.cycle_slot:
                        given = self._observe()
                        unsure = True  # a failure from here on leaves the state of the log unknown
                        busy = self.run_cycle(given)
                unsure, failures = False, 0
                self._has_succeeded, self._denied_at = True, None
            except (TransientError, AccessDeniedError) as error:
                if isinstance(error, AccessDeniedError) and not self._tolerates_denial():
                    raise
                failures += 1
                logger.warning("%s: %s; trying again", self.name, error.message)
            if not busy:
                self.stop.wait(self._wait_s(failures))
        return not unsure

    def _tolerates_denial(self) -> bool:
        """Return True if credentials that are refused now worked less than ``DENIED_MS`` ago."""
        self._denied_at = self._denied_at or self.now_ms()
        return self._has_succeeded and self.now_ms() - self._denied_at <= DENIED_MS

    def _wait_s(self, failures: int) -> float:
        """Return the seconds until the next cycle. They grow with each consecutive failure."""
        return replace(FOLLOW, first_wait_s=self.interval_ms / 1000).wait_s(failures)

    def _observe(self) -> PlanInput:
        """Take a snapshot. Retry errors that a topic being created or deleted may cause."""
        try:
            given = self.observe()
        except PreflightError as error:
            self._refused_at = self._refused_at or self.now_ms()
            if self.now_ms() - self._refused_at > REFUSED_MS:
                raise
            raise TransientError(error.message) from error
        self._refused_at = None
        return given
