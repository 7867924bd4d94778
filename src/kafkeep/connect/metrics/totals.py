"""Counters of each connector over all its runs in this process; they never decrease.

A job's Progress starts at zero with every run. ``Totals`` adds up the runs of a connector, its
failures and its requests to S3. Rates cover the last minute, as Kafka's own metrics do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkeep.connect.jobs.job import ConnectorJob, Counts, JobContext, MakeJob, Progress
from kafkeep.connect.model import ConnectorStatus, ConnectorType, RunState
from kafkeep.errors import TransientError
from kafkeep.store.request_times import RequestTimes, recording, time_tasks

RATE_WINDOW_MS = 60_000
_SAMPLE_MS = 1_000
_RUNS_READ = 4


@dataclass(slots=True)
class ConnectorRequests:
    """Requests to S3 made for one connector."""

    driver: RequestTimes = field(default_factory=RequestTimes)
    """Requests for its log: reads, commits, checkpoints."""
    tasks: RequestTimes = field(default_factory=RequestTimes)
    """Requests for its data."""


@dataclass(slots=True)
class _Ledger:
    """The numbers of one connector: its last few runs, and the sum of those before them.

    A run that is being replaced may still write its progress, so the last runs are read each time.
    """

    ended: Counts = field(default_factory=Counts)
    runs: list[Progress] = field(default_factory=list)
    shown: Counts = field(default_factory=Counts)
    failures: int = 0
    spark_jobs: int = 0
    last_commit_ms: int | None = None
    samples: deque[tuple[int, Counts]] = field(default_factory=deque)
    seconds_in: dict[RunState, float] = field(default_factory=dict)
    last_seen: tuple[int, RunState] | None = None
    requests: ConnectorRequests = field(default_factory=ConnectorRequests)

    def counts(self) -> Counts:
        # A job that starts again within its run may count from zero again; that never shows.
        now = sum(self.runs, self.ended)
        self.shown = now.at_least(self.shown)
        return self.shown

    def follow(self, progress: Progress) -> None:
        if any(run is progress for run in self.runs):
            return
        self.runs.append(progress)
        if len(self.runs) > _RUNS_READ:
            self.ended += self.runs.pop(0)

    def note_commit(self) -> None:
        made = [run.last_commit_ms for run in self.runs if run.last_commit_ms is not None]
        if made:
            self.last_commit_ms = max(made)

    def note_state(self, now_ms: int, state: RunState) -> None:
        """Add the time since the last reading to the state seen then."""
        if self.last_seen is not None:
            before_ms, was = self.last_seen
            spent = max(0, now_ms - before_ms) / 1000
            self.seconds_in[was] = self.seconds_in.get(was, 0.0) + spent
        self.last_seen = (now_ms, state)

    def sample(self, now_ms: int) -> None:
        """Store the counts for rates; drop samples older than the window, except its edge."""
        if not self.samples or now_ms - self.samples[-1][0] >= _SAMPLE_MS:
            self.samples.append((now_ms, self.counts()))
        while len(self.samples) > 2 and self.samples[1][0] <= now_ms - RATE_WINDOW_MS:
            self.samples.popleft()


class Totals:
    """The numbers of all connectors of one service. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledgers: dict[str, _Ledger] = {}

    def follow(self, name: str, progress: Progress) -> None:
        """Start to count a run; following it twice counts it once."""
        with self._lock:
            self._ledger(name).follow(progress)

    def failed(self, name: str) -> None:
        """Count a run that ended in an error."""
        with self._lock:
            self._ledger(name).failures += 1

    def ran_spark(self, name: str) -> None:
        """Count a Spark job."""
        with self._lock:
            self._ledger(name).spark_jobs += 1

    def requests(self, name: str) -> ConnectorRequests:
        """Return the counters for a connector's requests."""
        with self._lock:
            return self._ledger(name).requests

    def all_requests(self) -> RequestTimes:
        """Return the requests of all connectors of this process, added up."""
        with self._lock:
            noted = [ledger.requests for ledger in self._ledgers.values()]
        together = RequestTimes()
        for one in noted:
            together.add(one.driver)
            together.add(one.tasks)
        return together

    def read(
        self, statuses: Sequence[ConnectorStatus], progress: Mapping[str, Progress], now_ms: int
    ) -> dict[str, ConnectorTotals]:
        """Record the current states, and return the numbers of each connector in ``statuses``."""
        with self._lock:
            for name, one in progress.items():
                self._ledger(name).follow(one)
            return {status.name: self._reading(status, now_ms) for status in statuses}

    def with_rates(
        self, statuses: Sequence[ConnectorStatus], progress: Mapping[str, Progress], now_ms: int
    ) -> list[ConnectorStatus]:
        """Return the statuses with their rates, for workers that do not run the connectors."""
        found = self.read(statuses, progress, now_ms)
        return [
            replace(
                one,
                records_per_second=found[one.name].rate("records"),
                bytes_per_second=found[one.name].rate("bytes"),
            )
            for one in statuses
        ]

    def _reading(self, status: ConnectorStatus, now_ms: int) -> ConnectorTotals:
        ledger = self._ledger(status.name)
        ledger.note_commit()
        ledger.note_state(now_ms, status.state)
        ledger.sample(now_ms)
        begin_ms, before = ledger.samples[0]
        return ConnectorTotals(
            counts=ledger.counts(),
            before=before,
            over_s=(now_ms - begin_ms) / 1000,
            failures=ledger.failures,
            spark_jobs=ledger.spark_jobs,
            last_commit_ms=ledger.last_commit_ms,
            seconds_in=dict(ledger.seconds_in),
            requests=ledger.requests,
        )

    def _ledger(self, name: str) -> _Ledger:
        return self._ledgers.setdefault(name, _Ledger())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTotals:
    """One connector's numbers at one moment; ``before`` is what they were ``over_s`` ago."""

    counts: Counts
    before: Counts
    over_s: float
    failures: int
    spark_jobs: int
    last_commit_ms: int | None
    seconds_in: Mapping[RunState, float]
    requests: ConnectorRequests

    def rate(self, name: str) -> float:
        """Return a count's increase per second over the last minute; 0 at the first reading."""
        if self.over_s <= 0:
            return 0.0
        grown = getattr(self.counts, name) - getattr(self.before, name)
        return float(grown) / self.over_s

    def ratio(self, state: RunState) -> float:
        """Return the share of the observed time spent in a state."""
        total = sum(self.seconds_in.values())
        return self.seconds_in.get(state, 0.0) / total if total else 0.0


