"""The OpenAPI document as a page to read: one file, no script, nothing from elsewhere. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape

from kafkeep.connect.rest.call import Endpoint
from kafkeep.connect.rest.schemas import SCHEMAS

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
        for name, schema in SCHEMAS.items()
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
        f"{status} {_schema_link(shape)}" for status, shape in sorted(endpoint.answers.items())
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
