"""Calls under ``/kafkeep/v1`` about connectors and the worker."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.catalog.archives.stored_objects import StoredObject
from kafkeep.connect.model import Json
from kafkeep.connect.plugins.presets import PRESETS
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import Call, Query, get_endpoint
from kafkeep.connect.rest.json_schemas import (
    CONNECTOR_TYPE,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_TIME,
    NUMBER,
    RUN_STATES,
    TEXT,
    TIME,
    list_schema,
    map_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import ROOT, maybe_time, query_number
from kafkeep.connect.runs.latest_checks import DRILL, VERIFICATION, latest_checks
from kafkeep.connect.runs.run import Run
from kafkeep.connect.service.overview import ConnectorOverview, GrowthPoint, total_growth
from kafkeep.connect.service.service import ConnectService
from kafkeep.errors import KafkeepError

_OBJECTS, _MOST_OBJECTS = 100, 1000


def overview(service: ConnectService, call: Call) -> Response:
    """Answer with the worker's health, the totals and each connector."""
    found = service.overview()
    checks = latest_checks(service.runs.find_all(VERIFICATION, DRILL))
    totals = {
        "connectors": len(found.connectors),
        "running": found.running,
        "failed": found.failed,
        "lag_records": found.lag_records,
        "lag_seconds": found.lag_seconds,
        "records_per_second": found.records_per_second,
        "bytes_per_second": found.bytes_per_second,
        "gaps": found.gaps,
        "last_commit": maybe_time(found.last_commit_ms),
    }
    return json_answer(
        {
            "health": found.health,
            "leader": found.leader,
            "is_leader": found.is_leader,
            "totals": totals,
            "last_verification": _check(checks.newest(VERIFICATION)),
            "last_drill": _check(checks.newest(DRILL)),
            "connectors": [_connector(one) for one in found.connectors],
        }
    )


def _check(run: Run | None) -> Json | None:
    if run is None:
        return None
    return {
        "id": run.id,
        "state": run.stage.value,
        "verdict": run.verdict,
        "ended": maybe_time(run.ended_ms),
    }


def _connector(one: ConnectorOverview) -> Json:
    return {
        "name": one.name,
        "type": one.type,
        "state": one.state.value,
        "tasks": one.tasks,
        "failed_tasks": one.failed_tasks,
        "lag_records": one.lag_records,
        "lag_seconds": one.lag_seconds,
        "last_commit": maybe_time(one.last_commit_ms),
        "last_verification": maybe_time(one.verified_ms),
        "no_progress_since": maybe_time(one.no_progress_since_ms),
        "gaps": one.gap_count,
        "lost_offsets": one.lost_offsets,
        "records_per_second": one.records_per_second,
        "bytes_per_second": one.bytes_per_second,
    }


def growth(service: ConnectService, call: Call) -> Response:
    """Answer with the size of a connector's archive over time."""
    return json_answer({"points": [_point(one) for one in service.growth(call.name)]})


def growth_of_all(service: ConnectService) -> tuple[tuple[GrowthPoint, ...], list[str]]:
    """Return the size of all archives together over time, and connectors whose log is unread."""
    curves, unread = [], []
    for name in service.names():
        try:
            curves.append(service.growth(name))
        except KafkeepError:
            unread.append(name)
    return total_growth(curves), unread


def all_growth(service: ConnectService, call: Call) -> Response:
    """Answer with the size of all archives together over time."""
    points, unread = growth_of_all(service)
    return json_answer({"points": [_point(one) for one in points], "unread": unread})


def templates(service: ConnectService, call: Call) -> Response:
    """Answer with configurations to start from."""
    found = [
        {"id": one.id, "title": one.title, "help": one.help, "config": dict(one.config)}
        for one in PRESETS
    ]
    return json_answer({"templates": found})


def _point(point: GrowthPoint) -> Json:
    return {
        "at": format_time(point.at_ms),
        "objects": point.objects,
        "records": point.records,
        "bytes": point.bytes,
    }


def objects(service: ConnectService, call: Call) -> Response:
    """Answer with the newest objects of a connector's log."""
    limit = query_number(call, "limit", _OBJECTS, least=1, most=_MOST_OBJECTS)
    found = service.objects(call.name, limit)
    return json_answer({"objects": [_object(one) for one in found]})


def _object(one: StoredObject) -> Json:
    return {
        "key": one.key,
        "topic": one.partition_id.topic,
        "partition": one.partition_id.partition,
        "first_offset": one.start,
        "last_offset": one.end - 1,
        "records": one.records,
        "bytes": one.size_bytes,
        "newest_record": maybe_time(one.newest_ms),
        "committed": maybe_time(one.committed_ms),
        "archive": one.archive,
        "log": one.log,
    }


