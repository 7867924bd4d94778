"""What a restore did, as a page of a report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkeep.care.report import Bars, Page, Section, Table
from kafkeep.care.tool import TOOL
from kafkeep.config.units import format_size, format_time

if TYPE_CHECKING:
    from kafkeep.config.places import Places
    from kafkeep.restore.summary import RestoreSummary

VERSION = 1


def restore_page(summary: RestoreSummary, places: Places, ended_ms: int) -> Page:
    """Return the page; it tells what was written, not that it is right: verify --against does."""
    told = summary.to_json()
    warnings = summary.warnings
    groups = sorted(summary.groups.items())
    sections: list[Section] = [Bars("Records written per topic", sorted(summary.topics.items()))]
    if groups:
        sections.append(Table("Consumer groups", ("group", "partitions set"), groups))
    if warnings:
        sections.append(Table("Warnings", ("warning",), [(text,) for text in warnings]))
    pace = summary.records / max(summary.seconds, 1e-3)
    return Page(
        title="Restore",
        verdict="done, with warnings" if warnings else "done",
        mood="warn" if warnings else "good",
        summary="kafkeep verify --against reads the target back and compares every record.",
        facts=[
            ("archive", places.archive),
            ("commit", f"{summary.commit}"),
            ("target", places.kafka.bootstrap_servers),
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
            **told,
            "report": "restore",
            "version": VERSION,
            "tool": TOOL,
            "verdict": "warnings" if warnings else "done",
            "archive": places.archive,
            "bootstrap_servers": places.kafka.bootstrap_servers,
            "ended_ms": ended_ms,
        },
    )
