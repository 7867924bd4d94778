"""The JSON schemas of the REST API's requests and answers, by the names that endpoints use."""

from __future__ import annotations

from typing import Any

from kafkeep.connect.model import RunState

Schema = dict[str, Any]

_STATES = [state.value for state in RunState]
_SCALARS = ["string", "number", "boolean", "null"]
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_TYPE: Schema = {"type": "string", "enum": ["sink", "source"]}


def ref(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(
    properties: Schema, *, optional: tuple[str, ...] = (), more: bool | Schema = False
) -> Schema:
    """Return the schema of an object; all properties are required but the optional ones."""
    needed = [name for name in properties if name not in optional]
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": more}
    return {**schema, "required": needed} if needed else schema


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


_STATE = {
    "state": {"type": "string", "enum": _STATES},
    "worker_id": _TEXT,
    "version": _TEXT,
    "trace": {"type": "string", "description": "Why it failed; only then."},
}
_TIME: Schema = {"type": "string", "format": "date-time"}
_GAP = _object(
    {
        "topic": _TEXT,
        "partition": _NUMBER,
        "first_offset": _NUMBER,
        "last_offset": {"type": "integer", "description": "The last that is lost: inclusive."},
        "reason": _TEXT,
        "found_at": _TIME,
    }
)
_BACKLOG = _object(
    {
        "lag_records": {
            "type": "integer",
            "description": "Offsets in Kafka that are not archived, or not yet brought back.",
        },
        "lag_seconds": {
            "type": "number",
            "description": "For how long the oldest of them has waited.",
        },
        "measured_at": {**_TIME, "description": "When lag and gaps were read."},
        "last_progress": {**_TIME, "description": "The last commit of this process."},
        "no_progress_since": {
            **_TIME,
            "description": "Work is due since then, and nothing was committed; only if so.",
        },
        "gaps": _object(
            {
                "count": _NUMBER,
                "offsets": _NUMBER,
                "newest": {**_list(_GAP), "description": "At most ten, the newest first."},
            }
        ),
    },
    optional=(
        *("lag_records", "lag_seconds", "measured_at"),
        *("last_progress", "no_progress_since", "gaps"),
    ),
)
_KEY = _object(
    {
        "name": _TEXT,
        "type": _TEXT,
        "required": {"type": "boolean"},
        "default_value": {"type": ["string", "null"]},
        "importance": _TEXT,
        "documentation": _TEXT,
        "group": {"type": ["string", "null"]},
        "width": _TEXT,
        "display_name": _TEXT,
        "dependents": _list(_TEXT),
        "order": _NUMBER,
    },
    more=True,
)
_VALUE = _object(
    {
        "name": _TEXT,
        "value": {"type": ["string", "null"]},
        "recommended_values": _list({}),
        "errors": _list(_TEXT),
        "visible": {"type": "boolean"},
    },
    more=True,
)
_OFFSET = _object(
    {
        "partition": _map({"type": _SCALARS}),
        "offset": {"type": ["object", "null"], "additionalProperties": {"type": _SCALARS}},
    },
    optional=("offset",),
)

_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_MAYBE_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
_MAYBE_NUMBER: Schema = {"type": ["number", "null"], "description": "null: not known."}
_RATES = {
    "lag_records": _MAYBE_NUMBER,
    "lag_seconds": _MAYBE_NUMBER,
    "records_per_second": _MAYBE_NUMBER,
    "bytes_per_second": _MAYBE_NUMBER,
    "gaps": _NUMBER,
    "last_commit": _MAYBE_TIME,
}
_OVERVIEW = _object(
    {
        "health": _TEXT,
        "leader": _MAYBE_TEXT,
        "is_leader": {"type": "boolean"},
        "totals": _object({"connectors": _NUMBER, "running": _NUMBER, "failed": _NUMBER, **_RATES}),
        "connectors": _list(
            _object(
                {
                    "name": _TEXT,
                    "type": _TYPE,
                    "state": {"type": "string", "enum": _STATES},
                    "tasks": _NUMBER,
                    "failed_tasks": _NUMBER,
                    "lost_offsets": _NUMBER,
                    "last_verification": _MAYBE_TIME,
                    "no_progress_since": _MAYBE_TIME,
                    **_RATES,
                }
            )
        ),
    }
)
_POINT = _object({"at": _TIME, "objects": _NUMBER, "records": _NUMBER, "bytes": _NUMBER})
_ARCHIVED = _object(
    {
        "key": _TEXT,
        "topic": _TEXT,
        "partition": _NUMBER,
        "first_offset": _NUMBER,
        "last_offset": {"type": "integer", "description": "The last one in it: inclusive."},
        "records": _NUMBER,
        "bytes": _NUMBER,
        "newest_record": _MAYBE_TIME,
        "committed": {**_MAYBE_TIME, "description": "null for older objects."},
    }
)
_SETTINGS = _object(
    {
        "version": _TEXT,
        "connect_version": _TEXT,
        "worker_id": _TEXT,
        "state": _TEXT,
        "config": _map(_TEXT),
        "features": _map({"type": "boolean"}),
    }
)

SCHEMAS: dict[str, Schema] = {
    "Error": _object({"error_code": _NUMBER, "message": _TEXT}),
    "Worker": _object(
        {
            "version": _TEXT,
            "commit": _TEXT,
            "kafka_cluster_id": {
                "type": ["string", "null"],
                "description": "null while Kafka does not answer.",
            },
        },
        more=True,
    ),
    "Names": _list(_TEXT),
    "Config": _map({"type": _SCALARS}),
    "Creation": _object(
        {
            "name": {"type": "string", "minLength": 1, "pattern": "^[^/\\u0000-\\u001f\\u007f]+$"},
            "config": ref("Config"),
            "initial_state": {"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]},
        },
        optional=("initial_state",),
    ),
    "TaskId": _object({"connector": _TEXT, "task": _NUMBER}),
    "Connector": _object(
        {
            "name": _TEXT,
            "config": _map(_TEXT),
            "tasks": _list(ref("TaskId")),
            "type": _TYPE,
        }
    ),
    "TaskStatus": _object({"id": _NUMBER, **_STATE}, optional=("trace",)),
    "Status": _object(
        {
            "name": _TEXT,
            "connector": _object(_STATE, optional=("trace",)),
            "tasks": _list(ref("TaskStatus")),
            "type": _TYPE,
            "kafkeep": ref("Backlog"),
        },
        optional=("kafkeep",),
    ),
    "Backlog": {**_BACKLOG, "description": "kafkeep's addition; what is not known yet is absent."},
    "Connectors": {
        "anyOf": [
            ref("Names"),
            _map(
                _object(
                    {"status": ref("Status"), "info": ref("Connector")},
                    optional=("status", "info"),
                )
            ),
        ]
    },
    "Tasks": _list(_object({"id": ref("TaskId"), "config": _map(_TEXT)})),
    "Topics": _map(_object({"topics": _list(_TEXT)})),
    "Offsets": _object({"offsets": _list(_OFFSET)}),
    "NewOffsets": _object({"offsets": {**_list(_OFFSET), "minItems": 1}}),
    "Message": _object({"message": _TEXT}),
    "Plugins": _list(
        _object({"class": _TEXT, "type": _TEXT, "version": _TEXT}, optional=("version",), more=True)
    ),
    "Key": _KEY,
    "KeyList": _list(ref("Key")),
    "Validation": _object(
        {
            "name": _TEXT,
            "error_count": _NUMBER,
            "groups": _list(_TEXT),
            "configs": _list(_object({"definition": ref("Key"), "value": _VALUE})),
        }
    ),
    "Level": _object({"level": _TEXT}),
    "Logger": _object({"level": {"type": ["string", "null"]}}, more=True),
    "Loggers": _map(ref("Logger")),
    "Health": _object({"status": _TEXT, "message": _TEXT}, more=True),
    "Overview": _OVERVIEW,
    "Growth": _object({"points": _list(_POINT)}),
    "Objects": _object({"objects": _list(_ARCHIVED)}),
    "Settings": _SETTINGS,
    "Text": _TEXT,
    "Document": {"type": "object"},
}
