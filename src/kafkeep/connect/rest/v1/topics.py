"""Calls under ``/kafkeep/v1/topics``: topics in Kafka beside those in the archives."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from kafkeep.archive.entry import OffsetRange
from kafkeep.clock import now_ms
from kafkeep.connect.catalog.topics.catalog_topic import CatalogTopic, TopicFilter
from kafkeep.connect.catalog.topics.coverage import CoverageKind, PartitionCoverage, TimeBin
from kafkeep.connect.catalog.topics.logged_topics import LoggedTopic
from kafkeep.connect.catalog.topics.topic_catalog import GroupOnTopic, Incarnation, log_id
from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import Call, Query, get_endpoint
from kafkeep.connect.rest.json_schemas import (
    MAYBE_NUMBER,
    NUMBER,
    TEXT,
    TIME,
    list_schema,
    map_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import ROOT, query_number, query_text
from kafkeep.connect.service.service import ConnectService

_TOPICS, _MOST_TOPICS = 100, 1000


def topics(service: ConnectService, call: Call) -> Response:
    """Answer with topics by name; with their live offsets if asked for."""
    show = _filter(query_text(call, "show"))
    listing = service.catalog.topics.find_all(query_text(call, "search").strip(), show)
    limit = query_number(call, "limit", _TOPICS, _MOST_TOPICS, least=1)
    start = query_number(call, "start", 0)
    shown = listing.topics[start : start + limit]
    if call.flag("offsets", default=False):
        shown = service.catalog.topics.with_offsets(shown)
    return json_answer(
        {
            "count": len(listing.topics),
            "topics": [_summary(one) for one in shown],
            "problems": list(listing.problems),
        }
    )


def _filter(text: str) -> TopicFilter:
    try:
        return TopicFilter(text)
    except ValueError:
        known = ", ".join(one for one in TopicFilter if one)
        raise RestError(400, f"show must be one of: {known}") from None


def topic(service: ConnectService, call: Call) -> Response:
    """Answer with one topic: partitions and settings in Kafka, and what each log holds."""
    [found] = service.catalog.topics.with_offsets([service.catalog.topics.find(call.path["topic"])])
    return json_answer(
        {
            **_summary(found),
            "live": _live(found),
            "logs": [_logged(one) for one in found.logged],
            "settings": {
                key: config.value
                for key, config in service.catalog.topics.configs(found).items()
                if config.source == "topic" and not config.sensitive
            },
        }
    )


def coverage(service: ConnectService, call: Call) -> Response:
    """Answer with the archived, waiting and lost offsets of each partition, and records by time."""
    catalog = service.catalog.topics
    found = catalog.find(call.path["topic"])
    wanted = query_text(call, "log")
    only = next((log_id(one) for one in found.logged if "/".join(log_id(one)) == wanted), None)
    if wanted and only is None:
        raise RestError(404, f"No archive has topic {found.name} in a log {wanted!r}")
    [found] = catalog.with_offsets([found])
    answer = catalog.coverage(found, now_ms=now_ms(), only=only)
    return json_answer(
        {
            "incarnations": [_incarnation(one) for one in answer.incarnations],
            "times": [_time_bin(one) for one in answer.times],
        }
    )


def groups(service: ConnectService, call: Call) -> Response:
    """Answer with the consumer groups that have committed offsets on a topic."""
    catalog = service.catalog.topics
    found, denied = catalog.groups(catalog.find(call.path["topic"]))
    return json_answer({"groups": [_group(one) for one in found], "denied": list(denied)})


def _group(one: GroupOnTopic) -> Json:
    return {
        "group": one.group,
        "lag": one.lag,
        "offsets": [
            {"partition": partition, "offset": offset}
            for partition, offset in sorted(one.committed.items())
        ],
    }


def _time_bin(one: TimeBin) -> Json:
    return {
        "from": format_time(one.start_ms),
        "to": format_time(one.end_ms),
        "records": one.records,
        "kind": one.kind,
    }


def _summary(found: CatalogTopic) -> Json:
    return {
        "name": found.name,
        "in_kafka": found.live is not None,
        "is_archived": bool(found.current),
        "is_internal": found.is_internal,
        "partitions": found.partition_count,
        "incarnations": found.incarnation_count,
        "records": found.records,
        "bytes": found.size_bytes,
        "lost_offsets": found.lost_offsets,
        "lag": found.lag,
        "newest_record_ms": found.newest_ms,
    }


def _live(found: CatalogTopic) -> Json | None:
    if found.live is None:
        return None
    offsets = found.offsets.partitions if found.offsets is not None else {}
    return {
        "topic_id": found.live.topic_id,
        "bytes": None if found.offsets is None else found.offsets.size_bytes,
        "partitions": [
            {
                "partition": index,
                "leader": one.leader,
                "replicas": list(one.replicas),
                "in_sync": list(one.in_sync),
                "start": offsets[index].start if index in offsets else None,
                "end": offsets[index].end if index in offsets else None,
            }
            for index, one in sorted(found.live.partitions.items())
        ],
    }


def _logged(one: LoggedTopic) -> Json:
    return {
        "archive": one.log.place.address,
        "log": one.log.name,
        "incarnation": one.info.incarnation,
        "topic_id": one.info.topic_id,
        "partitions": one.info.partitions,
        "records": one.records,
        "objects": one.objects,
        "bytes": one.size_bytes,
        "lost_offsets": one.lost_offsets,
        "settings": dict(one.info.configs),
    }


def _incarnation(one: Incarnation) -> Json:
    return {
        "topic_id": one.identity,
        "incarnation": one.number,
        "in_kafka": one.is_live,
        "logs": [log.log.name for log in one.logs],
        "partitions": [_partition(partition) for partition in one.partitions],
    }


def _partition(one: PartitionCoverage) -> Json:
    return {
        "partition": one.partition,
        "position": one.position,
        "records": one.records,
        "holes": one.holes,
        "live": None if one.live is None else [one.live.start, one.live.end],
        "archived": _ranges(one.archived),
        "waiting": _ranges(one.waiting),
        "gaps": _ranges(one.gaps),
    }


def _ranges(several: Iterable[OffsetRange]) -> list[list[int]]:
    return [[one.start, one.end] for one in several]


ENDPOINTS = (
    get_endpoint(
        f"{ROOT}/topics",
        topics,
        "CatalogTopics",
        "Topics in Kafka and in the archives, by name.",
        (
            Query(name="search", help="Only names that contain this.", type="string"),
            Query(
                name="show",
                help="uncovered, covered, archive-only, gaps, re-created or internal.",
                type="string",
            ),
            Query(name="offsets", help="Also read the offsets in Kafka; slower."),
            Query(name="limit", help="How many, at most 1000; 100 if not given.", type="string"),
            Query(name="start", help="How many to skip.", type="string"),
        ),
    ),
    get_endpoint(f"{ROOT}/topics/{{topic}}", topic, "CatalogTopic", "One topic."),
    get_endpoint(
        f"{ROOT}/topics/{{topic}}/coverage",
        coverage,
        "Coverage",
        "What is archived of each partition, what waits in Kafka, what is lost; records by time.",
        (Query(name="log", help="Only this one: archive id/name of the log.", type="string"),),
    ),
    get_endpoint(
        f"{ROOT}/topics/{{topic}}/groups",
        groups,
        "TopicGroups",
        "The consumer groups with committed offsets on a topic.",
    ),
)
_MAYBE_INTEGER = {"type": ["integer", "null"]}
_RANGES = {
    "type": "array",
    "items": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2},
    "description": "Start and end of each range; the end is exclusive.",
}
_SUMMARY = {
    "name": TEXT,
    "in_kafka": {"type": "boolean"},
    "is_archived": {"type": "boolean"},
    "is_internal": {"type": "boolean"},
    "partitions": NUMBER,
    "incarnations": NUMBER,
    "records": {"type": "integer", "description": "Archived records."},
    "bytes": {"type": "integer", "description": "Of its objects."},
    "lost_offsets": NUMBER,
    "lag": {
        **MAYBE_NUMBER,
        "description": "Offsets past the archived positions; null: not read, or not in Kafka.",
    },
    "newest_record_ms": MAYBE_NUMBER,
}
_LIVE = object_schema(
    {
        "topic_id": TEXT,
        "bytes": MAYBE_NUMBER,
        "partitions": list_schema(
            object_schema(
                {
                    "partition": NUMBER,
                    "leader": _MAYBE_INTEGER,
                    "replicas": list_schema(NUMBER),
                    "in_sync": list_schema(NUMBER),
                    "start": _MAYBE_INTEGER,
                    "end": _MAYBE_INTEGER,
                }
            )
        ),
    }
)
_LOGGED = object_schema(
    {
        "archive": TEXT,
        "log": TEXT,
        "incarnation": NUMBER,
        "topic_id": TEXT,
        "partitions": NUMBER,
        "records": NUMBER,
        "objects": NUMBER,
        "bytes": NUMBER,
        "lost_offsets": NUMBER,
        "settings": map_schema(TEXT),
    }
)
_PARTITION = object_schema(
    {
        "partition": NUMBER,
        "position": {**_MAYBE_INTEGER, "description": "Archived up to here; null: in no log."},
        "records": NUMBER,
        "holes": {"type": "integer", "description": "Archived offsets without a record."},
        "live": {
            "type": ["array", "null"],
            "items": NUMBER,
            "description": "Start and end in Kafka; null when it is not there.",
        },
        "archived": _RANGES,
        "waiting": _RANGES,
        "gaps": _RANGES,
    }
)
_INCARNATION = object_schema(
    {
        "topic_id": TEXT,
        "incarnation": {**_MAYBE_INTEGER, "description": "null: in no log."},
        "in_kafka": {"type": "boolean"},
        "logs": list_schema(TEXT),
        "partitions": list_schema(_PARTITION),
    }
)
_OFFSET = object_schema({"partition": NUMBER, "offset": NUMBER})
_TIME_BIN = object_schema(
    {
        "from": TIME,
        "to": TIME,
        "records": {"type": "integer", "description": "Archived, by their own time."},
        "kind": {
            "enum": [*(kind.value for kind in CoverageKind), None],
            "description": "null: no record has such a time.",
        },
    }
)

SCHEMAS = {
    "CatalogTopics": object_schema(
        {
            "count": {"type": "integer", "description": "How many there are in all."},
            "topics": list_schema(object_schema(_SUMMARY)),
            "problems": {**list_schema(TEXT), "description": "What could not be read."},
        }
    ),
    "CatalogTopic": object_schema(
        {
            **_SUMMARY,
            "live": {"anyOf": [_LIVE, {"type": "null"}]},
            "logs": list_schema(_LOGGED),
            "settings": {**map_schema({"type": ["string", "null"]}), "description": "In Kafka."},
        }
    ),
    "Coverage": object_schema(
        {"incarnations": list_schema(_INCARNATION), "times": list_schema(_TIME_BIN)}
    ),
    "TopicGroups": object_schema(
        {
            "groups": list_schema(
                object_schema({"group": TEXT, "lag": NUMBER, "offsets": list_schema(_OFFSET)})
            ),
            "denied": {**list_schema(TEXT), "description": "Groups that may not be described."},
        }
    ),
}