def settings(service: ConnectService, call: Call) -> Response:
    """Answer with the worker's configuration, secrets masked."""
    found = service.settings()
    return json_answer(
        {
            "version": found.version,
            "connect_version": found.connect_version,
            "worker_id": found.worker_id,
            "state": found.state,
            "config": dict(found.config),
            "features": dict(found.features),
        }
    )


ENDPOINTS = (
    get_endpoint(
        f"{ROOT}/overview", overview, "Overview", "Health, lag and rate of all connectors."
    ),
    get_endpoint(
        f"{ROOT}/connectors/{{connector}}/growth",
        growth,
        "Growth",
        "The size of a connector's archive over time, in at most 300 points.",
    ),
    get_endpoint(
        f"{ROOT}/connectors/{{connector}}/objects",
        objects,
        "Objects",
        "The newest objects of a connector's log, the newest first.",
        (Query(name="limit", help="How many, at most 1000; 100 if not given.", type="string"),),
    ),
    get_endpoint(
        f"{ROOT}/growth",
        all_growth,
        "AllGrowth",
        "The size of all archives together over time, in at most 300 points.",
    ),
    get_endpoint(
        f"{ROOT}/connector-templates",
        templates,
        "ConnectorTemplates",
        "Configurations to start a connector from; fill in the keys with an empty value.",
    ),
    get_endpoint(f"{ROOT}/settings", settings, "Settings", "The worker's configuration, masked."),
)
_RATES = {
    "lag_records": MAYBE_NUMBER,
    "lag_seconds": MAYBE_NUMBER,
    "records_per_second": MAYBE_NUMBER,
    "bytes_per_second": MAYBE_NUMBER,
    "gaps": MAYBE_NUMBER,
    "last_commit": MAYBE_TIME,
}
_CHECK = {
    **object_schema({"id": TEXT, "state": TEXT, "verdict": TEXT, "ended": MAYBE_TIME}),
    "type": ["object", "null"],
    "description": "The newest that has ended; null: none yet.",
}
_OVERVIEW = object_schema(
    {
        "health": TEXT,
        "last_verification": _CHECK,
        "last_drill": _CHECK,
        "leader": MAYBE_TEXT,
        "is_leader": {"type": "boolean"},
        "totals": object_schema(
            {"connectors": NUMBER, "running": NUMBER, "failed": NUMBER, **_RATES}
        ),
        "connectors": list_schema(
            object_schema(
                {
                    "name": TEXT,
                    "type": CONNECTOR_TYPE,
                    "state": {"type": "string", "enum": RUN_STATES},
                    "tasks": NUMBER,
                    "failed_tasks": NUMBER,
                    "lost_offsets": MAYBE_NUMBER,
                    "last_verification": MAYBE_TIME,
                    "no_progress_since": MAYBE_TIME,
                    **_RATES,
                }
            )
        ),
    }
)
_POINT = object_schema({"at": TIME, "objects": NUMBER, "records": NUMBER, "bytes": NUMBER})
_ARCHIVED = object_schema(
    {
        "key": TEXT,
        "topic": TEXT,
        "partition": NUMBER,
        "first_offset": NUMBER,
        "last_offset": {"type": "integer", "description": "The last one in it: inclusive."},
        "records": NUMBER,
        "bytes": NUMBER,
        "newest_record": MAYBE_TIME,
        "committed": {**MAYBE_TIME, "description": "null for older objects."},
        "archive": {**TEXT, "description": "The id of its archive."},
        "log": TEXT,
    }
)
_SETTINGS = object_schema(
    {
        "version": TEXT,
        "connect_version": TEXT,
        "worker_id": TEXT,
        "state": TEXT,
        "config": map_schema(TEXT),
        "features": map_schema({"type": "boolean"}),
    }
)

SCHEMAS = {
    "Overview": _OVERVIEW,
    "Growth": object_schema({"points": list_schema(_POINT)}),
    "AllGrowth": object_schema(
        {
            "points": list_schema(_POINT),
            "unread": {**list_schema(TEXT), "description": "Connectors whose log is not read."},
        }
    ),
    "ConnectorTemplates": object_schema(
        {
            "templates": list_schema(
                object_schema({"id": TEXT, "title": TEXT, "help": TEXT, "config": map_schema(TEXT)})
            )
        }
    ),
    "Objects": object_schema({"objects": list_schema(_ARCHIVED)}),
    "Settings": _SETTINGS,
}
