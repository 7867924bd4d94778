"""Calls under ``/kafkeep/v1/schemas``: schemas of the registries beside those in the archives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from starlette.responses import Response

from kafkeep.connect.catalog.schemas import (
    ComparedVersion,
    SchemaPlaces,
    StoredSchema,
    SubjectDetails,
    compare_texts,
    pretty,
)
from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import format_time, json_answer
from kafkeep.connect.rest.call import Call, Query, from_segment, get_endpoint
from kafkeep.connect.rest.json_schemas import (
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    TIME,
    Schema,
    list_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import ROOT, query_number, query_text
from kafkeep.connect.service.service import ConnectService

_LIMIT, _MOST = 100, 1000


def subjects(service: ConnectService, call: Call) -> Response:
    """Answer with the subjects of a registry and of a log."""
    start, limit = query_number(call, "start", 0), query_number(call, "limit", _LIMIT, _MOST)
    found = service.catalog.schemas.subjects(_places(service, call))
    wanted = query_text(call, "search").lower()
    named = [one for one in found.subjects if wanted in one.name.lower()]
    return json_answer(
        {
            "total": len(named),
            "problem": found.problem or None,
            **_shown_places(found.places),
            "subjects": [
                {
                    "subject": one.name,
                    "in_registry": one.in_registry,
                    "archived_versions": one.archived_versions,
                    "type": one.type or None,
                }
                for one in named[start : start + limit]
            ],
        }
    )


def subject(service: ConnectService, call: Call) -> Response:
    """Answer with versions of a subject, the newest first, on both sides."""
    found = _subject(service, call, start=query_number(call, "start", 0))
    return json_answer(
        {
            "subject": found.name,
            "problem": found.problem or None,
            **_shown_places(found.places),
            "compatibility": {
                "registry": found.live_compatibility,
                "archive": found.archived_compatibility,
            },
            "older_versions": found.older,
            "versions": [_version(one) for one in found.versions],
        }
    )


def differences(service: ConnectService, call: Call) -> Response:
    """Answer with the lines in which two versions of a subject differ."""
    sides = [query_text(call, side) for side in ("from", "to")]
    found = _subject(service, call, also=versions_named(sides))
    old, new = (find_side(found, side) for side in sides)
    lines = compare_texts(pretty(old.schema), pretty(new.schema))
    if lines is None:
        raise RestError(400, "The texts are too long to be compared here")
    return json_answer({"lines": [line.sign + line.text for line in lines]})


def versions_named(sides: Iterable[str]) -> set[int]:
    """Return the numbers in ``registry:3`` or ``archive:3``; none for what is not written so."""
    numbers = (side.partition(":")[2][:10] for side in sides)
    return {int(text) for text in numbers if text.isascii() and text.isdigit()}


def find_side(found: SubjectDetails, side: str) -> StoredSchema:
    """Return the schema that ``registry:3`` or ``archive:3`` names; 400 or 404 otherwise."""
    source, _, number = side.partition(":")
    if source not in ("registry", "archive") or not (number.isascii() and number.isdigit()):
        raise RestError(400, f"{side[:60]!r} is not registry:VERSION or archive:VERSION")
    one = found.find(source, int(number[:10]))
    if one is None:
        raise RestError(404, f"The {source} has no version {number[:10]} of {found.name!r}")
    return one


def _places(service: ConnectService, call: Call) -> SchemaPlaces:
    return service.catalog.schemas.places(query_text(call, "registry"), query_text(call, "log"))


def _subject(
    service: ConnectService, call: Call, *, start: int = 0, also: Collection[int] = ()
) -> SubjectDetails:
    name = from_segment(call.path["subject"])
    places = _places(service, call)
    return service.catalog.schemas.subject(name, places, start=start, also=also)


def _shown_places(places: SchemaPlaces) -> Json:
    log, registry = places.log, places.registry
    return {
        "registry": None
        if registry is None
        else {"id": registry.id, "address": registry.address, "connectors": registry.connectors},
        "log": None
        if log is None
        else {
            "archive": log.archive,
            "address": log.address,
            "log": log.log,
            "commit": log.commit,
            "at": format_time(log.at_ms),
        },
    }


def _version(one: ComparedVersion) -> Json:
    return {
        "version": one.version,
        "verdict": one.verdict,
        "registry": None if one.live is None else _stored(one.live),
        "archive": None if one.archived is None else _stored(one.archived),
    }


def _stored(one: StoredSchema) -> Json:
    return {
        "id": one.id,
        "type": one.schema.type,
        "deleted": one.is_deleted,
        "schema": one.schema.text,
        "references": [
            {"name": ref.name, "subject": ref.subject, "version": ref.version}
            for ref in one.schema.references
        ],
    }


def _query(helps: Mapping[str, str]) -> tuple[Query, ...]:
    return tuple(Query(name=name, help=text, type="string") for name, text in helps.items())


_WHERE = {
    "registry": "The id of the registry; the first that a connector names if not given.",
    "log": "The log: ARCHIVE:NAME; the newest that keeps schemas if not given.",
}
ENDPOINTS = (
    get_endpoint(
        f"{ROOT}/schemas",
        subjects,
        "Subjects",
        "Subjects of a schema registry and of an archive, by name.",
        _query(
            {
                "search": "Only subjects with this text in their name.",
                **_WHERE,
                "start": "How many to leave out first; 0 if not given.",
                "limit": "How many, at most 1000; 100 if not given.",
            }
        ),
    ),
    get_endpoint(
        f"{ROOT}/schemas/{{subject}}",
        subject,
        "Subject",
        "20 versions of a subject, the newest first, in the registry beside the archive.",
        _query({**_WHERE, "start": "How many of the newest to leave out; 0 if not given."}),
    ),
    get_endpoint(
        f"{ROOT}/schemas/{{subject}}/diff",
        differences,
        "SchemaDiff",
        "The lines in which two versions differ; JSON is indented first.",
        _query(
            {
                "from": "The old one: registry:VERSION or archive:VERSION.",
                "to": "The new one.",
                **_WHERE,
            }
        ),
    ),
)


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_STORED = object_schema(
    {
        "id": NUMBER,
        "type": TEXT,
        "deleted": {"type": "boolean"},
        "schema": TEXT,
        "references": list_schema(
            object_schema({"name": TEXT, "subject": TEXT, "version": NUMBER})
        ),
    }
)
_PLACES = {
    "problem": {**MAYBE_TEXT, "description": "Why the registry could not be read."},
    "registry": _maybe(
        object_schema({"id": TEXT, "address": TEXT, "connectors": list_schema(TEXT)})
    ),
    "log": _maybe(
        object_schema({"archive": TEXT, "address": TEXT, "log": TEXT, "commit": NUMBER, "at": TIME})
    ),
}
SCHEMAS = {
    "Subjects": object_schema(
        {
            "total": NUMBER,
            **_PLACES,
            "subjects": list_schema(
                object_schema(
                    {
                        "subject": TEXT,
                        "in_registry": {
                            "type": ["boolean", "null"],
                            "description": "null: not known.",
                        },
                        "archived_versions": NUMBER,
                        "type": MAYBE_TEXT,
                    }
                )
            ),
        }
    ),
    "Subject": object_schema(
        {
            "subject": TEXT,
            **_PLACES,
            "compatibility": object_schema({"registry": MAYBE_TEXT, "archive": MAYBE_TEXT}),
            "older_versions": NUMBER,
            "versions": list_schema(
                object_schema(
                    {
                        "version": NUMBER,
                        "verdict": TEXT,
                        "registry": _maybe(_STORED),
                        "archive": _maybe(_STORED),
                    }
                )
            ),
        }
    ),
    "SchemaDiff": object_schema({"lines": list_schema(TEXT)}),
}
