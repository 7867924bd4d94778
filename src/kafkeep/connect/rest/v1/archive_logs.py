"""Calls under ``/kafkeep/v1/archives/{archive}/logs/{log}``: commits, topics, objects, days."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.catalog.archives.storage import (
    sum_days,
    sum_partitions,
    sum_topics,
    topic_of_folder,
)
from kafkeep.connect.catalog.archives.stored_objects import StoredObject, find_objects
from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import Call, Endpoint, Query, get_endpoint
from kafkeep.connect.rest.json_schemas import (
    MAYBE_TEXT,
    MAYBE_TIME,
    NUMBER,
    TEXT,
    Schema,
    list_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import ROOT, maybe_time, query_number
from kafkeep.connect.service.service import ConnectService
from kafkeep.maintenance.inspect.commit_summary import (
    CommitSummary,
    StorageSums,
    UnreadCommit,
    summarize,
)

_COMMITS, _MOST_COMMITS = 20, 100
_OBJECTS, _MOST_OBJECTS = 100, 1000
_LOG = f"{ROOT}/archives/{{archive}}/logs/{{log}}"


def sums_json(sums: StorageSums) -> Json:
    return {
        "objects": sums.objects,
        "records": sums.records,
        "bytes": sums.size_bytes,
        "uncompressed_bytes": sums.raw_bytes,
    }


def _log_of(service: ConnectService, call: Call) -> ArchiveLog:
    archives = service.catalog.archives
    return archives.log(archives.place(call.path["archive"]), call.path["log"])


def commits(service: ConnectService, call: Call) -> Response:
    """Answer with the newest commits, or with those before one."""
    limit = query_number(call, "limit", _COMMITS, least=1, most=_MOST_COMMITS)
    before = query_number(call, "before", 1, least=1) if "before" in call.query else None
    page = service.catalog.commits.page(_log_of(service, call), before, limit)
    return json_answer({"newest": page.newest, "commits": [_listed(one) for one in page.commits]})


def get_commit(service: ConnectService, call: Call) -> Response:
    """Answer with what one commit brought."""
    log, text = _log_of(service, call), call.path["commit"]
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise RestError(404, f"The log {log.name} has no commit {text}")
    return json_answer(_listed(summarize(service.catalog.commits.commit(log, int(text)))))


def _listed(one: CommitSummary | UnreadCommit) -> Json:
    if isinstance(one, UnreadCommit):
        return {"number": one.number, "at": None, "problem": one.problem or None}
    return {
        "number": one.number,
        "at": format_time(one.at_ms),
        "problem": None,
        "writer": one.writer,
        "epoch": one.epoch,
        "topics": one.topics,
        **sums_json(one.sums),
        "gaps": one.gaps,
        "lost_offsets": one.lost_offsets,
        "planned_ranges": one.planned,
        "groups": one.groups,
        "moved_back": one.moved_back,
        "note": one.note,
    }


def topics(service: ConnectService, call: Call) -> Response:
    """Answer with what the log stores of each topic."""
    return json_answer(
        {
            "topics": [
                {
                    "topic": one.topic,
                    "incarnation": one.incarnation,
                    "folder": one.folder,
                    "partitions": one.partitions,
                    **sums_json(one.sums),
                    "newest_record": maybe_time(one.newest_ms),
                }
                for one in sum_topics(_log_of(service, call))
            ]
        }
    )


def partitions(service: ConnectService, call: Call) -> Response:
    """Answer with what the log stores of each partition of a topic."""
    topic, incarnation = topic_of_folder(call.path["folder"])
    return json_answer(
        {
            "partitions": [
                {
                    "partition": one.partition,
                    "first_offset": one.start,
                    "last_offset": one.end - 1,
                    **sums_json(one.sums),
                    "newest_record": maybe_time(one.newest_ms),
                }
                for one in sum_partitions(_log_of(service, call), topic, incarnation)
            ]
        }
    )


def objects(service: ConnectService, call: Call) -> Response:
    """Answer with the objects of a partition, in offset order."""
    topic, incarnation = topic_of_folder(call.path["folder"])
    page = find_objects(
        _log_of(service, call),
        topic,
        incarnation,
        query_number(call, "partition", 0, least=0),
        offset=query_number(call, "offset", 0, least=0),
        page=query_number(call, "page", 1, least=1),
        size=query_number(call, "limit", _OBJECTS, least=1, most=_MOST_OBJECTS),
    )
    return json_answer(
        {
            "page": page.number,
            "pages": page.last,
            "total": page.count,
            "objects": [_object(one) for one in page.items],
        }
    )


def _object(one: StoredObject) -> Json:
    return {
        "key": one.key,
        "first_offset": one.start,
        "last_offset": one.end - 1,
        "records": one.records,
        "holes": one.holes,
        "bytes": one.size_bytes,
        "uncompressed_bytes": one.raw_bytes,
        "oldest_record": maybe_time(one.oldest_ms),
        "newest_record": maybe_time(one.newest_ms),
        "format": one.format,
        "codec": one.codec,
        "part": one.view,
        "sha256": one.sha256,
        "closed_by": one.closed_by,
        "first_commit": one.first_commit,
        "last_commit": one.last_commit,
    }


def days(service: ConnectService, call: Call) -> Response:
    """Answer with what the log stores of each day of record time."""
    return json_answer(
        {
            "days": [
                {"day": None if one.day is None else one.day.isoformat(), **sums_json(one.sums)}
                for one in sum_days(_log_of(service, call).entries)
            ]
        }
    )


_PAGING = (
    Query(name="page", help="The page, from 1; 1 if not given.", type="string"),
    Query(name="limit", help=f"Objects on a page, at most {_MOST_OBJECTS}.", type="string"),
)
ENDPOINTS: tuple[Endpoint, ...] = (
    get_endpoint(
        f"{_LOG}/commits",
        commits,
        "Commits",
        "What each commit brought, the newest first. A large old commit has no details here.",
        (
            Query(name="before", help="List commits before this number.", type="string"),
            Query(name="limit", help=f"How many, at most {_MOST_COMMITS}.", type="string"),
        ),
    ),
    get_endpoint(f"{_LOG}/commits/{{commit}}", get_commit, "Commit", "What one commit brought."),
    get_endpoint(f"{_LOG}/days", days, "StorageByDay", "Sums by the day of the newest record."),
    get_endpoint(f"{_LOG}/topics", topics, "StorageByTopic", "Sums by topic."),
    get_endpoint(
        f"{_LOG}/topics/{{folder}}/partitions",
        partitions,
        "StorageByPartition",
        "Sums by partition. The folder is the topic's name, with ~2 and so on for later "
        "incarnations.",
    ),
    get_endpoint(
        f"{_LOG}/topics/{{folder}}/objects",
        objects,
        "StoredObjects",
        "The objects of a partition in offset order.",
        (
            Query(name="partition", help="The partition; 0 if not given.", type="string"),
            Query(name="offset", help="Begin with the object of this offset.", type="string"),
            *_PAGING,
        ),
    ),
)
SUMS: Schema = {
    "objects": NUMBER,
    "records": NUMBER,
    "bytes": NUMBER,
    "uncompressed_bytes": NUMBER,
}
_BROUGHT: Schema = {
    "writer": TEXT,
    "epoch": NUMBER,
    "topics": NUMBER,
    **SUMS,
    "gaps": NUMBER,
    "lost_offsets": NUMBER,
    "planned_ranges": {**NUMBER, "description": "Of an intent: what the next commits bring."},
    "groups": NUMBER,
    "moved_back": {**NUMBER, "description": "Partitions moved back to an earlier offset."},
    "note": TEXT,
}
_COMMIT = object_schema(
    {
        "number": NUMBER,
        "at": {**MAYBE_TIME, "description": "null for a commit that was not read."},
        "problem": MAYBE_TEXT,
        **_BROUGHT,
    },
    optional=tuple(_BROUGHT),
)
OFFSETS: Schema = {
    "first_offset": NUMBER,
    "last_offset": {**NUMBER, "description": "Inclusive."},
}
_OBJECT = object_schema(
    {
        "key": TEXT,
        **OFFSETS,
        "records": NUMBER,
        "holes": NUMBER,
        "bytes": NUMBER,
        "uncompressed_bytes": NUMBER,
        "oldest_record": MAYBE_TIME,
        "newest_record": MAYBE_TIME,
        "format": TEXT,
        "codec": TEXT,
        "part": {**TEXT, "description": "value, keys, headers or tombstones."},
        "sha256": TEXT,
        "closed_by": TEXT,
        "first_commit": NUMBER,
        "last_commit": {**NUMBER, "description": "It was committed between these two."},
    }
)
_NEWEST: Schema = {"newest_record": MAYBE_TIME}
SCHEMAS: dict[str, Schema] = {
    "Commits": object_schema({"newest": NUMBER, "commits": list_schema(_COMMIT)}),
    "Commit": _COMMIT,
    "StorageByDay": object_schema(
        {
            "days": list_schema(
                object_schema(
                    {"day": {"type": ["string", "null"], "format": "date"}, **SUMS},
                )
            )
        }
    ),
    "StorageByTopic": object_schema(
        {
            "topics": list_schema(
                object_schema(
                    {
                        "topic": TEXT,
                        "incarnation": NUMBER,
                        "folder": TEXT,
                        "partitions": NUMBER,
                        **SUMS,
                        **_NEWEST,
                    }
                )
            )
        }
    ),
    "StorageByPartition": object_schema(
        {
            "partitions": list_schema(
                object_schema({"partition": NUMBER, **OFFSETS, **SUMS, **_NEWEST})
            )
        }
    ),
    "StoredObjects": object_schema(
        {"page": NUMBER, "pages": NUMBER, "total": NUMBER, "objects": list_schema(_OBJECT)}
    ),
}
