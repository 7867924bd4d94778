"""Run connectors in threads, and reconcile the runs with the target states.

A failure does not affect other connectors, and the status shows it until the connector is
restarted. A new run waits for the one it replaces, so that two runs of one connector do not take
the log from each other.

``JobSlots`` limits how many jobs plan and commit at once. One Python thread runs at a time, so
dozens of jobs that are busy at the same moment would hold up every REST call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial, wraps
from types import TracebackType
from typing import Any

from kafkeep.clock import now_ms
from kafkeep.connect.jobs.job import (
    ConnectorJob,
    JobContext,
    MakeJob,
    Progress,
    backlog_of,
    expected_tasks,
    format_trace,
)
from kafkeep.connect.model import (
    Backlog,
    Connector,
    ConnectorStatus,
    PluginInfo,
    RunState,
    TargetState,
    TaskStatus,
)
from kafkeep.connect.safety.secrets import SecretRedactor
from kafkeep.errors import TransientError
from kafkeep.retry import CONNECTOR_START

BUSY_JOBS = 2
"""How many jobs plan and commit at once: one can wait for the store while another computes."""
SLOT_TIMEOUT_S = 0.5


class JobSlots:
    """A semaphore around planning and committing; a thread must not enter it twice.

    A thread that waits too long enters without a slot: a job whose store hangs keeps its own for
    minutes.
    """

    def __init__(self, at_once: int = BUSY_JOBS, timeout_s: float = SLOT_TIMEOUT_S) -> None:
        self._free = threading.Semaphore(at_once)
        self._timeout_s = timeout_s
        self._mine = threading.local()

    def __enter__(self) -> None:
        self._mine.is_taken = self._free.acquire(timeout=self._timeout_s)

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        if self._mine.is_taken:
            self._mine.is_taken = False
            self._free.release()

    def released_for(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``work`` wrapped so that it gives the thread's slot to others while it runs."""

        @wraps(work)
        def run(*given: Any, **named: Any) -> Any:
            if not getattr(self._mine, "is_taken", False):
                return work(*given, **named)
            self.__exit__()
            try:
                return work(*given, **named)
            finally:
                self.__enter__()

        return run


REPLACED_SECONDS = 60.0
"""How long a run waits for the one it replaces; then the log's epochs decide between them."""
logger = logging.getLogger(__name__)


class RunPhase(Enum):
    """The phase of a run."""

    STARTING = auto()
    RUNNING = auto()
    PAUSED = auto()
    DONE = auto()
    """The job ended by itself, as a source does that has read everything."""
    CONNECTOR_FAILED = auto()
    TASKS_FAILED = auto()


FAILED = (RunPhase.CONNECTOR_FAILED, RunPhase.TASKS_FAILED)
_SHOWN = {
    RunPhase.STARTING: RunState.UNASSIGNED,
    RunPhase.RUNNING: RunState.RUNNING,
    RunPhase.DONE: RunState.RUNNING,
    RunPhase.PAUSED: RunState.PAUSED,
}


@dataclass(slots=True, eq=False)
class ConnectorRun:
    """One start of a connector. Only its thread writes ``phase``, ``job`` and ``trace``."""

    connector: Connector
    before: ConnectorRun | None = None
    replaces: bool = False
    """True when ``before`` is a run of the same connector, not of a deleted one of its name."""
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    phase: RunPhase = RunPhase.STARTING
    running_since_ms: int | None = None
    job: ConnectorJob | None = None
    expected_tasks: int | None = None
    """How many tasks to show while ``job`` is still that of the run before."""
    trace: str | None = None

    def fits(self, connector: Connector) -> bool:
        """Return True when this run is what ``connector`` asks for."""
        mine = self.connector
        return (mine.generation, mine.target) == (connector.generation, connector.target)

    def shown(self) -> RunState:
        """Return the state of a run that has not failed; it shows as paused once work has ended."""
        phase, before = self.phase, self.before
        if self.connector.target is not TargetState.PAUSED:
            return _SHOWN.get(phase, RunState.RUNNING)  # it may fail at this moment
        if phase is not RunPhase.STARTING or not self.replaces or before is None:
            return RunState.PAUSED
        return RunState.PAUSED if before.phase in FAILED else before.shown()

    def task_count(self) -> int:
        """Return how many tasks to show."""
        if self.expected_tasks is not None:
            return self.expected_tasks
        return self.job.task_count if self.job else 0


