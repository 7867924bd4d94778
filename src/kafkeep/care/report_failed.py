"""What ended in an error, as the page of a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkeep.care.report import Page
from kafkeep.care.tool import TOOL
from kafkeep.config.units import format_time

VERSION = 1
_TITLES = {
    "drill": "Restore drill",
    "restore": "Restore",
    "verify": "Archive verified",
    "verify-against": "Target held against archive",
}
_SUMMARIES = {"restore": "Not everything is restored"}


def failed_page(
    report: str,
    error: Mapping[str, Any],
    *,
    archive: str,
    bootstrap: str | None,
    began_ms: int,
    seconds: float,
) -> Page:
    """Return the report; ``error`` is the document that machines get of an error."""
    target = [("target", bootstrap or "as the client properties say")]
    return Page(
        title=_TITLES[report],
        verdict="failed",
        mood="bad",
        summary=f"{_SUMMARIES.get(report, 'Nothing is proven')}: {error['message']}.",
        facts=[
            ("archive", archive),
            *(target if report != "verify" else ()),
            ("error", f"{error['error']}, exit code {error['code']}"),
            ("hint", error["hint"] or "none"),
            ("began", format_time(began_ms)),
            ("took", f"{seconds:.1f} s"),
        ],
        sections=[],
        document={
            **error,
            "report": report,
            "version": VERSION,
            "tool": TOOL,
            "verdict": "failed",
            "archive": archive,
            "bootstrap_servers": bootstrap,
            "began_ms": began_ms,
            "seconds": round(seconds, 3),
        },
    )
