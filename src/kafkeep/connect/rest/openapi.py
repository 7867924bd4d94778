"""The OpenAPI document, generated from the table of endpoints, and a page that shows it. Pure.

The page is one file without scripts that loads nothing from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from kafkeep.connect.rest.call import Endpoint, Query
from kafkeep.connect.rest.json_schemas import SCHEMAS, ref
from kafkeep.connect.rest.v1 import registry as v1

_ALL_SCHEMAS = {**SCHEMAS, **v1.SCHEMAS}
_PLACES = re.compile(r"\{(\w+)\}")
_NAME = {"type": "string", "minLength": 1, "pattern": "^[^/\\u0000-\\u001f\\u007f]+$"}
_PLACE_SCHEMAS: dict[str, Any] = {
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
            "schemas": _ALL_SCHEMAS,
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
    return {"name": name, "in": "path", "required": True, "schema": _PLACE_SCHEMAS.get(name, _NAME)}


def _query(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": query.type}
    if query.type == "array":
        schema["items"] = {"type": "string"}
    return {"name": query.name, "in": "query", "description": query.help, "schema": schema}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, schema in endpoint.answers.items():
        response: dict[str, Any] = {"description": "Done." if status < 400 else "Not yet."}
        if schema is not None:
            response["content"] = {endpoint.media_type: {"schema": ref(schema)}}
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


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #ccc}"
    "code,pre{font:14px/1.4 ui-monospace,monospace}pre{overflow-x:auto}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}"
    "a{color:#8ab4ff}th,td{border-color:#444}}"
)
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def openapi_page(endpoints: Sequence[Endpoint], version: str) -> str:
    """Return the page: every endpoint in a table, then every schema."""
    rows = "\n".join(_row(endpoint) for endpoint in endpoints)
    schemas = "\n".join(
        f'<details id="{escape(name)}"><summary>{escape(name)}</summary>'
        f"<pre>{escape(json.dumps(schema, indent=2))}</pre></details>"
        for name, schema in _ALL_SCHEMAS.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>kafkeep {escape(version)}: REST API</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>kafkeep {escape(version)}: REST API</h1>\n"
        '<p>Kafka Connect\'s REST API. For programs: <a href="/openapi.json">openapi.json</a>. '
        "Errors are <code>{&quot;error_code&quot;, &quot;message&quot;}</code>.</p>\n"
        "<table><thead><tr><th>Call</th><th>What it does</th><th>Body</th><th>Answers</th>"
        f"<th>Role</th></tr></thead><tbody>\n{rows}\n</tbody></table>\n"
        f"<h2>Schemas</h2>\n{schemas}\n</body></html>\n"
    )


def _row(endpoint: Endpoint) -> str:
    answers = "<br>".join(
        f"{status} {_schema_link(schema)}" for status, schema in sorted(endpoint.answers.items())
    )
    queries = "".join(
        f"<br><code>?{escape(query.name)}</code> {escape(query.help)}" for query in endpoint.query
    )
    role = endpoint.role.name.lower() if endpoint.role is not None else "anyone"
    return (
        f"<tr><td><code>{endpoint.method} {escape(endpoint.path)}</code></td>"
        f"<td>{escape(endpoint.help)}{queries}</td><td>{_schema_link(endpoint.body)}</td>"
        f"<td>{answers}</td><td>{role}</td></tr>"
    )


def _schema_link(name: str | None) -> str:
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else "no body"
