"""Schemas: the subjects, and the versions of one with their texts and differences."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from kafkeep.connect.catalog.schemas import (
    VERSIONS_SHOWN,
    DiffLine,
    SchemaPlaces,
    SubjectDetails,
    compare_texts,
    pretty,
)
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.call import from_segment
from kafkeep.connect.rest.v1.schemas import find_side, versions_named
from kafkeep.ui.frame import NavLink
from kafkeep.ui.paging import Paging, page_number
from kafkeep.ui.visit import PageRoute, Visit

NAV = NavLink("Schemas", "/schemas", "m", "schemas")
SUBJECTS_SHOWN = 100
TEXT_SHOWN = 200_000
"""Characters of a schema; the REST API has the whole text."""


def show_list(visit: Visit) -> Response:
    """List the subjects of a registry and of a log."""
    q = visit.query.get("q", "").strip()
    found = visit.service.catalog.schemas.subjects(_places(visit))
    named = [one for one in found.subjects if q.lower() in one.name.lower()]
    paging = Paging(len(named), page_number(visit.query), SUBJECTS_SHOWN)
    return visit.page(
        "schemas/list.html",
        title="Schemas",
        found=found,
        places=found.places,
        subjects=named[paging.start : paging.end],
        paging=paging,
        q=q,
        chosen=_chosen(found.places),
    )


def show(visit: Visit) -> Response:
    """Show the versions of a subject, and the text of one or the differences of two."""
    places = _places(visit)
    page = page_number(visit.query)
    found = visit.service.catalog.schemas.subject(
        from_segment(visit.path["subject"]),
        places,
        start=(page - 1) * VERSIONS_SHOWN,
        also=versions_named(visit.query.get(name, "") for name in ("show", "from", "to")),
    )
    values: dict[str, Any] = {"shown": "", "text": "", "stored": None, "old": "", "new": ""}
    if visit.query.get("from") and visit.query.get("to"):
        values |= {"old": visit.query["from"], "new": visit.query["to"]}
        values["diff"] = _diff(found, values["old"], values["new"])
    else:
        values |= _text(visit, found)
    return visit.page(
        "schemas/subject.html",
        title=found.name,
        subject=found,
        places=places,
        chosen=_chosen(places),
        sides=_sides(found),
        paging=Paging(found.count, page, VERSIONS_SHOWN),
        **values,
    )


def _places(visit: Visit) -> SchemaPlaces:
    return visit.service.catalog.schemas.places(
        visit.query.get("registry", ""), visit.query.get("log", "")
    )


def _chosen(places: SchemaPlaces) -> dict[str, str]:
    """Return the query that names what is compared."""
    found = {}
    if places.registry is not None and len(places.registries) > 1:
        found["registry"] = places.registry.id
    if places.log is not None and len(places.logs) > 1:
        found["log"] = f"{places.log.archive}:{places.log.log}"
    return found


def _sides(found: SubjectDetails) -> list[tuple[str, str]]:
    """Return every text that can be shown, the newest first: its name in a query, and for people.

    A text that both sides have is offered for each of them.
    """
    sides: list[tuple[str, str]] = []
    for one in (*found.versions, *found.also):
        if one.live is not None:
            sides.append((f"registry:{one.version}", f"Version {one.version} in the registry"))
        if one.archived is not None:
            sides.append((f"archive:{one.version}", f"Version {one.version} in the archive"))
    return sides


def _text(visit: Visit, found: SubjectDetails) -> dict[str, Any]:
    sides = _sides(found)
    shown = visit.query.get("show") or (sides[0][0] if sides else "")
    if not shown:
        return {}
    stored = find_side(found, shown)
    text = pretty(stored.schema)
    source = shown.partition(":")[0]
    later = [side for side, _ in sides]
    earlier = later[later.index(shown) + 1 :] + later[: later.index(shown)]
    older = sorted(earlier, key=lambda side: not side.startswith(source))  # stable
    return {
        "shown": shown,
        "stored": stored,
        "text": text[:TEXT_SHOWN],
        "is_cut": len(text) > TEXT_SHOWN,
        "old": older[0] if older else "",
        "new": shown,
    }


def _diff(found: SubjectDetails, old: str, new: str) -> list[DiffLine]:
    before, after = find_side(found, old), find_side(found, new)
    lines = compare_texts(pretty(before.schema), pretty(after.schema))
    if lines is None:
        raise RestError(400, "The texts are too long to be compared here.")
    return lines


ROUTES = (
    PageRoute(path="/schemas", run=show_list),
    PageRoute(path="/schemas/{subject}", run=show),
)
