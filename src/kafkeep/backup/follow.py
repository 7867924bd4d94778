"""Follow a cluster: run cycles until stopped, wait between them, retry. Runs on the driver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from kafkeep.backup.plan import PlanInput
from kafkeep.backup.running_cycles import RunningCycles
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
    """A semaphore for planning and committing, so that jobs share the cores."""
    begin: Callable[[], None]
    """Opens the log again, after a failure that left its state unknown."""
    is_idle: Callable[[], bool]
    observe: Callable[[], PlanInput]
    run_cycle: Callable[[PlanInput], bool]
    """Plans a cycle and starts its tasks; returns True if there may be more to read now."""
    await_cycle: Callable[[], None]
    """Waits until a cycle has ended, or the next may begin."""
    commit_ended: Callable[[], bool]
    """Commits the cycles that have ended; returns whether there were any."""
    running: RunningCycles
    """The cycles that run."""
    _refused_at: int | None = field(init=False, default=None)
    _denied_at: int | None = field(init=False, default=None)
    _has_succeeded: bool = field(init=False, default=False)
    _is_log_unknown: bool = field(init=False, default=False)
    """True after a failure that may have followed a commit."""
    _failures: int = field(init=False, default=0)
    """Consecutive failures."""

    def run(self) -> bool:
        """Run cycles until stopped, then end those that run.

        After a transient failure, continue from the log's state. Return whether the state of the
        log is known at the end.
        """
        while not self.stop.is_set():
            busy = self._attempt(self._run_cycle)
            if self._failures:
                self.stop.wait(self._wait_s(self._failures))
            elif not busy:
                self.running.pause(self._wait_s(0), self.stop)
        while self.running and not self._is_log_unknown:
            self._attempt(self._end_cycle)
        return not self._is_log_unknown

    def _attempt(self, step: Callable[[], bool]) -> bool:
        """Run a step and return what it returns. After a transient failure return False."""
        try:
            more = step()
        except (TransientError, AccessDeniedError) as error:
            if isinstance(error, AccessDeniedError) and not self._tolerates_denial():
                raise
            self._failures += 1
            logger.warning("%s: %s; trying again", self.name, error.message)
            return False
        self._is_log_unknown, self._failures = False, 0
        return more

    def _run_cycle(self) -> bool:
        """Start a cycle if there is something to read, and commit those that have ended.

        Return True if there may be more to read now.
        """
        if self._is_log_unknown:
            self.begin()
            self._is_log_unknown = False
        ended, more = self._commit_ended(), False
        if not self.is_idle():
            with self.cycle_slot:
                given = self._observe()
                self._is_log_unknown = True  # a failure from here on leaves the log's state unknown
                more = self.run_cycle(given)
            self.await_cycle()
        ended = self._commit_ended() or ended
        self._has_succeeded = self._has_succeeded or ended or not self.running
        if self._has_succeeded:
            self._denied_at = None
        return ended or more

    def _end_cycle(self) -> bool:
        self.running.wait(slots=0)
        return self._commit_ended()

    def _commit_ended(self) -> bool:
        if not self.running.has_ended():
            return False
        self._is_log_unknown = True
        with self.cycle_slot:
            return self.commit_ended()

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
