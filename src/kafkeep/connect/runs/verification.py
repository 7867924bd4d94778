"""The kind of run that verifies an archive, as ``kafkeep verify`` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import list_logs
from kafkeep.clock import now_ms
from kafkeep.connect.catalog.catalog import Catalog
from kafkeep.connect.model import Json
from kafkeep.connect.runs.kind import RunResult, RunWork, Verdict, check_archive, parse_asked
from kafkeep.connect.runs.run import RunProgress
from kafkeep.errors import InterruptedRunError
from kafkeep.failpoint import failpoint
from kafkeep.maintenance.report_pages import verify_page
from kafkeep.maintenance.verify.finding import Severity, VerifyReport
from kafkeep.maintenance.verify.last_verified import save_verified, trace_of
from kafkeep.maintenance.verify.verify import verify
from kafkeep.options.option import option, topic_names

FINDINGS_KEPT = 100
"""How many findings are stored with the run; the report has all."""
_WORKERS = 2
"""How many objects are read at the same time, beside the connectors."""


@dataclass(frozen=True, kw_only=True)
class VerificationOptions:
    """What to verify."""

    name: str | None = option(
        "name", "The log to verify. Default: all.", default=None, metavar="LOG"
    )
    topics: tuple[str, ...] = option(
        "topics", "Topics to verify. Default: all.", default=(), parse=topic_names, metavar="NAMES"
    )
    deep: bool = option("deep", "Also decode every record.", default=False)


class VerifyingService(Protocol):
    """The part of the service that a verification uses."""

    @property
    def catalog(self) -> Catalog:
        """The archives of the connectors."""

    def expire_verified(self) -> None:
        """Show that an archive was verified just now."""


class VerificationRuns:
    """Verifies archives of the service's connectors.

    An interrupted run begins again. A log counts as verified only once all of it was read and found
    intact: then the trace is stored that ``verify`` leaves too.
    """

    name = "verification"

    def __init__(self, service: Callable[[], VerifyingService]) -> None:
        self._service = service

    def check(self, asked: Mapping[str, str]) -> None:
        """Refuse unknown options, an archive that no connector uses, and unknown logs."""
        chosen, options = parse_asked(asked, VerificationOptions)
        check_archive(self._service().catalog.archives, chosen.archive_id, options.name)

    def execute(self, work: RunWork) -> RunResult:
        """Read every object that the logs name."""
        chosen, options = parse_asked(work.asked, VerificationOptions)
        archives = self._service().catalog.archives
        store = archives.store(archives.place(chosen.archive_id))
        names = [options.name] if options.name is not None else list_logs(store)
        began_ms, began = now_ms(), time.monotonic()
        work.report(RunProgress(phase="Reading logs", unit="objects"))

        def on_progress(done: int, total: int) -> None:
            if work.stop.is_set():
                raise InterruptedRunError("the verification was stopped")
            work.report(RunProgress(phase="Reading", done=done, total=total, unit="objects"))

        found = verify(
            store,
            names,
            deep=options.deep,
            topics=options.topics or None,
            workers=_WORKERS,
            on_progress=on_progress,
        )
        failpoint("verification.read")
        if found.intact and not options.topics:
            self._leave_traces(store, found)
        seconds = time.monotonic() - began
        return RunResult(
            verdict=_verdict(found),
            summary=_summary(found, options, seconds),
            report=verify_page(found, began_ms=began_ms, seconds=seconds),
        )

    def _leave_traces(self, store: ObjectStore, found: VerifyReport) -> None:
        for state in found.states:
            trace = {"kind": "archive", "deep": found.deep, **trace_of(state)}
            save_verified(store, state.name, now_ms(), trace)
        self._service().expire_verified()


def _verdict(found: VerifyReport) -> Verdict:
    if not found.intact:
        return "bad"
    has_warnings = any(one.severity is Severity.WARNING for one in found.findings)
    return "warn" if has_warnings else "good"


def _summary(found: VerifyReport, options: VerificationOptions, seconds: float) -> Json:
    count = dict.fromkeys(Severity, 0)
    for one in found.findings:
        count[one.severity] += 1
    return {
        "archive": found.archive,
        "logs": list(found.logs),
        "topics": list(options.topics),
        "deep": found.deep,
        "verdict": found.verdict,
        "commits": found.commits,
        "objects": found.objects,
        "records": found.records,
        "read_bytes": found.read_bytes,
        "lost_offsets": found.lost_offsets,
        "damaged": count[Severity.DAMAGE],
        "warnings": count[Severity.WARNING],
        "notes": count[Severity.INFO],
        "findings": [one.to_json() for one in found.findings[:FINDINGS_KEPT]],
        "seconds": round(seconds, 3),
    }
