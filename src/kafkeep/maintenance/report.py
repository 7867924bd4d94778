"""A report for an auditor: facts, charts and tables as one HTML page, or the same as JSON.

The page is self-contained: it includes its styles and charts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import Any, assert_never

import orjson

from kafkeep.errors import EnvironmentFault, UsageError

_WIDTH, _LABEL, _ROW = 860, 230, 26
_MOST_ROWS = 200

_STYLE = """
:root { color-scheme: light dark; --ink:#1a1d21; --dim:#5c6570; --paper:#fff; --line:#d9dee4;
  --bar:#3b6fb6; --good:#1b7f4b; --warn:#9a6700; --bad:#b42318; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e9ed; --dim:#9aa4b0; --paper:#14171b;
  --line:#333a43; --bar:#6ea0e6; --good:#4cc38a; --warn:#e2b203; --bad:#ff7b6b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { font-weight: 700; text-transform: uppercase; letter-spacing: .04em; }
.good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 600; } td.number { text-align: right; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
svg text.dim { fill: var(--dim); } svg rect { fill: var(--bar); } svg line { stroke: var(--line); }
footer { color: var(--dim); margin-top: 2rem; font-size: .85rem; }
@media print { body { max-width: none; } }
"""


def render_html(page: ReportPage) -> str:
    """Return the page; every text in it is escaped."""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in page.facts)
    sections = "\n".join(_section(section) for section in page.sections)
    title = escape(page.title)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{_STYLE}</style></head>
<body><main>
<h1>{title}</h1>
<p><span class="verdict {escape(page.mood)}">{escape(page.verdict)}</span>
{escape(page.summary)}</p>
<dl>{facts}</dl>
{sections}
</main><footer>{escape(str(page.document.get("tool", "kafkeep")))}</footer></body></html>
"""


def _section(section: Section) -> str:
    match section:
        case Table():
            body = _table(section)
        case Bars():
            body = _bars(section)
        case Timeline():
            body = _timeline(section)
        case _:
            assert_never(section)
    return f"<section><h2>{escape(section.title)}</h2>{body}</section>"


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape('-' if value is None else str(value))}</td>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in table.rows[:_MOST_ROWS]
    )
    more = _more(len(table.rows))
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        f"</div>{more}"
    )


def _more(count: int) -> str:
    left = count - _MOST_ROWS
    return f"<p>{left:,} more are in the JSON form of this report.</p>" if left > 0 else ""


def _bars(chart: Bars) -> str:
    most = max((value for _, value in chart.bars), default=0) or 1
    room = _WIDTH - _LABEL - 110
    marks = []
    for row, (name, value) in enumerate(chart.bars[:_MOST_ROWS]):
        y, width = row * _ROW, max(1, round(room * value / most))
        marks.append(
            f'<text x="0" y="{y + 17}">{escape(_short(name))}</text>'
            f'<rect x="{_LABEL}" y="{y + 5}" width="{width}" height="{_ROW - 10}" rx="2"/>'
            f'<text class="dim" x="{_LABEL + width + 6}" y="{y + 17}">{value:,}</text>'
        )
    label = f"{chart.title}, in {chart.unit}"
    return _svg(marks, min(len(chart.bars), _MOST_ROWS), label) + _more(len(chart.bars))


def _timeline(chart: Timeline) -> str:
    end = max((begin + seconds for _, begin, seconds, _ in chart.spans), default=0.0) or 1.0
    room = _WIDTH - _LABEL - 150
    marks = [f'<line x1="{_LABEL}" y1="0" x2="{_LABEL}" y2="{len(chart.spans) * _ROW}"/>']
    for row, (name, begin, seconds, said) in enumerate(chart.spans[:_MOST_ROWS]):
        y, x = row * _ROW, _LABEL + round(room * begin / end)
        width = max(2, round(room * seconds / end))
        marks.append(
            f'<text x="0" y="{y + 17}">{escape(_short(name))}</text>'
            f'<rect x="{x}" y="{y + 5}" width="{width}" height="{_ROW - 10}" rx="2"/>'
            f'<text class="dim" x="{x + width + 6}" y="{y + 17}">{escape(said)}</text>'
        )
    return _svg(marks, min(len(chart.spans), _MOST_ROWS), chart.title) + _more(len(chart.spans))


def _svg(marks: list[str], rows: int, label: str) -> str:
    height = max(1, rows) * _ROW
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(marks)}</svg>"
    )


def _short(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:16]}…{name[-17:]}"


SUFFIXES = (".html", ".json")


@dataclass(frozen=True, slots=True)
class Table:
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
    """The start (seconds after the first) and duration of several items."""

    title: str
    spans: Sequence[tuple[str, float, float, str]]
    """Name, start, seconds, and label."""


Section = Table | Bars | Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The contents of a report; ``document`` is its versioned JSON form."""

    title: str
    verdict: str
    mood: str
    """The colour of the verdict: ``good``, ``warn`` or ``bad``."""
    summary: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    document: dict[str, Any]


_KINDS: Mapping[str, type[Table] | type[Bars] | type[Timeline]] = {
    "table": Table,
    "bars": Bars,
    "timeline": Timeline,
}


def report_to_json(page: ReportPage) -> dict[str, Any]:
    """Return a page as a document that ``report_from_json`` reads; values of cells are scalars."""
    names = {kind: name for name, kind in _KINDS.items()}
    sections = [{"kind": names[type(one)], **asdict(one)} for one in page.sections]
    document = {**{one.name: getattr(page, one.name) for one in fields(page)}, "sections": sections}
    plain: dict[str, Any] = orjson.loads(orjson.dumps(document))
    return plain


def report_from_json(document: Mapping[str, Any]) -> ReportPage:
    """Return the page of a stored document; KeyError or TypeError when it is none."""
    sections = []
    for one in document["sections"]:
        given = dict(one)
        kind = _KINDS[given.pop("kind")]
        sections.append(kind(**given))
    facts = [(str(name), str(text)) for name, text in document["facts"]]
    return ReportPage(**{**document, "sections": sections, "facts": facts})


def check_report_path(path: str) -> Path:
    """Return the file to write; UsageError unless it is an HTML or JSON file in a folder."""
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{path!r} is not a report file", hint="Name a file that ends in .html or .json."
        )
    if not file.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {file.parent} for the report",
            hint="Create it, or name a file in another folder.",
        )
    if file.is_dir():
        raise UsageError(f"{path!r} is a folder", hint="Name a file for the report.")
    return file


def write_report(page: ReportPage, file: Path) -> None:
    """Write the page, or its document if the name ends in ``.json``."""
    if file.suffix.lower() == ".json":
        body = orjson.dumps(page.document, option=orjson.OPT_INDENT_2) + b"\n"
    else:
        body = render_html(page).encode()
    try:
        file.write_bytes(body)
    except OSError as error:
        raise EnvironmentFault(f"the report cannot be written to {file}: {error}") from error
