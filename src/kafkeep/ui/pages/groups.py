"""Consumer groups: the list, and one group with its offsets in Kafka beside the saved ones."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from kafkeep.connect.rest.call import from_segment, to_segment
from kafkeep.connect.rest.v1.root import parse_number
from kafkeep.errors import KafkeepError
from kafkeep.ui.display import visible
from kafkeep.ui.frame import NavLink
from kafkeep.ui.paging import Paging, page_number
from kafkeep.ui.visit import PageRoute, Visit

NAV = NavLink("Groups", "/groups", "g", "groups")
GROUPS_SHOWN, PARTITIONS_SHOWN = 100, 200


def show_list(visit: Visit) -> Response:
    """List the groups of Kafka and the archives. htmx gets the rows with their lag."""
    q = visit.query.get("q", "").strip()
    found = visit.service.catalog.groups.list_all()
    named = [one for one in found.groups if q.lower() in one.id.lower()]
    paging = Paging(len(named), page_number(visit.query), GROUPS_SHOWN)
    shown, problem = list(named[paging.start : paging.end]), found.problem
    with_lag = visit.is_htmx or visit.query.get("lag") == "yes"
    if with_lag and not problem:
        try:
            shown = visit.service.catalog.groups.with_lag(shown)
        except KafkeepError as error:
            problem = error.message
    values: dict[str, Any] = {
        "groups": shown,
        "problem": problem,
        "with_lag": with_lag,
        "q": q,
        "paging": paging,
        "known": len(found.groups),
    }
    if visit.is_htmx:
        return visit.part("groups/rows.html", **values)
    return visit.page("groups/list.html", title="Consumer groups", **values)


def show(visit: Visit) -> Response:
    """Show one group: state, members, and where it is in Kafka and in the archive."""
    commit = number_of(visit, "commit") if visit.query.get("commit", "").strip() else None
    page = page_number(visit.query)
    archive, _, log = visit.query.get("log", "").partition(":")
    details = visit.service.catalog.groups.details(
        group_of(visit),
        archive=archive,
        log=log,
        commit=commit,
        start=(page - 1) * PARTITIONS_SHOWN,
        count=PARTITIONS_SHOWN,
    )
    return visit.page(
        "groups/group.html",
        title=visible(details.id),
        group=details.id,
        details=details,
        tab="offsets",
        paging=Paging(details.row_count, page, PARTITIONS_SHOWN),
        commit=commit,
    )


def group_of(visit: Visit) -> str:
    """Return the group in the path."""
    return from_segment(visit.path["group"])


def quoted(group: str) -> str:
    """Return a group for an address."""
    return quote(to_segment(group), safe="")


def number_of(visit: Visit, name: str) -> int:
    """Return a whole number of the query, 0 if it is not there; 400 for anything else."""
    return parse_number(name, visit.query.get(name, "").strip() or "0")


ROUTES = (
    PageRoute(path="/groups", run=show_list),
    PageRoute(path="/groups/{group}", run=show),
)
