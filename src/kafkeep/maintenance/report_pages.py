"""Turn results and errors into pages of a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkeep.clock import tool_name
from kafkeep.compare.differences import WARNINGS, Verdict
from kafkeep.compare.result import CompareResult
from kafkeep.maintenance.drill import DrillResult
from kafkeep.maintenance.report import Bars, ReportPage, Section, Table, Timeline
from kafkeep.maintenance.verify.finding import VerifyReport
from kafkeep.options.kafka import Locations
from kafkeep.options.units import format_size, format_time
from kafkeep.restore.summary import RestoreSummary

VERSION = 1
_TITLES = {
    "drill": "Restore drill",
    "restore": "Restore",
    "verify": "Archive verified",
    "verify-against": "Target compared with archive",
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
) -> ReportPage:
    """Return the report; ``error`` is the JSON document of an error."""
    target = [("target", bootstrap or "from the client properties")]
    return ReportPage(
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
            "tool": tool_name(),
            "verdict": "failed",
            "archive": archive,
            "bootstrap_servers": bootstrap,
            "began_ms": began_ms,
            "seconds": round(seconds, 3),
        },
    )


_MOODS = {"clean": "good", "warnings": "warn", "differs": "bad"}
_SAID = {
    "clean": "The target holds what was archived: every record was compared.",
    "warnings": "Every record that the target should hold is as it was archived; see the warnings.",
    "differs": "The target does not hold what was archived.",
}
_VERIFIED = {
    "intact": "Every object matches the log.",
    "readable": "There is no log: every object can be read, and names and counts agree.",
    "damaged": "See the findings.",
    "incomplete": "Commits were removed from the log: see the findings.",
}


def against_page(result: CompareResult) -> ReportPage:
    """Return the report of a comparison."""
    return ReportPage(
        title="Target compared with archive",
        verdict=result.verdict,
        mood=_MOODS[result.verdict],
        summary=_SAID[result.verdict],
        facts=against_facts(result),
        sections=against_sections(result),
        document=result.to_json(),
    )


def against_facts(result: CompareResult) -> list[tuple[str, str]]:
    """Return what was compared with what, and when."""
    return [
        ("archive", result.archive),
        ("log, commit", f"{result.log}, {result.commit} of {format_time(result.commit_at_ms)}"),
        ("SHA-256 of the commit", result.commit_sha256),
        ("target", f"{result.bootstrap} (cluster {result.cluster_id})"),
        ("offsets", "must be those archived" if result.exact_offsets else "not compared"),
        ("records archived", f"{result.sum('archived'):,}"),
        ("records in the target", f"{result.sum('found'):,}"),
        ("the same", f"{result.sum('matched'):,}"),
        ("began", format_time(result.began_ms)),
        ("took", f"{result.seconds:.1f} s"),
        ("throughput", f"{result.sum('archived') / max(result.seconds, 1e-3):,.0f} records/s"),
    ]


def against_sections(result: CompareResult) -> list[Section]:
    """Return verdicts, charts, topics, partitions and places."""
    tally = result.tally
    verdicts = [
        (v.value, tally.counts.get(v, 0), "warning" if v in WARNINGS else "fault") for v in Verdict
    ]
    every = [one for topic in result.topics for one in topic.compared]
    first = min((one.began_ms for one in every), default=result.began_ms)
    return [
        Table("Verdicts", ("verdict", "records", "kind"), verdicts),
        Bars("Records per topic", [(t.plan.target.name, t.sum("archived")) for t in result.topics]),
        Timeline(
            "When partitions were compared, and how fast",
            [
                (
                    _where(one.target, one.partition),
                    (one.began_ms - first) / 1000,
                    one.seconds,
                    f"{one.archived / max(one.seconds, 1e-3):,.0f} records/s",
                )
                for one in every
            ],
        ),
        Table(
            "Topics",
            ("archived topic", "target", "compared by", "records", "the same", "not compared"),
            [
                (
                    t.plan.source.topic,
                    t.plan.target.name,
                    "key" if t.plan.by_key else "order",
                    t.sum("archived"),
                    t.sum("matched"),
                    ", ".join(t.plan.left_out) or "nothing",
                )
                for t in result.topics
            ],
        ),
        *_findings(result),
        Table(
            "Partitions",
            ("partition", "archived", "in the target", "the same", "SHA-256 over its objects"),
            [
                (_where(c.target, c.partition), c.archived, c.found, c.matched, c.sha256)
                for c in every
            ],
        ),
    ]


def _findings(result: CompareResult) -> list[Section]:
    notes = [
        *result.notes,
        *(f"{t.plan.target.name}: {n}" for t in result.topics for n in t.plan.notes),
    ]
    rows: list[tuple[Any, ...]] = [
        (verdict.value, _where(one.target, one.partition), place.archive, place.target, place.what)
        for topic in result.topics
        for one in topic.compared
        for verdict, places in one.tally.places.items()
        for place in places
    ]
    found: list[Section] = []
    if rows:
        columns = ("verdict", "partition", "offset in the archive", "in the target", "what differs")
        found.append(Table("First places of each verdict", columns, rows))
    if notes:
        found.append(Table("Notes", ("note",), [(note,) for note in notes]))
    return found


def _where(topic: str, partition: int | None) -> str:
    return topic if partition is None else f"{topic}-{partition}"


def drill_page(result: DrillResult) -> ReportPage:
    """Return the report of a drill."""
    share = 100 * result.proven / result.archived if result.archived else 100.0
    scratch = Table(
        "Scratch topics, deleted again",
        ("archived topic", "scratch topic"),
        [*result.scratch.items()],
    )
    remarks = [
        *(f"left by another drill: {name}" for name in result.leftovers),
        *result.warnings,
    ]
    sections: list[Section] = (
        [Table("Warnings", ("warning",), [(r,) for r in remarks])] if remarks else []
    )
    return ReportPage(
        title="Restore drill",
        verdict=result.verdict,
        mood=_MOODS[result.verdict],
        summary=f"{result.proven:,} of {result.archived:,} archived records were restored and "
        f"match the archive ({share:.4g}%), in {result.seconds:.1f} s.",
        facts=[
            ("sample", result.sample),
            ("whole drill took", f"{result.seconds:.1f} s"),
            ("restoring took", f"{result.restored.seconds:.1f} s"),
            ("bytes written", format_size(result.restored.bytes)),
            *against_facts(result.against),
        ],
        sections=[*sections, *against_sections(result.against), scratch],
        document=result.to_json(),
    )


def verify_page(report: VerifyReport, *, began_ms: int, seconds: float) -> ReportPage:
    """Return the report of a verification."""
    document = {
        "report": "verify",
        "version": VERSION,
        "tool": tool_name(),
        "began_ms": began_ms,
        "seconds": round(seconds, 3),
        **report.to_json(),
    }
    rows = [
        (f.severity.value, f.kind.value, str(f.partition_id or ""), f.key, f.message)
        for f in report.findings
    ]
    findings = Table("Findings", ("severity", "kind", "partition", "object", "what"), rows)
    objects = [(f"{kind}", count) for kind, count in _kinds(report).items()]
    return ReportPage(
        title="Archive verified",
        verdict=report.verdict,
        mood="good" if report.intact else "bad",
        summary=_VERIFIED[report.verdict],
        facts=[
            ("archive", report.archive),
            ("logs", ", ".join(report.logs) or "none"),
            ("commits", f"{report.commits:,}"),
            ("objects", f"{report.objects:,}"),
            ("records", f"{report.records:,}"),
            ("read", format_size(report.read_bytes)),
            ("every record decoded", "yes" if report.deep else "no"),
            ("lost offsets", f"{report.lost_offsets:,}"),
            ("began", format_time(began_ms)),
            ("took", f"{seconds:.1f} s"),
        ],
        sections=[Bars("Findings by kind", objects, "findings"), findings] if rows else [],
        document=document,
    )


def _kinds(report: VerifyReport) -> dict[str, int]:
    found: dict[str, int] = {}
    for finding in report.findings:
        found[finding.kind.value] = found.get(finding.kind.value, 0) + 1
    return found


def restore_page(summary: RestoreSummary, locations: Locations, ended_ms: int) -> ReportPage:
    """Return the report page: what was written. Only ``verify --against`` proves it right."""
    warnings = summary.warnings
    groups = sorted(summary.groups.items())
    sections: list[Section] = [Bars("Records written per topic", sorted(summary.topics.items()))]
    if groups:
        sections.append(Table("Consumer groups", ("group", "partitions set"), groups))
    if warnings:
        sections.append(Table("Warnings", ("warning",), [(text,) for text in warnings]))
    pace = summary.records / max(summary.seconds, 1e-3)
    return ReportPage(
        title="Restore",
        verdict="done, with warnings" if warnings else "done",
        mood="warn" if warnings else "good",
        summary="kafkeep verify --against reads the target back and compares every record.",
        facts=[
            ("archive", locations.archive),
            ("commit", f"{summary.commit}"),
            ("target", locations.kafka.bootstrap_servers),
            ("restore", summary.id),
            ("records written", f"{summary.records:,}"),
            ("there before", f"{summary.already_there:,}"),
            ("bytes", format_size(summary.bytes)),
            ("objects read", f"{summary.objects:,}"),
            ("offsets filled, holes", f"{summary.filled:,}, {summary.holes:,}"),
            ("ended", format_time(ended_ms)),
            ("took", f"{summary.seconds:.1f} s, {pace:,.0f} records/s"),
        ],
        sections=sections,
        document={
            **summary.to_json(),
            "report": "restore",
            "version": VERSION,
            "tool": tool_name(),
            "verdict": "warnings" if warnings else "done",
            "archive": locations.archive,
            "bootstrap_servers": locations.kafka.bootstrap_servers,
            "ended_ms": ended_ms,
        },
    )
