"""Calls under ``/kafkeep/v1``: what the web console shows, for scripts."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import Call
from kafkeep.connect.service.overview import ArchivedObject, ConnectorOverview, GrowthPoint
from kafkeep.connect.service.service import ConnectService

_OBJECTS, _MOST_OBJECTS = 100, 1000


def overview(service: ConnectService, call: Call) -> Response:
    """Answer with the worker's health, the totals and each connector."""
    found = service.overview()
    totals = {
        "connectors": len(found.connectors),
        "running": found.running,
        "failed": found.failed,
        "lag_records": found.lag_records,
        "lag_seconds": found.lag_seconds,
        "records_per_second": found.records_per_second,
        "bytes_per_second": found.bytes_per_second,
        "gaps": found.gaps,
        "last_commit": _time(found.last_commit_ms),
    }
    return json_answer(
        {
            "health": found.health,
            "leader": found.leader,
            "is_leader": found.is_leader,
            "totals": totals,
            "connectors": [_connector(one) for one in found.connectors],
        }
    )


def _connector(one: ConnectorOverview) -> Json:
    return {
        "name": one.name,
        "type": one.type,
        "state": one.state.value,
        "tasks": one.tasks,
        "failed_tasks": one.failed_tasks,
        "lag_records": one.lag_records,
        "lag_seconds": one.lag_seconds,
        "last_commit": _time(one.last_commit_ms),
        "last_verification": _time(one.verified_ms),
        "no_progress_since": _time(one.no_progress_since_ms),
        "gaps": one.gaps,
        "lost_offsets": one.lost_offsets,
        "records_per_second": one.records_per_second,
        "bytes_per_second": one.bytes_per_second,
    }


def growth(service: ConnectService, call: Call) -> Response:
    """Answer with the size of a connector's archive over time."""
    return json_answer({"points": [_point(one) for one in service.growth(call.name)]})


def _point(point: GrowthPoint) -> Json:
    return {
        "at": format_time(point.at_ms),
        "objects": point.objects,
        "records": point.records,
        "bytes": point.bytes,
    }


def objects(service: ConnectService, call: Call) -> Response:
    """Answer with the newest objects of a connector's log."""
    limit = (call.query.get("limit") or [str(_OBJECTS)])[0]
    if not (limit.isascii() and limit.isdigit()) or not 1 <= int(limit[:9]) <= _MOST_OBJECTS:
        raise RestError(400, f"limit must be a number from 1 to {_MOST_OBJECTS}")
    found = service.objects(call.name, int(limit))
    return json_answer({"objects": [_object(one) for one in found]})


def _object(one: ArchivedObject) -> Json:
    return {
        "key": one.key,
        "topic": one.topic,
        "partition": one.partition,
        "first_offset": one.start,
        "last_offset": one.end - 1,
        "records": one.records,
        "bytes": one.bytes,
        "newest_record": _time(one.newest_record_ms if one.newest_record_ms >= 0 else None),
        "committed": _time(one.committed_ms),
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


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_time(at_ms)
