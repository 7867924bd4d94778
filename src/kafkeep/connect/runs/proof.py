"""The kind of run that proves a restore: it reads the target back and compares every record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkeep.compare.job import compare
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.model import RestError
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.kind import RunResult, RunWork, Verdict
from kafkeep.connect.runs.restore import RestoreRequest, RestoreRuns, has_log
from kafkeep.connect.runs.run import Run, RunProgress, RunStage
from kafkeep.maintenance.report_pages import against_page
from kafkeep.options.maintenance import CompareOptions
from kafkeep.options.option import option, parse_group

NAME = "proof"
_LINES_KEPT = 100
_VERDICTS: Mapping[str, Verdict] = {"clean": "good", "warnings": "warn", "differs": "bad"}


@dataclass(frozen=True, kw_only=True)
class ProofOptions:
    """Which restore to prove."""

    restore: str = option("restore", "The id of the restore.", metavar="ID")


class ProofRuns:
    """Compares the target of a finished restore with the archive. It writes nothing."""

    name = NAME

    def __init__(
        self,
        restores: RestoreRuns,
        board: Callable[[], RunBoard],
        context: Callable[[], JobContext],
        resolve: Callable[[Mapping[str, str]], dict[str, str]] = dict,
    ) -> None:
        self._restores = restores
        self._board = board
        self._context = context
        self._resolve = resolve

    def check(self, asked: Mapping[str, str]) -> None:
        """Refuse a restore that does not exist, is not done, or had no log to compare with."""
        self._find(asked)

    def execute(self, work: RunWork) -> RunResult:
        """Read the restored topics and compare them with what the restore read."""
        run, request = self._find(work.asked)
        context = work.bind(self._context())
        work.report(RunProgress(phase="Planning", unit="tasks"))

        def on_progress(done: int, total: int) -> None:
            work.report(RunProgress(phase="Comparing", done=done, total=total, unit="tasks"))

        with context.slot:
            result = compare(
                _compared(run, request),
                request.locations,
                lambda: context,
                name=run.result["log"],
                on_progress=on_progress,
                changes=self._restores.changes(request),
                documents=self._restores.documents(request),
            )
        return RunResult(
            verdict=_VERDICTS[result.verdict],
            summary={
                "restore": run.id,
                "verdict": result.verdict,
                "archived": result.sum("archived"),
                "found": result.sum("found"),
                "matched": result.sum("matched"),
                "counts": result.tally.to_json()["counts"],
                "differences": result.lines()[:_LINES_KEPT],
                "notes": list(result.notes),
                "commit": result.commit,
                "seconds": round(result.seconds, 3),
            },
            report=against_page(result),
        )

    def _find(self, asked: Mapping[str, str]) -> tuple[Run, RestoreRequest]:
        run = self._board().find(parse_group(ProofOptions, asked).restore, "restore")
        if run.stage is not RunStage.DONE:
            raise RestError(409, f"The restore {run.id} is {run.stage}; only a done one is proven")
        if not has_log(run.result):
            raise RestError(
                409, "The bucket has no log of kafkeep's, so there is nothing to compare with"
            )
        request = self._restores.parse(self._resolve(run.asked))
        if request.options.filter:
            raise RestError(
                409,
                "The restore filtered records, and left-out records cannot be distinguished from "
                "lost ones",
            )
        return run, request


def _compared(run: Run, request: RestoreRequest) -> CompareOptions:
    """Return what to compare: the records that the restore selected, at the commit it read."""
    options = request.options
    return CompareOptions(
        topics=tuple((one["topic"], one["target"]) for one in run.result["targets"]),
        incarnations=options.incarnations,
        partitions=options.partitions,
        offsets=options.offsets,
        from_ms=options.from_ms,
        until_ms=options.until_ms,
        commit=run.result["commit"],
        exact_offsets=options.exact_offsets,
        repartitioned=options.partition_count is not None,
    )
