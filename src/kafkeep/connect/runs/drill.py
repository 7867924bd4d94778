"""The kind of run that tests a restore, as ``kafkeep drill`` does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkeep.compare.job import compare
from kafkeep.compare.result import CompareResult
from kafkeep.connect.catalog.archives.archives import Archives
from kafkeep.connect.jobs.job import JobContext, RunTasks
from kafkeep.connect.runs.kind import RunResult, RunWork, Verdict, check_archive, parse_asked
from kafkeep.connect.runs.run import RunProgress
from kafkeep.errors import InterruptedRunError
from kafkeep.maintenance.drill import DrillResult, DrillSteps, drill
from kafkeep.maintenance.report_pages import drill_page
from kafkeep.options.kafka import Locations
from kafkeep.options.maintenance import CompareOptions, DrillOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.preflight import require_pass
from kafkeep.restore.run import open_restore
from kafkeep.restore.summary import RestoreSummary

_VERDICTS: Mapping[str, Verdict] = {"clean": "good", "warnings": "warn", "differs": "bad"}
_NOT_STORED = ("message_type", "verify", "tool", "version", "report")
"""The report has these."""


@dataclass(frozen=True, slots=True)
class DrillSession:
    """The service's Spark session as a drill uses it."""

    slots: Callable[[], int]
    run_tasks: RunTasks


class DrillRuns:
    """Restores archives into scratch topics of the worker's cluster, and compares them.

    An interrupted run deletes its scratch topics when it begins again.
    """

    name = "drill"

    def __init__(self, archives: Callable[[], Archives], context: Callable[[], JobContext]) -> None:
        """Create it; ``context`` returns the cluster and the session to use."""
        self._archives = archives
        self._context = context

    def check(self, asked: Mapping[str, str]) -> None:
        """Refuse unknown and invalid options, and an archive that no connector uses."""
        chosen, options = parse_asked(asked, DrillOptions)
        check_archive(self._archives(), chosen.archive_id, options.name)

    def execute(self, work: RunWork) -> RunResult:
        """Restore, compare and clean up."""
        chosen, options = parse_asked(work.asked, DrillOptions)
        place = self._archives().place(chosen.archive_id)
        context = work.bind(self._context())
        locations = Locations(
            kafka=context.kafka,
            archive=place.address,
            storage=place.storage or StorageOptions.from_env(),
        )
        steps = _Steps(work, locations, DrillSession(context.slots, context.run_tasks))
        work.report(RunProgress(phase="Preparing"))
        found = drill(
            options, locations, DrillSteps(restore=steps.restore, compare=steps.compare), id=work.id
        )
        return RunResult(
            verdict=_VERDICTS[found.verdict], summary=_summary(found), report=drill_page(found)
        )


class _Steps:
    """The steps of one drill, which end when the run is stopped."""

    def __init__(self, work: RunWork, locations: Locations, session: DrillSession) -> None:
        self._work = work
        self._locations = locations
        self._session = session

    def restore(self, options: RestoreOptions) -> RestoreSummary:
        """Restore into the scratch topics."""
        _check_stop(self._work.stop)
        with open_restore(
            options, self._locations, on_progress=self._progress("Restoring", "records")
        ) as job:
            job.slots = self._session.slots
            preflight = job.preflight()
            require_pass(preflight.checks)
            started = time.monotonic()
            summary = job.run(preflight, self._session.run_tasks)
            summary.seconds = time.monotonic() - started
        return summary

    def compare(self, options: CompareOptions, name: str) -> CompareResult:
        """Compare the scratch topics with the archive."""
        _check_stop(self._work.stop)
        return compare(
            options,
            self._locations,
            lambda: self._session,
            name=name,
            on_progress=self._progress("Comparing", "tasks"),
        )

    def _progress(self, phase: str, unit: str) -> Callable[[int, int], None]:
        def report(done: int, total: int) -> None:
            self._work.report(RunProgress(phase=phase, done=done, total=total, unit=unit))

        return report


def _check_stop(stop: threading.Event) -> None:
    if stop.is_set():
        raise InterruptedRunError("the drill was stopped")


def _summary(found: DrillResult) -> dict[str, object]:
    document = {key: one for key, one in found.to_json().items() if key not in _NOT_STORED}
    return {**document, "log": found.against.log, "commit": found.against.commit}
