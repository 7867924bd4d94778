"""The JSON schemas of the REST API's requests and answers, by the names that endpoints use."""

from __future__ import annotations

from typing import Any

from kafkeep.connect.model import RunState

Schema = dict[str, Any]

RUN_STATES = [state.value for state in RunState]
_SCALARS = ["string", "number", "boolean", "null"]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
CONNECTOR_TYPE: Schema = {"type": "string", "enum": ["sink", "source"]}


def ref(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_schema(
    properties: Schema, *, optional: tuple[str, ...] = (), more: bool | Schema = False
) -> Schema:
    """Return the schema of an object; all properties are required but the optional ones."""
    needed = [name for name in properties if name not in optional]
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": more}
    return {**schema, "required": needed} if needed else schema


def list_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def map_schema(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


_STATE = {
    "state": {"type": "string", "enum": RUN_STATES},
    "worker_id": TEXT,
    "version": TEXT,
    "trace": {"type": "string", "description": "Why it failed; only then."},
}
TIME: Schema = {"type": "string", "format": "date-time"}
_GAP = object_schema(
    {
        "topic": TEXT,
        "partition": NUMBER,
        "first_offset": NUMBER,
        "last_offset": {"type": "integer", "description": "The last that is lost: inclusive."},
        "reason": TEXT,
        "found_at": TIME,
    }
)
_BACKLOG = object_schema(
    {
        "lag_records": {
            "type": "integer",
            "description": "Offsets in Kafka that are not archived, or not yet brought back.",
        },
        "lag_seconds": {
            "type": "number",
            "description": "For how long the oldest of them has waited.",
        },
        "measured_at": {**TIME, "description": "When lag and gaps were read."},
        "last_progress": {**TIME, "description": "The last commit of this process."},
        "no_progress_since": {
            **TIME,
            "description": "Work is due since then, and nothing was committed; only if so.",
        },
        "gaps": object_schema(
            {
                "count": NUMBER,
                "offsets": NUMBER,
                "newest": {**list_schema(_GAP), "description": "At most ten, the newest first."},
            }
        ),
    },
    optional=(
        *("lag_records", "lag_seconds", "measured_at"),
        *("last_progress", "no_progress_since", "gaps"),
    ),
)
_KEY = object_schema(
    {
        "name": TEXT,
        "type": TEXT,
        "required": {"type": "boolean"},
        "default_value": {"type": ["string", "null"]},
        "importance": TEXT,
        "documentation": TEXT,
        "group": {"type": ["string", "null"]},
        "width": TEXT,
        "display_name": TEXT,
        "dependents": list_schema(TEXT),
        "order": NUMBER,
    },
    more=True,
)
_VALUE = object_schema(
    {
        "name": TEXT,
        "value": {"type": ["string", "null"]},
        "recommended_values": list_schema({}),
        "errors": list_schema(TEXT),
        "visible": {"type": "boolean"},
    },
    more=True,
)
_OFFSET = object_schema(
    {
        "partition": map_schema({"type": _SCALARS}),
        "offset": {"type": ["object", "null"], "additionalProperties": {"type": _SCALARS}},
    },
    optional=("offset",),
)

MAYBE_TEXT: Schema = {"type": ["string", "null"]}
MAYBE_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
MAYBE_NUMBER: Schema = {"type": ["number", "null"], "description": "null: not known."}

SCHEMAS: dict[str, Schema] = {
    "Error": object_schema({"error_code": NUMBER, "message": TEXT}),
    "Worker": object_schema(
        {
            "version": TEXT,
            "commit": TEXT,
            "kafka_cluster_id": {
                "type": ["string", "null"],
                "description": "null while Kafka does not answer.",
            },
        },
        more=True,
    ),
    "Names": list_schema(TEXT),
    "Config": map_schema({"type": _SCALARS}),
    "Creation": object_schema(
        {
            "name": {"type": "string", "minLength": 1, "pattern": "^[^/\\u0000-\\u001f\\u007f]+$"},
            "config": ref("Config"),
            "initial_state": {"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]},
        },
        optional=("initial_state",),
    ),
    "TaskId": object_schema({"connector": TEXT, "task": NUMBER}),
    "Connector": object_schema(
        {
            "name": TEXT,
            "config": map_schema(TEXT),
            "tasks": list_schema(ref("TaskId")),
            "type": CONNECTOR_TYPE,
        }
    ),
    "TaskStatus": object_schema({"id": NUMBER, **_STATE}, optional=("trace",)),
    "Status": object_schema(
        {
            "name": TEXT,
            "connector": object_schema(_STATE, optional=("trace",)),
            "tasks": list_schema(ref("TaskStatus")),
            "type": CONNECTOR_TYPE,
            "kafkeep": ref("Backlog"),
        },
        optional=("kafkeep",),
    ),
    "Backlog": {**_BACKLOG, "description": "kafkeep's addition; what is not known yet is absent."},
    "Connectors": {
        "anyOf": [
            ref("Names"),
            map_schema(
                object_schema(
                    {"status": ref("Status"), "info": ref("Connector")},
                    optional=("status", "info"),
                )
            ),
        ]
    },
    "Tasks": list_schema(object_schema({"id": ref("TaskId"), "config": map_schema(TEXT)})),
    "Topics": map_schema(object_schema({"topics": list_schema(TEXT)})),
    "Offsets": object_schema({"offsets": list_schema(_OFFSET)}),
    "NewOffsets": object_schema({"offsets": {**list_schema(_OFFSET), "minItems": 1}}),
    "Message": object_schema({"message": TEXT}),
    "Plugins": list_schema(
        object_schema(
            {"class": TEXT, "type": TEXT, "version": TEXT}, optional=("version",), more=True
        )
    ),
    "Key": _KEY,
    "KeyList": list_schema(ref("Key")),
    "Validation": object_schema(
        {
            "name": TEXT,
            "error_count": NUMBER,
            "groups": list_schema(TEXT),
            "configs": list_schema(object_schema({"definition": ref("Key"), "value": _VALUE})),
        }
    ),
    "Level": object_schema({"level": TEXT}),
    "Logger": object_schema({"level": {"type": ["string", "null"]}}, more=True),
    "Loggers": map_schema(ref("Logger")),
    "Health": object_schema({"status": TEXT, "message": TEXT}, more=True),
    "Text": TEXT,
    "Document": {"type": "object"},
}
