"""Calls that move a consumer group to its archived offsets, and back."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from kafkeep.connect.catalog.group_moves import GroupMovePlan, GroupMoveRequest, OffsetSnapshot
from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import (
    Call,
    Endpoint,
    Query,
    from_segment,
    get_endpoint,
    parse_object,
)
from kafkeep.connect.rest.json_schemas import (
    MAYBE_NUMBER,
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    TIME,
    list_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.doctor import CHECK
from kafkeep.connect.rest.v1.root import ROOT, parse_number
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import UsageError
from kafkeep.options.selection import parse_renames
from kafkeep.options.units import parse_time

_FIELDS = ("archive", "log", "commit", "at", "topics", "exact_offsets")


def parse_move(group: str, given: Mapping[str, str]) -> GroupMoveRequest:
    """Return the request that the fields of a query, a body or a form describe; 400 if wrong."""
    text = {name: given.get(name, "").strip() for name in _FIELDS}
    try:
        return GroupMoveRequest(
            group=group,
            archive=text["archive"],
            log=text["log"],
            commit=parse_number("commit", text["commit"]) if text["commit"] else None,
            at_ms=parse_time(text["at"]) if text["at"] else None,
            topics=parse_renames(text["topics"]) if text["topics"] else (),
            exact_offsets=_flag(text["exact_offsets"]),
        )
    except UsageError as error:
        raise RestError(400, error.message) from error


def _flag(text: str) -> bool:
    if text not in ("", "true", "false"):
        raise RestError(400, f"exact_offsets must be true or false, not {text[:40]!r}")
    return text == "true"


def plan(service: ConnectService, call: Call) -> Response:
    """Answer with the offsets that a move would set."""
    given = {name: values[0] for name, values in call.query.items() if values}
    request = parse_move(_group(call), given)
    return json_answer(_plan(service.catalog.group_moves.plan(request)))


def apply(service: ConnectService, call: Call) -> Response:
    """Set the offsets of a plan."""
    body = _texts(call, (*_FIELDS, "digest"))
    digest = body.get("digest", "")
    if not digest:
        raise RestError(400, "digest is missing: it is in the answer of the plan")
    done = service.catalog.group_moves.apply(parse_move(_group(call), body), digest)
    return json_answer(
        {"moved": [one.to_json() for one in done.moves], "left_out": list(done.left_out)}
    )


def history(service: ConnectService, call: Call) -> Response:
    """Answer with the offsets that the group had before its newest changes."""
    found = service.catalog.group_moves.snapshots(_group(call))
    return json_answer({"snapshots": [_snapshot(one) for one in found]})


def roll_back(service: ConnectService, call: Call) -> Response:
    """Set the offsets of a snapshot."""
    body = _texts(call, ("archive", "restore", "revision"))
    moves = service.catalog.group_moves
    snapshot = moves.snapshot(
        _group(call),
        body.get("archive", ""),
        body.get("restore", ""),
        parse_number("revision", body.get("revision", "")),
    )
    missing = moves.roll_back(_group(call), snapshot)
    return json_answer({"left_out": [f"{topic}-{number}" for topic, number in missing]})


def _group(call: Call) -> str:
    return from_segment(call.path["group"])


def _texts(call: Call, known: tuple[str, ...]) -> dict[str, str]:
    """Return a body whose values are texts, numbers or booleans, as texts."""
    found = {}
    for name, value in parse_object(call.body, known).items():
        if isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif isinstance(value, str | int):
            found[name] = str(value)
        elif value is not None:
            raise RestError(400, f"{name} must be a text")
    return found


def _plan(found: GroupMovePlan) -> Json:
    return {
        "archive": found.request.archive,
        "address": found.address,
        "log": found.log,
        "topics": [{"archived": a, "target": b} for a, b in found.request.topics],
        "moves": [
            {**one.move.to_json(), "note": one.move.note or None, "live": one.live, "why": one.why}
            for one in found.moves
        ],
        "checks": [one.to_json() for one in found.checks],
        "refused": found.is_refused,
        "digest": found.digest,
    }


def _snapshot(one: OffsetSnapshot) -> Json:
    return {
        "archive": one.archive,
        "address": one.address,
        "restore": one.restore,
        "revision": one.revision,
        "at": format_time(one.at_ms),
        "finished": one.is_finished,
        "offsets": [
            {"topic": topic, "partition": number, "offset": offset}
            for (topic, number), offset in sorted(one.offsets.items())
        ],
    }


_HERE = f"{ROOT}/groups/{{group}}"
_ASKED = (
    Query(name="archive", help="The id of the archive with the offsets.", type="string"),
    Query(name="log", help="Its log; the newest that has the group if not given.", type="string"),
    Query(name="commit", help="The commit; the newest if not given.", type="string"),
    Query(name="at", help="The time of the archive, instead of a commit.", type="string"),
    Query(
        name="topics",
        help="Topics, as archived:target if a restore renamed them; those in Kafka if not given.",
        type="string",
    ),
    Query(name="exact_offsets", help="Whether that restore was at exact offsets."),
)
ENDPOINTS = (
    get_endpoint(
        f"{_HERE}/plan",
        plan,
        "GroupMovePlan",
        "The offsets that a move to the archived ones would set, and why. Changes nothing.",
        _ASKED,
    ),
    Endpoint(
        method="POST",
        path=f"{_HERE}/apply",
        role=Role.ADMIN,
        run=apply,
        help="Store the present offsets, then set those of a plan.",
        answers={200: "GroupMove"},
        body="GroupMoveRequest",
    ),
    get_endpoint(
        f"{_HERE}/history",
        history,
        "OffsetSnapshots",
        "The offsets before the newest 20 changes that kafkeep made to a group.",
    ),
    Endpoint(
        method="POST",
        path=f"{_HERE}/rollback",
        role=Role.ADMIN,
        run=roll_back,
        help="Store the present offsets, then set those of a snapshot.",
        answers={200: "RollBack"},
        body="RollBackRequest",
    ),
)
_MOVE = {
    "group": TEXT,
    "topic": TEXT,
    "partition": NUMBER,
    "archived": MAYBE_NUMBER,
    "offset": NUMBER,
    "note": MAYBE_TEXT,
}
_PLACE = {"topic": TEXT, "partition": NUMBER}
SCHEMAS = {
    "GroupMovePlan": object_schema(
        {
            "archive": TEXT,
            "address": TEXT,
            "log": TEXT,
            "topics": list_schema(object_schema({"archived": TEXT, "target": TEXT})),
            "moves": list_schema(object_schema({**_MOVE, "live": MAYBE_NUMBER, "why": TEXT})),
            "checks": list_schema(CHECK),
            "refused": {"type": "boolean"},
            "digest": {"type": "string", "description": "Send it to apply."},
        }
    ),
    "GroupMoveRequest": object_schema(
        {
            "digest": TEXT,
            **dict.fromkeys(("archive", "log", "at", "topics"), TEXT),
            "commit": NUMBER,
            "exact_offsets": {"type": "boolean"},
        },
        optional=_FIELDS,
    ),
    "GroupMove": object_schema(
        {"moved": list_schema(object_schema(_MOVE)), "left_out": list_schema(TEXT)}
    ),
    "OffsetSnapshots": object_schema(
        {
            "snapshots": list_schema(
                object_schema(
                    {
                        "archive": TEXT,
                        "address": TEXT,
                        "restore": TEXT,
                        "revision": NUMBER,
                        "at": TIME,
                        "finished": {"type": "boolean"},
                        "offsets": list_schema(object_schema({**_PLACE, "offset": MAYBE_NUMBER})),
                    }
                )
            )
        }
    ),
    "RollBackRequest": object_schema({"archive": TEXT, "restore": TEXT, "revision": NUMBER}),
    "RollBack": object_schema({"left_out": list_schema(TEXT)}),
}
