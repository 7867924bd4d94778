"""A report one can hand to an auditor: a page of facts, charts and tables, or the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kafkeep.errors import EnvironmentFault, UsageError

SUFFIXES = (".html", ".json")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar for each name."""

    title: str
    bars: Sequence[tuple[str, int]]
    unit: str = "records"


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each of several things began (seconds from the first), and how long it took."""

    title: str
    spans: Sequence[tuple[str, float, float, str]]
    """Name, begin, seconds, and what is said of it."""


Section = Table | Bars | Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a report shows; ``document`` is the same for machines, versioned."""

    title: str
    verdict: str
    mood: str
    """``good``, ``warn`` or ``bad``: how the verdict is coloured."""
    summary: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    document: dict[str, Any]


def check_report_path(path: str) -> Path:
    """Return the file to write; UsageError unless it can be HTML or JSON. Asked before the work."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path!r} is no report", hint="Name a file that ends in .html or .json.")
    if not file.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {file.parent} for the report",
            hint="Make it first, or name another.",
        )
    if file.is_dir():
        raise UsageError(f"{path!r} is a folder", hint="Name a file for the report.")
    return file


def write_report(page: Page, file: Path) -> None:
    """Write the page, or its document where the name ends in ``.json``."""
    if file.suffix.lower() == ".json":
        body = orjson.dumps(page.document, option=orjson.OPT_INDENT_2) + b"\n"
    else:
        from kafkeep.care.report_html import render_html  # noqa: PLC0415 - rarely needed

        body = render_html(page).encode()
    try:
        file.write_bytes(body)
    except OSError as error:
        raise EnvironmentFault(f"the report cannot be written to {file}: {error}") from error
