"""One execution of a run in a thread of this worker: its progress, its retries and its end."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kafkeep.connect.jobs.job import in_keys
from kafkeep.connect.runs.kind import RunKind, RunResult, RunWork
from kafkeep.connect.runs.run import Run, RunProgress, RunStage
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.retry import CONNECTOR

_RATE_SECONDS = 30.0
logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class RunAttempt:
    """The execution; its thread reports progress, and others stop it."""

    run_id: str
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    progress: RunProgress | None = None
    _measured: deque[tuple[float, int]] = field(default_factory=deque)

    def report(self, progress: RunProgress) -> None:
        """Keep the progress, with the rate of the last half minute and the time left."""
        now = time.monotonic()
        before = self.progress
        if before is None or before.phase != progress.phase or progress.done < before.done:
            self._measured.clear()
        self._measured.append((now, progress.done))
        while now - self._measured[0][0] > _RATE_SECONDS:
            self._measured.popleft()
        since, done = self._measured[0]
        if progress.done > done and now > since:
            rate = (progress.done - done) / (now - since)
            left = None if progress.total is None else max(0, progress.total - progress.done) / rate
            progress = replace(progress, per_second=rate, seconds_left=left)
        self.progress = progress

    def execute(
        self, kind: RunKind, asked: Mapping[str, str], redact: Callable[[str], str]
    ) -> RunResult | None:
        """Do the work, again after each TransientError; None when it is stopped before."""
        work = RunWork(id=self.run_id, asked=asked, stop=self.stop, report=self.report)
        failures = 0
        while not self.stop.is_set():
            try:
                return kind.execute(work)
            except TransientError as error:
                if self.stop.is_set():
                    return None
                sentence = redact(error.message)
                logger.warning("%s %s: %s; trying again", kind.name, self.run_id, sentence)
                last = self.progress or RunProgress(phase="Waiting")
                self.report(replace(last, note=f"{sentence}; trying again"))
            failures += 1
            self.stop.wait(CONNECTOR.wait_s(failures))
        return None

    def concluded(
        self,
        following: Run,
        result: RunResult | None,
        report: str,
        error: Exception | None,
        redact: Callable[[str], str],
    ) -> Run | None:
        """Return ``following`` with what came of it, None when nothing is to be stored."""
        run = replace(following, progress=self.progress or following.progress)
        if result is not None:
            return replace(
                run,
                stage=RunStage.DONE,
                verdict=result.verdict,
                result=dict(result.summary),
                report=report,
                ended_ms=run.changed_ms,
            )
        if self.stop.is_set() or error is None:
            # Paused or cancelled: the last measurement says what was written. A worker that stops
            # or lost the lease leaves the run to the next one.
            return run if run.stage is not RunStage.RUNNING else None
        message, hint = _described(error)
        logger.warning("%s %s failed: %s", run.kind, run.id, redact(message))
        return replace(
            run,
            stage=RunStage.FAILED,
            error=redact(message),
            hint=redact(hint),
            ended_ms=run.changed_ms,
        )


def _described(error: Exception) -> tuple[str, str]:
    if isinstance(error, KafkeepError):
        return in_keys(error.message), in_keys(error.hint or "")
    logger.error("a run failed unexpectedly", exc_info=error)
    return f"unexpected error: {type(error).__name__}", "The worker's log has the details."
