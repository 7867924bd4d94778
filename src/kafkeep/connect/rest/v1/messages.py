"""Calls under ``/kafkeep/v1/topics/{topic}``: records of a topic, in Kafka or in an archive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from starlette.responses import Response, StreamingResponse

from kafkeep.connect.catalog.messages.message import Message, format_cursor
from kafkeep.connect.catalog.messages.message_catalog import (
    DOWNLOADED,
    FROM_ARCHIVE,
    FROM_KAFKA,
    MOST_SHOWN,
    SHOWN,
    OpenedTopic,
    message_log_id,
    parse_query,
)
from kafkeep.connect.model import Json
from kafkeep.connect.rest.answers import json_answer
from kafkeep.connect.rest.call import Call, Endpoint, Query
from kafkeep.connect.rest.json_schemas import (
    MAYBE_TEXT,
    NUMBER,
    TEXT,
    list_schema,
    object_schema,
)
from kafkeep.connect.rest.v1.root import ROOT
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role
from kafkeep.maintenance.inspect.cat import RecordLine, json_line, record_document

JSON_LINES = "application/x-ndjson"
_PIECE_BYTES = 256 * 1024


def messages(service: ConnectService, call: Call) -> Response:
    """Answer with a page of records."""
    query = parse_query(_given(call))
    opened = service.catalog.messages.open(call.path["topic"], query)
    page = service.catalog.messages.page(opened, query)
    return json_answer(
        {
            "source": FROM_KAFKA if opened.log is None else FROM_ARCHIVE,
            "log": None if opened.log is None else message_log_id(opened.log),
            "messages": [_message(one) for one in page.messages],
            "older": None if page.at_start else format_cursor(page.first),
            "newer": format_cursor(page.after),
            "is_end": page.at_end,
            "searched": page.searched,
            "is_complete": page.is_complete,
        }
    )


def _message(one: Message) -> Json:
    return {
        **record_document(one.line),
        "position": one.position,
        "key_bytes": one.key_bytes,
        "value_bytes": one.value_bytes,
    }


def download(service: ConnectService, call: Call) -> Response:
    """Answer with whole records as JSON lines."""
    query = parse_query(_given(call))
    opened = service.catalog.messages.open(call.path["topic"], query)
    return json_lines(opened, service.catalog.messages.lines(opened, query))


def json_lines(opened: OpenedTopic, lines: Iterator[RecordLine]) -> Response:
    """Return records as a file of JSON lines, streamed; the first is read at once.

    So an error before the first record gets an answer of its own.
    """
    first = list(next(([line] for line in lines), []))
    name = f"{re.sub(r'[^A-Za-z0-9._-]', '_', opened.topic.name)}.jsonl"
    return StreamingResponse(
        _pieces(chain(first, lines)),
        media_type=JSON_LINES,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        },
    )


def _pieces(lines: Iterator[RecordLine]) -> Iterator[bytes]:
    held, size = [], 0
    for line in lines:
        held.append(json_line(line))
        size += len(held[-1])
        if size >= _PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def _given(call: Call) -> dict[str, str]:
    return {name: values[0] for name, values in call.query.items() if values}


def _text(name: str, help: str) -> Query:
    return Query(name=name, help=help, type="string")


_SELECTION = (
    _text("source", "live or archive; live if not given and the topic is in Kafka."),
    _text("log", "Archive id, log and incarnation, with slashes between; as in an answer."),
    _text("partition", "Only this partition."),
    _text("start", "newest, oldest, offset or time; newest if not given."),
    _text("at", "The offset or the time."),
    _text("search", "Only records that contain these bytes."),
    _text("in", "Where to search: key, value or header; everywhere if not given."),
    _text("from", "A cursor: the records from there on, the oldest first."),
)
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=f"{ROOT}/topics/{{topic}}/messages",
        role=Role.OPERATE,
        run=messages,
        help="A page of records. Fields are those of kafkeep cat; values over 64 KiB are cut.",
        answers={200: "Messages"},
        query=(
            *_SELECTION,
            _text("before", "A cursor: the records before it, the newest first."),
            _text("limit", f"How many, at most {MOST_SHOWN}; {SHOWN} if not given."),
        ),
    ),
    Endpoint(
        method="GET",
        path=f"{ROOT}/topics/{{topic}}/messages.jsonl",
        role=Role.OPERATE,
        run=download,
        help=f"Whole records as JSON lines, by partition: at most {DOWNLOADED} and 256 MiB. "
        "Without a start, from the oldest on.",
        answers={200: "Text"},
        query=_SELECTION,
        media_type=JSON_LINES,
    ),
)
_MESSAGE = object_schema(
    {
        "topic": TEXT,
        "partition": NUMBER,
        "offset": {"type": "integer", "description": "-1: the archive does not hold it."},
        "tstype": {"type": "string", "enum": ["create", "logappend"]},
        "ts": {"type": "integer", "description": "Milliseconds since 1970; -1: not archived."},
        "position": {"type": "integer", "description": "The offset, or a place of its own."},
        "key_bytes": NUMBER,
        "value_bytes": NUMBER,
    },
    more=True,
)
SCHEMAS = {
    "Messages": object_schema(
        {
            "source": {"type": "string", "enum": [FROM_KAFKA, FROM_ARCHIVE]},
            "log": MAYBE_TEXT,
            "messages": list_schema(_MESSAGE),
            "older": {**MAYBE_TEXT, "description": "Send it as before; null at the start."},
            "newer": {"type": "string", "description": "Send it as from."},
            "is_end": {"type": "boolean"},
            "searched": NUMBER,
            "is_complete": {
                "type": "boolean",
                "description": "false: the limits of one page ended the search; continue it.",
            },
        }
    ),
}
