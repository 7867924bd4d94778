"""The overview: is everything safe, how far behind, how fast, how large."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from kafkeep.connect.rest.v1.connectors import growth_of_all
from kafkeep.connect.runs.latest_checks import DRILL, VERIFICATION, latest_checks
from kafkeep.connect.service.overview import GrowthPoint
from kafkeep.errors import KafkeepError
from kafkeep.ui.frame import NavLink
from kafkeep.ui.visit import PageRoute, Visit

NAV = NavLink("Overview", "/", "o", "overview")


def show(visit: Visit) -> Response:
    """Show the health, the totals and a row for each connector."""
    return visit.page("overview/page.html", title="Overview", **_values(visit))


def _values(visit: Visit) -> dict[str, Any]:
    try:
        runs = visit.service.runs.find_all(VERIFICATION, DRILL)
    except KafkeepError:
        runs = []  # the state does not answer; the health says so
    checks = latest_checks(runs)
    overview = visit.service.overview()
    times = [one.verified_ms for one in overview.connectors if one.verified_ms is not None]
    verification = checks.newest(VERIFICATION)
    if verification is not None and verification.ended_ms is not None:
        times.append(verification.ended_ms)
    return {
        "overview": overview,
        "checks": checks,
        "verification": verification,
        "verified_ms": max(times, default=None),
        "drill": checks.newest(DRILL),
    }


def growth(visit: Visit) -> Response:
    """Answer with the chart of all archives; it reads their logs, so the page loads it later."""
    points, unread = growth_of_all(visit.service)
    return visit.part("overview/growth.html", points=points, unread=unread, **chart_values(points))


def chart_values(points: tuple[GrowthPoint, ...]) -> dict[str, object]:
    """Return the columns of a growth chart: seconds, bytes, records."""
    return {
        "columns": [
            [point.at_ms // 1000 for point in points],
            [point.bytes for point in points],
            [point.records for point in points],
        ]
    }


def live(visit: Visit) -> dict[str, str]:
    """Return the parts of the page that change by themselves, by the name of their event."""
    values = _values(visit)
    connectors = values["overview"].connectors
    return {
        "health": visit.fragment("overview/health.html", **values),
        "cards": visit.fragment("overview/cards.html", **values),
        "rows": visit.fragment("connectors/rows.html", connectors=connectors, q=""),
    }


LIVE = {"overview": live}
ROUTES = (
    PageRoute(path="/", run=show),
    PageRoute(path="/overview/growth", run=growth),
)
