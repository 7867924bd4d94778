"""The newest verification and drill of each archive: is what is stored also proven? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkeep.connect.runs.kind import ARCHIVE
from kafkeep.connect.runs.run import ENDED, Run, RunStage

VERIFICATION, DRILL = "verification", "drill"


@dataclass(frozen=True, slots=True)
class LatestChecks:
    """The newest checks that have ended, by kind and archive; cancelled ones do not count."""

    runs: tuple[Run, ...] = ()

    def newest(self, kind: str, archive: str | None = None) -> Run | None:
        """Return the newest check of a kind, of one archive or of any."""
        found = (
            run
            for run in self.runs
            if run.kind == kind and archive in (None, run.asked.get(ARCHIVE))
        )
        return max(found, key=_ended_ms, default=None)

    @property
    def bad(self) -> tuple[Run, ...]:
        """The checks that failed, or found damage or differences."""
        return tuple(run for run in self.runs if is_bad(run))


def is_bad(run: Run) -> bool:
    """Return whether a check failed, or found damage or differences."""
    return run.stage is RunStage.FAILED or run.verdict == "bad"


def latest_checks(runs: Iterable[Run]) -> LatestChecks:
    """Return the newest ended run of each kind and archive."""
    found: dict[tuple[str, str], Run] = {}
    for run in runs:
        if run.kind in (VERIFICATION, DRILL) and run.stage in ENDED:
            if run.stage is RunStage.CANCELLED:
                continue
            place = run.kind, run.asked.get(ARCHIVE, "")
            if place not in found or _ended_ms(run) > _ended_ms(found[place]):
                found[place] = run
    return LatestChecks(tuple(found.values()))


def _ended_ms(run: Run) -> int:
    return run.ended_ms or run.created_ms
