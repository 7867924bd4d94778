"""The report page of a restore."""

from __future__ import annotations

from kafkeep.clock import tool_name
from kafkeep.maintenance.report import Bars, ReportPage, Section, Table
from kafkeep.options.kafka import Locations
from kafkeep.options.units import format_size, format_time
from kafkeep.restore.summary import RestoreSummary

VERSION = 1


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
