"""Calls that check archives: verifications, drills, and when they run by themselves."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.clock import now_ms
from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import (
    Call,
    Endpoint,
    as_config,
    get_endpoint,
    parse_object,
    without_nulls,
)
from kafkeep.connect.rest.json_schemas import (
    MAYBE_TEXT,
    TEXT,
    TIME,
    Schema,
    list_schema,
    map_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import ROOT
from kafkeep.connect.rest.v1.run_calls import RUN_SCHEMAS, run_endpoints
from kafkeep.connect.runs.schedules import RunSchedule
from kafkeep.connect.service import operations
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role

KINDS = ("verification", "drill")
"""The kinds of runs that a schedule may start."""
_SCHEDULES = f"{ROOT}/schedules"


def schedules(service: ConnectService, call: Call) -> Response:
    """Answer with all schedules."""
    at_ms = now_ms()
    found = service.runs.schedules.find_all()
    return json_answer({"schedules": [_schedule(one, at_ms) for one in found]})


def create_schedule(service: ConnectService, call: Call) -> Response:
    """Answer 201 with the schedule."""
    body = parse_object(call.body, ("kind", "every", "at", "asked"))
    kind, every, at = (body.get(name) for name in ("kind", "every", "at"))
    if kind not in KINDS:
        raise RestError(400, f"kind must be one of {', '.join(KINDS)}")
    when = {"every": str(every or ""), "at": str(at or "")}
    asked = without_nulls(as_config(body.get("asked") or {}))
    made = service.change(operations.create_schedule, str(kind), asked, when, call.caller)
    answer = json_answer(_schedule(made, now_ms()), 201)
    answer.headers["Location"] = _SCHEDULES
    return answer


def delete_schedule(service: ConnectService, call: Call) -> Response:
    """Answer 204."""
    service.change(operations.delete_schedule, call.path["schedule"])
    return Response(status_code=204)


def _schedule(one: RunSchedule, at_ms: int) -> Json:
    return {
        "id": one.id,
        "kind": one.kind,
        "every": one.every,
        "at": one.at,
        "asked": dict(one.asked),
        "created_at": format_time(one.created_ms),
        "created_by": one.created_by,
        "last_due": format_time(one.last_due_ms),
        "next_due": format_time(one.next_ms(at_ms)),
        "problem": one.problem or None,
    }


ENDPOINTS: tuple[Endpoint, ...] = (
    *run_endpoints("verification", "verifications", "Verify an archive"),
    *run_endpoints("drill", "drills", "Restore an archive into scratch topics and compare them"),
    get_endpoint(_SCHEDULES, schedules, "Schedules", "When checks run by themselves."),
    Endpoint(
        method="POST",
        path=_SCHEDULES,
        role=Role.OPERATE,
        run=create_schedule,
        help="Verify an archive, or drill, every day or every week.",
        answers={201: "Schedule"},
        body="NewSchedule",
    ),
    Endpoint(
        method="DELETE",
        path=f"{_SCHEDULES}/{{schedule}}",
        role=Role.OPERATE,
        run=delete_schedule,
        help="Delete a schedule; its runs stay.",
        answers={204: None},
    ),
)
_WHEN: Schema = {
    "kind": {"type": "string", "enum": list(KINDS)},
    "every": {**TEXT, "description": "day, or a day of the week: monday."},
    "at": {**TEXT, "description": "HH:MM, in UTC."},
    "asked": map_schema(TEXT),
}
_SCHEDULE = object_schema(
    {
        "id": TEXT,
        **_WHEN,
        "created_at": TIME,
        "created_by": TEXT,
        "last_due": {**TIME, "description": "The last time that was handled."},
        "next_due": TIME,
        "problem": {**MAYBE_TEXT, "description": "Why no run was started at the last time."},
    }
)
SCHEMAS: dict[str, Schema] = {
    **RUN_SCHEMAS,
    "Schedule": _SCHEDULE,
    "NewSchedule": object_schema(_WHEN),
    "Schedules": object_schema({"schedules": list_schema(_SCHEDULE)}),
}
