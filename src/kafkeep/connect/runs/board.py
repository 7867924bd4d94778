"""All runs of a service: read on any worker, changed and executed on the worker that leads.

The worker that leads keeps runs in memory and stores every change before it has an effect. Other
workers read the stored runs. When a worker takes the lead, it continues the runs that were running.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kafkeep.clock import now_ms
from kafkeep.connect.model import Json, RestError
from kafkeep.connect.runs.attempt import RunAttempt
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.runs.kind import RunKind, RunResult
from kafkeep.connect.runs.run import ACTIVE, Run, RunStage, started
from kafkeep.connect.runs.schedules import ScheduleBook
from kafkeep.connect.safety.secrets import SecretRedactor, mask, unmask
from kafkeep.errors import FencedError, KafkeepError
from kafkeep.maintenance.report import report_to_json

AT_ONCE = 2
"""How many runs are executed at the same time; others wait for their turn."""
KEPT_PER_KIND = 100
"""How many runs that are not active are kept of each kind; older ones are deleted."""
FRESH_S = 1.0
_SAVE_PROGRESS_MS = 5_000
_STORE_RETRY_S = 2.0
logger = logging.getLogger(__name__)


class RunBoard:
    """The runs as one worker sees them. Safe to use from any thread."""

    def __init__(
        self,
        documents: RunDocuments,
        kinds: Iterable[RunKind],
        *,
        worker_id: str,
        resolve: Callable[[Mapping[str, str]], dict[str, str]] = dict,
        secrets: SecretRedactor | None = None,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        """Create it; ``resolve`` fills in references to config providers."""
        self._documents = documents
        self._kinds = {kind.name: kind for kind in kinds}
        self._worker_id = worker_id
        self._resolve = resolve
        self._secrets = secrets or SecretRedactor()
        self._clock_ms = clock_ms
        self.schedules = ScheduleBook(documents.store, self, clock_ms)
        """When runs start by themselves."""
        self._runs: dict[str, Run] = {}
        self._attempts: dict[str, RunAttempt] = {}
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        """Held while a change is decided and stored; readers do not wait for it."""
        self._leads = False
        self._is_open = True
        self._read_at = -FRESH_S

    def find_all(self, *kinds: str) -> list[Run]:
        """Return the runs of these kinds, or all, the newest first."""
        self._refresh()
        with self._lock:
            found = [self._live(run) for run in self._runs.values()]
        chosen = [run for run in found if not kinds or run.kind in kinds]
        return sorted(chosen, key=lambda run: (run.created_ms, run.id), reverse=True)

    def find(self, id: str, *kinds: str) -> Run:
        """Return a run of one of these kinds; RestError 404 when there is none."""
        self._refresh()
        with self._lock:
            run = self._runs.get(id)
            if run is not None and (not kinds or run.kind in kinds):
                return self._live(run)
        raise RestError(404, f"There is no {' or '.join(kinds) or 'run'} {id!r:.60}")

    def report(self, run: Run) -> Json | None:
        """Return the stored report of a run, None when it has none."""
        return self._documents.load_report(run)

    def expire(self) -> None:
        """Let the next call read the runs again, to see a change that was made just now."""
        self._read_at = -FRESH_S
        self.schedules.expire()

    def check(self, kind: str, asked: Mapping[str, str]) -> None:
        """Raise a KafkeepError unless a run that asks for this could be started now."""
        if kind not in self._kinds:
            raise RestError(400, f"There is no kind of run called {kind!r:.40}")
        self._kinds[kind].check(self._resolve(asked))

    def create(self, kind: str, asked: Mapping[str, str], who: str) -> Run:
        """Store a draft; it is checked when it is started. Only on the worker that leads."""
        if kind not in self._kinds:
            raise RestError(400, f"There is no kind of run called {kind!r:.40}")
        at_ms = self._clock_ms()
        run = Run(
            id=_new_id(at_ms),
            kind=kind,
            stage=RunStage.DRAFT,
            asked=unmask(asked, {}),
            created_ms=at_ms,
            created_by=who,
            changed_ms=at_ms,
        )
        with self._writing:
            self._save(run)
            self._prune(kind)
        return run

    def change(self, id: str, asked: Mapping[str, str]) -> Run:
        """Replace what a draft asks for; a masked value keeps the stored secret."""
        with self._writing:
            run = self._need(id)
            run.require("change")
            return self._next(run, asked=unmask(asked, run.asked))

    def start(self, id: str, who: str) -> Run:
        """Start a draft, or continue a run that was paused or has failed."""
        run = self._need(id)
        run.require("start")
        self._kinds[run.kind].check(self._resolve(run.asked))
        with self._writing:
            self._save(started(self._following(self._need(id)), who, self._clock_ms()))
            self._start_waiting()
            return self._live(self._runs[id])

    def resume(self, id: str, who: str) -> Run:
        """Continue a run that was paused or has failed, but start no draft."""
        self._need(id).require("resume")
        return self.start(id, who)

    def pause(self, id: str) -> Run:
        """Stop a run so that it can continue later."""
        return self._stop(id, "pause", RunStage.PAUSED)

    def cancel(self, id: str) -> Run:
        """Stop a run for good; what it has written stays."""
        return self._stop(id, "cancel", RunStage.CANCELLED)

    def delete(self, id: str) -> None:
        """Delete a run and its reports."""
        with self._writing:
            self._live(self._need(id)).require("delete")
            self._forget(id)

    def reconcile(self) -> None:
        """Execute what should run, and store progress; the leader calls it every few seconds."""
        if not self._is_open:
            return
        with self._writing:
            if not self._leads:
                self._load()
                self._leads = True
            self._start_waiting()
            self._save_progress()
        self.schedules.reconcile()

    def stop_all(self) -> None:
        """Stop every attempt without waiting: this worker no longer leads."""
        self._leads = False
        self.schedules.stop()
        for attempt in list(self._attempts.values()):
            attempt.stop.set()

    def stop_soon(self) -> None:
        """Stop all attempts for good, without waiting: the worker ends.

        The stored runs stay running, so that the worker that leads next continues them.
        """
        self._is_open = False
        for attempt in list(self._attempts.values()):
            attempt.stop.set()

    def close(self, timeout_s: float) -> bool:
        """Stop all attempts for good and wait; False when some did not end in time."""
        self.stop_soon()
        deadline = time.monotonic() + timeout_s
        attempts = list(self._attempts.values())
        return all(one.ended.wait(max(0.0, deadline - time.monotonic())) for one in attempts)

    def _refresh(self) -> None:
        """Read the runs again on a worker that does not lead, unless that was a moment ago."""
        if self._leads or time.monotonic() - self._read_at <= FRESH_S:
            return
        with self._writing:
            if not self._leads:
                self._load()

    def _load(self) -> None:
        self._read_at = time.monotonic()
        try:
            found = self._documents.load_all(self._runs)
        except KafkeepError:
            self.expire()
            raise
        with self._lock:
            self._runs = found

    def _need(self, id: str) -> Run:
        with self._lock:
            run = self._runs.get(id)
        if run is None and not self._leads:  # the worker has just taken the lead
            with self._writing:
                self._load()
                run = self._runs.get(id)
        if run is None:
            raise RestError(404, f"There is no run {id!r:.60}")
        return run

    def _live(self, run: Run) -> Run:
        """Return a run with the progress of its attempt."""
        attempt = self._attempts.get(run.id)
        if attempt is None:
            return run
        is_stopping = run.stage in (RunStage.PAUSED, RunStage.CANCELLED)
        return replace(run, progress=attempt.progress or run.progress, is_stopping=is_stopping)

    def _following(self, run: Run) -> Run:
        return replace(run, revision=run.revision + 1, changed_ms=self._clock_ms())

    def _next(self, run: Run, **changes: Any) -> Run:
        return self._save(replace(self._following(run), **changes))

    def _save(self, run: Run) -> Run:
        """Store a revision. FencedError when another worker leads: its revision is read."""
        try:
            self._documents.save(run)
        except FencedError:
            newest = self._documents.load(run.id)
            if newest is not None:
                self._runs[run.id] = newest
            raise
        with self._lock:
            self._runs[run.id] = run
        return run

    def _stop(self, id: str, action: str, stage: RunStage) -> Run:
        with self._writing:
            run = self._need(id)
            run.require(action)
            ended_ms = self._clock_ms() if stage is RunStage.CANCELLED else None
            progress = self._live(run).progress
            run = self._next(run, stage=stage, progress=progress, ended_ms=ended_ms)
            attempt = self._attempts.get(id)
            if attempt is not None:
                attempt.stop.set()
            self._start_waiting()
            return self._live(run)

    def _start_waiting(self) -> None:
        """Start threads for active runs, the oldest first, as many as may run at once."""
        active = [run for run in self._runs.values() if run.stage in ACTIVE]
        # A run of a worker that died keeps its place before those that wait.
        active.sort(key=lambda run: (run.stage is RunStage.QUEUED, run.started_ms or 0, run.id))
        for run in active:
            if len(self._attempts) >= AT_ONCE:
                return
            if run.id in self._attempts or run.kind not in self._kinds:
                continue
            self._next(run, stage=RunStage.RUNNING, worker_id=self._worker_id)
            attempt = RunAttempt(run.id)
            self._attempts[run.id] = attempt
            name = f"run-{run.id}"
            threading.Thread(target=self._attempt, args=(attempt,), name=name, daemon=True).start()

    def _save_progress(self) -> None:
        before_ms = self._clock_ms() - _SAVE_PROGRESS_MS
        for id, attempt in list(self._attempts.items()):
            run = self._runs.get(id)
            is_due = run is not None and run.changed_ms <= before_ms
            if run is not None and is_due and attempt.progress not in (None, run.progress):
                self._next(run, progress=attempt.progress)

    def _attempt(self, attempt: RunAttempt) -> None:
        """Execute a run to its end, in a thread of its own."""
        result: RunResult | None = None
        error: Exception | None = None
        try:
            result = self._execute(attempt)
        except Exception as raised:
            error = raised
        try:
            self._conclude(attempt, result, error)
        except Exception as raised:  # a result that cannot be stored must not be computed for ever
            self._conclude(attempt, None, raised)
        self._secrets.forget(f"run {attempt.run_id}")
        attempt.ended.set()
        with self._writing:
            self._attempts.pop(attempt.run_id, None)
        if self._leads and self._is_open:
            try:
                self.reconcile()
            except KafkeepError as raised:
                logger.warning("cannot start the next run yet: %s", raised.message)

    def _execute(self, attempt: RunAttempt) -> RunResult | None:
        run = self._need(attempt.run_id)
        resolved = self._resolve(run.asked)
        self._secrets.keep(f"run {run.id}", run.asked, resolved)
        return attempt.execute(self._kinds[run.kind], resolved, self._secrets.redact)

    def _conclude(
        self, attempt: RunAttempt, result: RunResult | None, error: Exception | None
    ) -> None:
        """Store how an attempt ended; again while the store does not answer."""
        report = ""
        page = None if result is None or result.report is None else report_to_json(result.report)
        while True:
            try:
                if page is not None and not report:
                    report = self._documents.save_report(attempt.run_id, page)
                with self._writing:
                    self._save_end(attempt, result, report, error)
                return
            except FencedError as fenced:
                logger.info("%s", fenced.message)  # another worker leads and does the work
                return
            except KafkeepError as failure:
                logger.warning("the end of run %s: %s", attempt.run_id, failure.message)
            if not self._is_open or not self._leads:
                return
            time.sleep(_STORE_RETRY_S)

    def _save_end(
        self, attempt: RunAttempt, result: RunResult | None, report: str, error: Exception | None
    ) -> None:
        """Store the revision that an attempt's end leads to, if any, unless the run is deleted."""
        run = self._runs.get(attempt.run_id)
        if run is None:
            return
        following = self._following(run)
        ended = attempt.concluded(following, result, report, error, self._secrets.redact)
        if ended is not None:
            self._save(ended)
            self._prune(ended.kind)

    def _prune(self, kind: str) -> None:
        """Delete the oldest runs of a kind, as far as they are too many."""
        kept = [r for r in self._runs.values() if r.kind == kind and r.may("delete")]
        kept = [run for run in kept if run.id not in self._attempts]
        for run in sorted(kept, key=lambda run: run.created_ms)[:-KEPT_PER_KIND]:
            self._forget(run.id)

    def _forget(self, id: str) -> None:
        self._documents.delete(id)
        with self._lock:
            self._runs.pop(id, None)


def shown_asked(run: Run) -> dict[str, str]:
    """Return what a run asks for with its secrets masked."""
    return mask(run.asked)


def _new_id(at_ms: int) -> str:
    when = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{when:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
