"""The OpenAPI document, made from the table of endpoints, so that the two cannot differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kafkeep.connect.rest.call import Endpoint, Query
from kafkeep.connect.rest.schemas import SCHEMAS, ref

_PLACES = re.compile(r"\{(\w+)\}")
_NAME = {"type": "string", "minLength": 1, "pattern": "^[^/\\u0000-\\u001f\\u007f]+$"}
_PLACE_SCHEMAS: dict[str, Any] = {
    "connector": _NAME,
    "plugin": _NAME,
    "logger": _NAME,
    "task": {"type": "integer", "minimum": 0, "maximum": (1 << 31) - 1},
}


def openapi_document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return the document of these endpoints."""
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kafkeep",
            "version": version,
            "description": "Kafka Connect's REST API over kafkeep's backups and restores.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.help,
        "parameters": [
            *(_place(name) for name in _PLACES.findall(endpoint.path)),
            *(_query(query) for query in endpoint.query),
        ],
        "responses": _responses(endpoint),
        "security": [{}] if endpoint.role is None else [{}, {"basic": []}, {"bearer": []}],
    }
    if endpoint.role is not None:
        operation["x-role"] = endpoint.role.name.lower()
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": ref(endpoint.body)}},
        }
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path) or ["root"]
    return "-".join([endpoint.method.lower(), *words])


def _place(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PLACE_SCHEMAS[name]}


def _query(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": query.type}
    if query.type == "array":
        schema["items"] = {"type": "string"}
    return {"name": query.name, "in": "query", "description": query.help, "schema": schema}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, shape in endpoint.answers.items():
        response: dict[str, Any] = {"description": "Done." if status < 400 else "Not yet."}
        if shape is not None:
            response["content"] = {endpoint.media_type: {"schema": ref(shape)}}
        if status == 201:
            response["headers"] = {
                "Location": {"required": True, "schema": {"type": "string"}},
            }
        responses[str(status)] = response
    responses["default"] = {
        "description": "An error.",
        "content": {"application/json": {"schema": ref("Error")}},
    }
    return responses