def measured(make_job: MakeJob, totals: Totals) -> MakeJob:
    """Return a ``make_job`` whose jobs are counted in ``totals``."""

    def make(name: str, config: Mapping[str, str], context: JobContext) -> ConnectorJob:
        requests = totals.requests(name)
        run_timed = time_tasks(context.run_tasks, requests.tasks)

        def run_tasks(bundles: Sequence[Any], *given: Any, **named: Any) -> Any:
            if bundles:
                totals.ran_spark(name)
            return run_timed(bundles, *given, **named)

        try:
            with recording(requests.driver):
                job = make_job(name, config, replace(context, run_tasks=run_tasks))
        except TransientError:
            raise  # the caller tries again
        except Exception:
            totals.failed(name)
            raise
        return MeasuredJob(name, job, totals)

    return make


class MeasuredJob:
    """A job that is counted; everything but ``run`` is the job's own."""

    type: ConnectorType
    task_count: int
    progress: Progress

    def __init__(self, name: str, job: ConnectorJob, totals: Totals) -> None:
        self._name = name
        self._job = job
        self._totals = totals

    def run(self, stop: threading.Event) -> None:
        """Run the job; stores that it opens count their requests."""
        self._totals.follow(self._name, self._job.progress)
        try:
            with recording(self._totals.requests(self._name).driver):
                self._job.run(stop)
        except Exception:
            if not stop.is_set():
                self._totals.failed(self._name)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)