class Supervisor:
    """All runs of one worker. Safe to use from several threads."""

    def __init__(
        self,
        *,
        make_job: MakeJob,
        context_for: Callable[[Mapping[str, str]], JobContext],
        resolve: Callable[[Mapping[str, str]], dict[str, str]],
        describe: Callable[[Mapping[str, str]], PluginInfo],
        secrets: SecretRedactor,
        worker_id: str,
        on_change: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._make_job = make_job
        self._context_for = context_for
        self._resolve = resolve
        self._describe = describe
        self._secrets = secrets
        self._worker_id = worker_id
        self._now_ms = now_ms
        self.on_change = on_change
        self._lock = threading.Lock()
        self._runs: dict[str, ConnectorRun] = {}
        self._ending: dict[str, ConnectorRun] = {}
        self._is_open = True

    def reconcile(self, wanted: Iterable[Connector]) -> None:
        """Start connectors that should run and do not, and stop those that should not run.

        Never waits. A stopped connector has no run. A paused one has a run that does nothing.
        """
        running = {one.name: one for one in wanted if one.target is not TargetState.STOPPED}
        with self._lock:
            if not self._is_open:
                return
            for name in [name for name in self._runs if name not in running]:
                self._end(name)
                self._forget_if_gone(name)
            for name, connector in running.items():
                run = self._runs.get(name)
                if run is None or not run.fits(connector):
                    self._start(connector)

    def restart(self, connector: Connector) -> None:
        """Start a connector again, whatever it does now; a stopped one stays stopped."""
        with self._lock:
            if self._is_open and connector.target is not TargetState.STOPPED:
                self._start(connector)

    def stop_all(self) -> None:
        """Stop and forget every run, without waiting."""
        with self._lock:
            for name in list(self._runs):
                self._end(name)

    def close(self, timeout_s: float) -> bool:
        """Stop every run for good and wait; False when some did not end in time."""
        with self._lock:
            self._is_open = False
        self.stop_all()
        deadline = time.monotonic() + timeout_s
        for run in self._all_ending():
            run.ended.wait(max(0.0, deadline - time.monotonic()))
        return not self._all_ending()

    def wait_ended(self, name: str, timeout_s: float) -> bool:
        """Wait until no run of a stopped connector is left; False when it takes too long."""
        with self._lock:
            run = self._runs.get(name) or self._ending.get(name)
        return run is None or run.ended.wait(timeout_s)

    def progress(self) -> dict[str, Progress]:
        """Return the progress of each running connector since its start."""
        with self._lock:
            return {name: run.job.progress for name, run in self._runs.items() if run.job}

    def status(self, connector: Connector) -> ConnectorStatus:
        """Return a connector's state, from its target and its run."""
        with self._lock:
            run = self._runs.get(connector.name)
        plugin = self._describe(connector.config)
        status = ConnectorStatus(
            name=connector.name,
            type=plugin.type,
            version=plugin.version,
            state=RunState.UNASSIGNED,
            worker_id=self._worker_id,
            generation=connector.generation,
        )
        if connector.target is TargetState.STOPPED:
            return replace(status, state=RunState.STOPPED)
        return status if run is None else self._of_run(status, run)

    def _of_run(self, status: ConnectorStatus, run: ConnectorRun) -> ConnectorStatus:
        phase, trace = run.phase, run.trace
        if phase is RunPhase.CONNECTOR_FAILED:
            return replace(status, state=RunState.FAILED, trace=trace)
        if phase is RunPhase.TASKS_FAILED:
            state, own = RunState.FAILED, _SHOWN[RunPhase.RUNNING]
        else:
            trace = None
            state = own = run.shown()
        tasks = (
            TaskStatus(id=number, state=state, worker_id=self._worker_id, trace=trace)
            for number in range(run.task_count())
        )
        return replace(status, state=own, tasks=tuple(tasks), backlog=self._backlog(status, run))

    def _backlog(self, status: ConnectorStatus, run: ConnectorRun) -> Backlog | None:
        if run.job is None:
            return None
        since_ms = run.running_since_ms if run.phase is RunPhase.RUNNING else None
        return backlog_of(run.job.progress, status.type, self._now_ms(), since_ms)

    def _start(self, connector: Connector) -> None:
        replaced = self._runs.get(connector.name)
        before = replaced or self._ending.get(connector.name)
        if replaced is not None:
            self._end(connector.name)
        run = ConnectorRun(connector, None if before is None or before.ended.is_set() else before)
        if replaced is not None:
            run.replaces = True
            if replaced.job is not None:  # tasks stay visible until the new job has its own
                run.expected_tasks = expected_tasks(
                    connector.config, replaced.connector.config, replaced.task_count()
                )
                run.job = replaced.job
        self._runs[connector.name] = run
        name = f"connector-{connector.name}"
        threading.Thread(target=self._run, args=(run,), name=name, daemon=True).start()

    def _end(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            run.stop.set()
            if not run.ended.is_set():
                self._ending[name] = run

    def _forget_if_gone(self, name: str) -> None:
        """Forget a connector's secrets, unless a run of it could still log them."""
        if name not in self._runs and name not in self._ending:
            self._secrets.forget(name)

    def _all_ending(self) -> list[ConnectorRun]:
        with self._lock:
            return [run for run in self._ending.values() if not run.ended.is_set()]

    def _run(self, run: ConnectorRun) -> None:
        try:
            if run.before is not None:
                run.before.ended.wait(REPLACED_SECONDS)
                run.before = None
            self._work(run)
        finally:
            run.ended.set()
            with self._lock:
                if self._ending.get(run.connector.name) is run:
                    del self._ending[run.connector.name]
                    self._forget_if_gone(run.connector.name)
            self.on_change()

    def _work(self, run: ConnectorRun) -> None:
        try:
            job = self._make(run)
        except Exception as error:
            self._fail(run, RunPhase.CONNECTOR_FAILED, error)
            return
        if job is None:
            return
        run.job, run.expected_tasks = job, None
        if run.connector.target is TargetState.PAUSED:
            run.phase = RunPhase.PAUSED
            return
        run.running_since_ms = self._now_ms()
        run.phase = RunPhase.RUNNING
        self.on_change()
        try:
            job.run(run.stop)
        except Exception as error:
            phase = RunPhase.TASKS_FAILED if job.task_count else RunPhase.CONNECTOR_FAILED
            self._fail(run, phase, error)
        else:
            run.phase = RunPhase.DONE

    def _make(self, run: ConnectorRun) -> ConnectorJob | None:
        """Make the job, retrying after transient errors; None when the run is stopped meanwhile."""
        failures = 0
        name = run.connector.name
        while not run.stop.is_set():
            config = self._resolve(run.connector.config)
            self._secrets.keep(name, run.connector.config, config)
            shared = self._context_for(config)
            workers = (shared.defaults, shared.kafka.properties)
            self._secrets.keep(name, run.connector.config, config, *workers)
            own = replace(shared, run_tasks=partial(shared.run_tasks, pool=name, stop=run.stop))
            try:
                return self._make_job(name, config, own)
            except TransientError as error:
                logger.warning(
                    "connector %s cannot start yet and is tried again: %s", name, error.message
                )
            failures += 1
            run.stop.wait(CONNECTOR_START.wait_s(failures))
        return None

    def _fail(self, run: ConnectorRun, phase: RunPhase, error: Exception) -> None:
        if run.stop.is_set():
            logger.info("connector %s ended while stopping: %s", run.connector.name, error)
            return
        run.trace = self._secrets.redact(format_trace(error))
        run.phase = phase
        logger.warning("connector %s failed: %s", run.connector.name, error)
