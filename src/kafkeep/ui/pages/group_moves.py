"""Move a consumer group to its saved offsets: plan, apply, history, roll back."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.responses import Response

from kafkeep.connect.catalog.group_moves import GroupMovePlan, OffsetSnapshot
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.v1.group_moves import parse_move
from kafkeep.connect.rest.v1.root import parse_number
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError, PreflightError
from kafkeep.ui.display import visible
from kafkeep.ui.frame import ROOT
from kafkeep.ui.pages.groups import group_of, quoted
from kafkeep.ui.visit import PageRoute, Visit, see_other

MESSAGES = {
    "group-moved": "The offsets of the group were set. The previous ones are in its history.",
    "group-returned": "The group has the offsets of the snapshot again.",
}
ROWS_SHOWN = 200
"""How many partitions a page shows; REST answers with all of them."""
_NOT_CONFIRMED = "That is not the name of this group. Nothing was changed."


def show_plan(visit: Visit) -> Response:
    """Show which offsets a move would set; the form alone until that is asked for."""
    fields = _fields(visit.query)
    has_saved = bool(fields["archive"]) or bool(visit.service.catalog.groups.saved(group_of(visit)))
    if visit.query.get("plan") == "yes" and has_saved:
        return _plan_page(visit, fields)
    return _form_page(visit, fields, is_waiting=True)


def _plan_page(
    visit: Visit, fields: Mapping[str, str], problem: str = "", status: int = 200
) -> Response:
    """Return the form with the plan, which takes several requests to Kafka and the archive."""
    try:
        request = parse_move(group_of(visit), fields)
        plan = visit.service.catalog.group_moves.plan(request)
    except KafkeepError as error:
        wrong = f"{error.message}. {error.hint}" if error.hint else error.message
        if isinstance(error, RestError) and status == 200:
            status = error.status
        return _form_page(visit, fields, wrong=wrong, problem=problem, status=status)
    return _form_page(visit, fields, plan=plan, problem=problem, status=status)


def _form_page(
    visit: Visit,
    fields: Mapping[str, str],
    *,
    plan: GroupMovePlan | None = None,
    wrong: str = "",
    problem: str = "",
    status: int = 200,
    is_waiting: bool = False,
) -> Response:
    group = group_of(visit)
    return visit.page(
        "groups/plan.html",
        title=f"Move {visible(group)}",
        http_status=status,
        group=group,
        tab="plan",
        plan=plan,
        wrong=wrong,
        problem=problem,
        is_waiting=is_waiting,
        fields=fields,
        logs=visit.service.catalog.groups.saved(group),
        shown=ROWS_SHOWN,
        api_query=urlencode({name: text for name, text in fields.items() if text}),
    )


def _fields(given: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of the form; the log is chosen together with its archive."""
    archive, _, log = given.get("log", "").partition(":")
    names = ("commit", "at", "topics")
    found = {name: given.get(name, "").strip() for name in names}
    exact = "true" if given.get("exact_offsets") else ""
    return {**found, "archive": archive, "log": log, "exact_offsets": exact}


def apply(visit: Visit) -> Response:
    """Set the offsets of the plan that was shown, when the name of the group was typed."""
    group, fields = group_of(visit), _fields(visit.form)
    if visit.form.get("confirm", "") != visible(group):
        return _plan_page(visit, fields, _NOT_CONFIRMED, 400)
    try:
        visit.service.catalog.group_moves.apply(
            parse_move(group, fields), visit.form.get("digest", "")
        )
    except RestError as error:
        return _plan_page(visit, fields, error.message, error.status)
    except PreflightError as error:
        hint = f" {error.hint}" if error.hint else ""
        return _plan_page(visit, fields, f"Nothing was set: {error.message}.{hint}", 409)
    return see_other(f"{ROOT}/groups/{quoted(group)}?done=group-moved")


def show_history(visit: Visit) -> Response:
    """Show the offsets that the group had before each change."""
    group = group_of(visit)
    return visit.page(
        "groups/history.html",
        title=f"History of {visible(group)}",
        group=group,
        tab="history",
        snapshots=visit.service.catalog.group_moves.snapshots(group),
        shown=ROWS_SHOWN,
        first_of=lambda offsets: heapq.nsmallest(ROWS_SHOWN, offsets.items()),
    )


def ask_roll_back(visit: Visit) -> Response:
    """Show what a roll back would set, and ask for the name of the group."""
    return _roll_back_page(visit, visit.query)


def _roll_back_page(
    visit: Visit, given: Mapping[str, str], problem: str = "", status: int = 200
) -> Response:
    group, snapshot = group_of(visit), _snapshot(visit, given)
    moves = visit.service.catalog.group_moves
    wanted, missing = moves.split_missing(snapshot)
    return visit.page(
        "groups/roll_back.html",
        title=f"Roll back {visible(group)}",
        http_status=status,
        group=group,
        tab="history",
        snapshot=snapshot,
        wanted=sorted(wanted.items()),
        shown=ROWS_SHOWN,
        missing=missing,
        live=moves.live_offsets(group),
        problem=problem,
    )


def roll_back(visit: Visit) -> Response:
    """Set the offsets of a snapshot, when the name of the group was typed."""
    group = group_of(visit)
    snapshot = _snapshot(visit, visit.form)
    if visit.form.get("confirm", "") != visible(group):
        return _roll_back_page(visit, visit.form, _NOT_CONFIRMED, 400)
    try:
        visit.service.catalog.group_moves.roll_back(group, snapshot)
    except PreflightError as error:
        hint = f" {error.hint}" if error.hint else ""
        problem = f"Nothing was set: {error.message}.{hint}"
        return _roll_back_page(visit, visit.form, problem, 409)
    return see_other(f"{ROOT}/groups/{quoted(group)}/history?done=group-returned")


def _snapshot(visit: Visit, given: Mapping[str, str]) -> OffsetSnapshot:
    return visit.service.catalog.group_moves.snapshot(
        group_of(visit),
        given.get("archive", ""),
        given.get("restore", ""),
        parse_number("revision", given.get("revision", "")),
    )


_HERE = "/groups/{group}"
ROUTES = (
    PageRoute(path=f"{_HERE}/plan", run=show_plan),
    PageRoute(path=f"{_HERE}/apply", run=apply, role=Role.ADMIN, method="POST"),
    PageRoute(path=f"{_HERE}/history", run=show_history),
    PageRoute(path=f"{_HERE}/roll-back", run=ask_roll_back, role=Role.ADMIN),
    PageRoute(path=f"{_HERE}/roll-back", run=roll_back, role=Role.ADMIN, method="POST"),
)
