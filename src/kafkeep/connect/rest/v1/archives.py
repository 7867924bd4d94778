"""Calls under ``/kafkeep/v1/archives``: what the connectors' archives hold, read only."""

from __future__ import annotations

import logging

from starlette.responses import Response

from kafkeep.archive.commit import Gap
from kafkeep.connect.catalog.archives.overview import (
    ArchiveOverview,
    LogOverview,
    SmallObjects,
    describe_archive,
    find_small_objects,
)
from kafkeep.connect.model import Json
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import Call, Endpoint, get_endpoint
from kafkeep.connect.rest.json_schemas import (
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_TIME,
    NUMBER,
    TEXT,
    TIME,
    Schema,
    list_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.archive_logs import OFFSETS, SUMS, sums_json
from kafkeep.connect.rest.v1.root import ROOT, maybe_time
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role

logger = logging.getLogger(__name__)
_MOST_GAPS = 1000
_ARCHIVES = f"{ROOT}/archives"


def list_archives(service: ConnectService, call: Call) -> Response:
    """Answer with each archive and its logs."""
    archives = service.catalog.archives
    found = [describe_archive(archives, place) for place in archives.places()]
    return json_answer({"archives": [_archive(one) for one in found]})


def get_archive(service: ConnectService, call: Call) -> Response:
    """Answer with one archive and its logs."""
    archives = service.catalog.archives
    found = describe_archive(archives, archives.place(call.path["archive"]))
    return json_answer(_archive(found))


def _archive(one: ArchiveOverview) -> Json:
    return {
        "id": one.place.id,
        "address": one.place.address,
        "connectors": list(one.place.connectors),
        "logs": [_log(log) for log in one.logs],
        "problem": one.problem or None,
    }


def _log(one: LogOverview) -> Json:
    return {
        "name": one.name,
        "commits": one.commits,
        "last_commit": maybe_time(one.at_ms),
        "last_verification": maybe_time(one.verified_ms),
        "topics": one.topics,
        "partitions": one.partitions,
        **sums_json(one.sums),
        "gaps": one.gaps,
        "lost_offsets": one.lost_offsets,
        "problem": one.problem or None,
    }


def warnings(service: ConnectService, call: Call) -> Response:
    """Answer with gaps and small objects."""
    archives = service.catalog.archives
    logs = archives.logs(archives.place(call.path["archive"]))
    gaps = [(log.name, gap) for log in logs for gap in log.gaps]
    return json_answer(
        {
            "gap_count": len(gaps),
            "gaps": [_gap(name, gap) for name, gap in gaps[::-1][:_MOST_GAPS]],
            "small_objects": [_small(one) for one in find_small_objects(logs)],
        }
    )


def _gap(log: str, gap: Gap) -> Json:
    return {
        "log": log,
        "topic": gap.partition_id.topic,
        "incarnation": gap.partition_id.incarnation,
        "partition": gap.partition_id.partition,
        "first_offset": gap.range.start,
        "last_offset": gap.range.end - 1,
        "reason": gap.reason,
        "found_at": format_time(gap.at_ms),
    }


def _small(one: SmallObjects) -> Json:
    return {
        "log": one.log,
        "folder": one.folder,
        "small_objects": one.small,
        "objects": one.objects,
        "small_bytes": one.size_bytes,
        "closed_by": one.closed_by,
    }


def left_overs(service: ConnectService, call: Call) -> Response:
    """Answer with what ``gc --dry-run`` reports."""
    archives = service.catalog.archives
    place = archives.place(call.path["archive"])
    logger.info("%r searches %s for left-over objects", call.caller, place.address)
    found = service.catalog.left_overs.find(place)
    return json_answer({"searched_at": format_time(found.at_ms), **found.plan.to_json()})


ENDPOINTS: tuple[Endpoint, ...] = (
    get_endpoint(_ARCHIVES, list_archives, "Archives", "The archives of all connectors."),
    get_endpoint(
        f"{_ARCHIVES}/{{archive}}", get_archive, "Archive", "One archive with its logs, by its id."
    ),
    get_endpoint(
        f"{_ARCHIVES}/{{archive}}/warnings",
        warnings,
        "ArchiveWarnings",
        f"Gaps, the newest first, at most {_MOST_GAPS}; topics with many objects under 1 MiB.",
    ),
    Endpoint(
        method="GET",
        path=f"{_ARCHIVES}/{{archive}}/left-overs",
        role=Role.OPERATE,
        run=left_overs,
        help="Orphans and unfinished uploads, as gc --dry-run reports them. Lists every object; a "
        "result of the last minute is returned again.",
        answers={200: "LeftOvers"},
    ),
)
_LOG_SCHEMA = object_schema(
    {
        "name": TEXT,
        "commits": NUMBER,
        "last_commit": MAYBE_TIME,
        "last_verification": MAYBE_TIME,
        "topics": NUMBER,
        "partitions": NUMBER,
        **SUMS,
        "gaps": NUMBER,
        "lost_offsets": NUMBER,
        "problem": {**MAYBE_TEXT, "description": "Why it cannot be read; then the sums are 0."},
    }
)
_ARCHIVE = object_schema(
    {
        "id": {**TEXT, "description": "Depends only on the address."},
        "address": TEXT,
        "connectors": list_schema(TEXT),
        "logs": list_schema(_LOG_SCHEMA),
        "problem": MAYBE_TEXT,
    }
)
_GAP = object_schema(
    {
        "log": TEXT,
        "topic": TEXT,
        "incarnation": NUMBER,
        "partition": NUMBER,
        **OFFSETS,
        "reason": TEXT,
        "found_at": TIME,
    }
)
_LEFT_OVER = object_schema(
    {
        "kind": {"type": "string", "enum": ["object", "upload"]},
        "key": TEXT,
        "upload_id": MAYBE_TEXT,
        "log": MAYBE_TEXT,
        "size_bytes": MAYBE_NUMBER,
        "since_ms": NUMBER,
        "fate": {"type": "string", "enum": ["remove", "removed", "keep", "refused"]},
        "reason": TEXT,
    }
)
SCHEMAS: dict[str, Schema] = {
    "Archives": object_schema({"archives": list_schema(_ARCHIVE)}),
    "Archive": _ARCHIVE,
    "ArchiveWarnings": object_schema(
        {
            "gap_count": NUMBER,
            "gaps": list_schema(_GAP),
            "small_objects": list_schema(
                object_schema(
                    {
                        "log": TEXT,
                        "folder": TEXT,
                        "small_objects": NUMBER,
                        "objects": NUMBER,
                        "small_bytes": NUMBER,
                        "closed_by": {**TEXT, "description": "Why most of them were closed."},
                    }
                )
            ),
        }
    ),
    "LeftOvers": object_schema(
        {
            "searched_at": TIME,
            "archive": TEXT,
            "older_than_ms": NUMBER,
            "remove": NUMBER,
            "removed": NUMBER,
            "keep": NUMBER,
            "refused": NUMBER,
            "removed_bytes": NUMBER,
            "foreign": {**NUMBER, "description": "Objects that kafkeep did not write."},
            "left_overs": list_schema(_LEFT_OVER),
        }
    ),
}
