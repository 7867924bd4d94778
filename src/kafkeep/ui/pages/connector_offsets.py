"""The offsets of a connector: how far it is, and moving a stopped connector."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.call import parse_json
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError
from kafkeep.ui.pages.connectors import tab_page, tolerant
from kafkeep.ui.paging import Paging, page_number
from kafkeep.ui.visit import PageRoute, Visit, connector_path, see_other

OffsetRows = tuple[list[Json], int]
OFFSETS_SHOWN = 200
_ROWS_TO_EDIT = 20
_NOT_CONFIRMED = "That is not the name of this connector. Nothing was changed."
MESSAGES = {
    "offsets-altered": "The offsets were changed. The connector continues there when it resumes.",
    "offsets-reset": "The connector was moved back to the beginning.",
}


def show(visit: Visit) -> Response:
    """Show how far the connector is in each partition."""
    return _page(visit)


def _page(visit: Visit, *, wrong: str = "", failed: str = "", status: int = 200) -> Response:
    """Return the page; ``wrong`` says what is wrong with the form ``failed``."""
    page = page_number(visit.query)
    none: OffsetRows = ([], 0)
    (shown, count), problem = tolerant(visit, lambda: _read(visit, page), none)
    paging = Paging(count, page, OFFSETS_SHOWN)
    if paging.number != page:
        (shown, _), problem = tolerant(visit, lambda: _read(visit, paging.number), none)
    return tab_page(
        visit,
        "offsets",
        http_status=status,
        offsets=shown,
        problem=problem,
        paging=paging,
        text=visit.form.get("offsets") or _as_text(shown[:_ROWS_TO_EDIT]),
        wrong=wrong,
        failed=failed,
    )


def _read(visit: Visit, page: int) -> OffsetRows:
    """Return a page of offsets, and how many there are; as they are now after a change."""
    start, max_age_s = (page - 1) * OFFSETS_SHOWN, 0.0 if "done" in visit.query else None
    return visit.service.offset_page(visit.name, start, OFFSETS_SHOWN, max_age_s=max_age_s)


def _as_text(rows: list[Any]) -> str:
    """Return offsets as JSON with a row per line, as Connect's API takes them."""
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    return f"[\n{lines}\n]" if rows else "[]"


def alter(visit: Visit) -> Response:
    """Move the partitions of the form, when the name of the connector was typed."""
    try:
        _check_confirmed(visit)
        visit.service.change(
            operations.alter_offsets, visit.name, _rows(visit.form.get("offsets", ""))
        )
    except KafkeepError as error:
        return _refused(visit, error, "alter")
    return see_other(connector_path(visit.name, "/offsets?done=offsets-altered"))


def reset(visit: Visit) -> Response:
    """Move the connector back to the beginning, when its name was typed."""
    try:
        _check_confirmed(visit)
        visit.service.change(operations.reset_offsets, visit.name)
    except KafkeepError as error:
        return _refused(visit, error, "reset")
    return see_other(connector_path(visit.name, "/offsets?done=offsets-reset"))


def _check_confirmed(visit: Visit) -> None:
    if visit.form.get("confirm", "") != visit.name:
        raise RestError(400, _NOT_CONFIRMED)


def _refused(visit: Visit, error: KafkeepError, failed: str) -> Response:
    if not isinstance(error, RestError) or error.status not in (400, 409):
        raise error
    return _page(visit, wrong=error.message, failed=failed, status=error.status)


def _rows(text: str) -> list[Json]:
    """Return the rows of the form; 400 says what is wrong with them."""
    try:
        found = parse_json(text.encode())
    except RestError as error:
        raise RestError(400, error.message.replace("The body", "The text")) from error
    if isinstance(found, dict) and set(found) == {"offsets"}:
        found = found["offsets"]
    if not isinstance(found, list) or not all(
        isinstance(row, dict) and set(row) == {"partition", "offset"} for row in found
    ):
        raise RestError(400, "Write a list of objects with partition and offset")
    return found


ROUTES = (
    PageRoute(path="/connectors/{name}/offsets", run=show),
    PageRoute(path="/connectors/{name}/offsets/alter", run=alter, role=Role.ADMIN, method="POST"),
    PageRoute(path="/connectors/{name}/offsets/reset", run=reset, role=Role.ADMIN, method="POST"),
)
