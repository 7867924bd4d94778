"""Drills without Kafka: each ends at once, with a verdict and a report of its own."""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.connect.catalog.archives.archives import Archives
from kafkeep.connect.runs.kind import RunResult, RunWork, Verdict, check_archive, parse_asked
from kafkeep.connect.runs.run import RunProgress
from kafkeep.maintenance.report import Bars, ReportPage, Table, Timeline
from kafkeep.options.maintenance import DrillOptions

WRITTEN_IN_A_REPORT = "<script>alert(1)</script>"


class MemoryDrills:
    """A kind of run for tests; ``verdict`` is what the next ones find."""

    name = "drill"

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self.verdict: Verdict = "good"

    def check(self, asked: Mapping[str, str]) -> None:
        chosen, options = parse_asked(asked, DrillOptions)
        check_archive(self._archives, chosen.archive_id, options.name)

    def execute(self, work: RunWork) -> RunResult:
        chosen, options = parse_asked(work.asked, DrillOptions)
        work.report(RunProgress(phase="Comparing", done=1, total=1, unit="tasks"))
        verdict = {"good": "clean", "warn": "warnings", "bad": "differs"}[self.verdict]
        summary = {
            "archive": self._archives.place(chosen.archive_id).address,
            "verdict": verdict,
            "archived": 10,
            "restored": 10,
            "proven": 9 if self.verdict == "bad" else 10,
            "sample": str(options.sample or "all"),
            "bytes": 1000,
            "scratch_topics": {"orders": "kafkeep-drill-x-0-orders"},
            "leftovers": [],
            "warnings": [WRITTEN_IN_A_REPORT],
            "seconds": 1.5,
            "restore_seconds": 1.0,
            "log": "backup",
            "commit": 3,
        }
        page = ReportPage(
            title="Restore drill",
            verdict=verdict,
            mood=self.verdict,
            summary="9 of 10 archived records were restored.",
            facts=[("archive", WRITTEN_IN_A_REPORT)],
            sections=[
                Table("Warnings", ("warning",), [(WRITTEN_IN_A_REPORT,), (None,)]),
                Bars("Records per topic", [("orders", 10)]),
                Timeline("When partitions were compared", [("orders-0", 0.0, 1.0, "10/s")]),
            ],
            document={"report": "drill", "verdict": verdict},
        )
        return RunResult(verdict=self.verdict, summary=summary, report=page)
