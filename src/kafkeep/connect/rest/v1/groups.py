"""Calls under ``/kafkeep/v1/groups``: consumer groups in Kafka beside those in the archives."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.catalog.groups import GroupOffset, GroupSummary, SavedGroup
from kafkeep.connect.model import Json
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import Call, Query, from_segment, get_endpoint
from kafkeep.connect.rest.json_schemas import (
    MAYBE_NUMBER,
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    TIME,
    list_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import ROOT, query_number, query_text
from kafkeep.connect.service.service import ConnectService

_LIMIT, _MOST = 100, 1000


def groups(service: ConnectService, call: Call) -> Response:
    """Answer with the groups of Kafka and the archives."""
    start, limit = query_number(call, "start", 0), query_number(call, "limit", _LIMIT, _MOST)
    found = service.catalog.groups.list_all()
    q = query_text(call, "search").lower()
    named = [one for one in found.groups if q in one.id.lower()]
    shown = named[start : start + limit]
    if call.flag("lag", default=False):
        shown = service.catalog.groups.with_lag(shown)
    return json_answer(
        {
            "total": len(named),
            "problem": found.problem or None,
            "groups": [_summary(one) for one in shown],
        }
    )


def _summary(one: GroupSummary) -> Json:
    return {
        "group": one.id,
        "state": one.state,
        "archived_topics": one.topics,
        "archived_partitions": one.partitions,
        "lag": one.lag,
    }


def group(service: ConnectService, call: Call) -> Response:
    """Answer with one group: its members, and its offsets in Kafka and in an archive."""
    commit = query_number(call, "commit", -1) if call.query.get("commit") else None
    found = service.catalog.groups.details(
        from_segment(call.path["group"]),
        archive=query_text(call, "archive"),
        log=query_text(call, "log"),
        commit=commit,
        start=query_number(call, "start", 0),
        count=query_number(call, "limit", _LIMIT, _MOST),
    )
    return json_answer(
        {
            "group": found.id,
            "state": found.state,
            "type": found.type or None,
            "problem": found.problem or None,
            "members": [
                {
                    "id": one.id,
                    "client_id": one.client_id,
                    "host": one.host,
                    "partitions": [
                        {"topic": topic, "partition": number} for topic, number in one.partitions
                    ],
                }
                for one in found.members
            ],
            "saved": None if found.saved is None else _saved(found.saved),
            "logs": [_saved(one) for one in found.choices],
            "total": found.row_count,
            "offsets": [_offset(row) for row in found.rows],
        }
    )


def _saved(one: SavedGroup) -> Json:
    return {
        "archive": one.archive,
        "address": one.address,
        "log": one.log,
        "commit": one.commit,
        "at": format_time(one.at_ms),
    }


def _offset(row: GroupOffset) -> Json:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "incarnation": row.incarnation,
        "saved": row.saved,
        "archived_to": row.archived_to,
        "live": row.live,
        "end": row.end,
        "lag": row.lag,
        "note": row.note or None,
    }


_START = Query(name="start", help="How many to leave out first; 0 if not given.", type="string")
_LIMITED = Query(name="limit", help="How many, at most 1000; 100 if not given.", type="string")
_NAMED = (
    Query(name="archive", help="The id of the archive with the saved offsets.", type="string"),
    Query(name="log", help="Its log; the newest that has the group if not given.", type="string"),
    Query(name="commit", help="The commit; the newest if not given.", type="string"),
)
ENDPOINTS = (
    get_endpoint(
        f"{ROOT}/groups",
        groups,
        "Groups",
        "Consumer groups of Kafka and of the archives, by name.",
        (
            Query(name="search", help="Only groups with this text in their name.", type="string"),
            Query(name="lag", help="Also ask Kafka for their lag."),
            *(_START, _LIMITED),
        ),
    ),
    get_endpoint(
        f"{ROOT}/groups/{{group}}",
        group,
        "Group",
        "A consumer group: members, and the offsets in Kafka beside those of a commit.",
        (*_NAMED, _START, _LIMITED),
    ),
)
_SAVED = object_schema(
    {"archive": TEXT, "address": TEXT, "log": TEXT, "commit": NUMBER, "at": TIME}
)
_MEMBER = object_schema(
    {
        "id": TEXT,
        "client_id": TEXT,
        "host": TEXT,
        "partitions": list_schema(object_schema({"topic": TEXT, "partition": NUMBER})),
    }
)
_OFFSET = object_schema(
    {
        "topic": TEXT,
        "partition": NUMBER,
        "incarnation": MAYBE_NUMBER,
        "saved": MAYBE_NUMBER,
        "archived_to": MAYBE_NUMBER,
        "live": MAYBE_NUMBER,
        "end": MAYBE_NUMBER,
        "lag": MAYBE_NUMBER,
        "note": MAYBE_TEXT,
    }
)
_IN_KAFKA = {"state": {**MAYBE_TEXT, "description": "As Kafka names it; null: not in Kafka."}}
_PROBLEM = {"problem": {**MAYBE_TEXT, "description": "Why Kafka could not be asked."}}
SCHEMAS = {
    "Groups": object_schema(
        {
            "total": NUMBER,
            **_PROBLEM,
            "groups": list_schema(
                object_schema(
                    {
                        "group": TEXT,
                        **_IN_KAFKA,
                        "archived_topics": NUMBER,
                        "archived_partitions": NUMBER,
                        "lag": MAYBE_NUMBER,
                    }
                )
            ),
        }
    ),
    "Group": object_schema(
        {
            "group": TEXT,
            **_IN_KAFKA,
            "type": MAYBE_TEXT,
            **_PROBLEM,
            "members": list_schema(_MEMBER),
            "saved": {"anyOf": [_SAVED, {"type": "null"}]},
            "logs": list_schema(_SAVED),
            "total": NUMBER,
            "offsets": list_schema(_OFFSET),
        }
    ),
}
