"""Jobs that are counted: their runs, their failures and their requests to S3."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafkeep.connect.job import ConnectorJob, MakeJob, Surroundings
from kafkeep.connect.metrics.totals import Totals
from kafkeep.connect.model import ConnectorType, Progress
from kafkeep.errors import TransientError
from kafkeep.store.timing import recording, time_tasks


def measured(make_job: MakeJob, totals: Totals) -> MakeJob:
    """Return ``make_job`` whose jobs are counted in ``totals``; they do what they did before."""

    def make(name: str, config: Mapping[str, str], surroundings: Surroundings) -> ConnectorJob:
        requests = totals.requests(name)
        run_timed = time_tasks(surroundings.run_tasks, requests.tasks)

        def run_tasks(bundles: Sequence[Any], *given: Any, **named: Any) -> Any:
            if bundles:
                totals.ran_spark(name)
            return run_timed(bundles, *given, **named)

        try:
            with recording(requests.driver):
                job = make_job(name, config, replace(surroundings, run_tasks=run_tasks))
        except TransientError:
            raise  # whoever makes it tries again
        except Exception:
            totals.failed(name)
            raise
        return MeasuredJob(name, job, totals)

    return make


class MeasuredJob:
    """A job beside the ledger of its connector; all but ``run`` is the job's own."""

    type: ConnectorType
    task_count: int
    progress: Progress

    def __init__(self, name: str, job: ConnectorJob, totals: Totals) -> None:
        self._name = name
        self._job = job
        self._totals = totals

    def run(self, stop: threading.Event) -> None:
        """Run the job; stores that it opens note their requests."""
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
