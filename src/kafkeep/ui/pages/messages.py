"""The messages of a topic, in Kafka or in an archive: a page of them, one of them, a download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import Response

from kafkeep.connect.catalog.messages.message import (
    Message,
    MessagePage,
    SearchIn,
    format_cursor,
)
from kafkeep.connect.catalog.messages.message_catalog import (
    DOWNLOADED,
    FROM_ARCHIVE,
    FROM_KAFKA,
    SHOWN,
    Begin,
    MessageCatalog,
    MessageQuery,
    message_log_id,
    parse_query,
)
from kafkeep.connect.catalog.messages.show import Decoding, ShownContent, one_line
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.v1.messages import json_lines
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError
from kafkeep.ui.frame import HEADERS
from kafkeep.ui.pages.topics import tab_page, topic_path
from kafkeep.ui.visit import PageRoute, Visit

_PREVIEW = 240
_SHOWN_CHARACTERS = 64 * 1024
_HEADERS_SHOWN = 200
_KEPT = ("source", "log", "decode")
"""What the page of one message takes over from the list."""
LIMITS = (20, SHOWN, 100, 500)
_SELECTION = ("source", "log", "partition", "start", "at", "search", "in", "decode", "limit")


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message of the list with the beginning of its key and value."""

    message: Message
    key: ShownContent
    value: ShownContent
    path: str


def show_messages(visit: Visit) -> Response:
    """Show a page of messages, and the form that selects them."""
    name = visit.path["topic"]
    catalog = visit.service.catalog
    topic = catalog.topics.find(name)
    problem, status = "", 200
    query, page, opened = MessageQuery(), None, None
    decoding = Decoding.AUTO
    try:
        decoding = _decoding(visit)
        query = parse_query(visit.query)
        opened = catalog.messages.open(name, query)
        page = catalog.messages.page(opened, query)
    except KafkeepError as error:
        problem = error.message + (f". {error.hint}" if error.hint else "")
        status = error.status if isinstance(error, RestError) else 200
    log = opened.log if opened is not None else None
    given = {key: visit.query[key] for key in _SELECTION if visit.query.get(key)}
    return tab_page(
        visit,
        "messages",
        topic,
        http_status=status,
        problem=problem,
        query=query,
        given=given,
        is_live=log is None if opened is not None else visit.query.get("source") != FROM_ARCHIVE,
        logs=[(message_log_id(one), one) for one in topic.logged],
        decoding=decoding,
        decodings=tuple(Decoding),
        begins=tuple(Begin),
        places=tuple(SearchIn),
        limits=LIMITS,
        limit=query.limit,
        live=FROM_KAFKA,
        archive=FROM_ARCHIVE,
        page=page,
        rows=[] if page is None else _rows(catalog.messages, page, decoding, name, given),
        links={} if page is None else _links(name, query, page, given),
        most=DOWNLOADED,
    )


def _rows(
    catalog: MessageCatalog,
    page: MessagePage,
    decoding: Decoding,
    topic: str,
    given: dict[str, str],
) -> list[MessageRow]:
    kept = urlencode([(key, text) for key, text in given.items() if key in _KEPT])

    def preview(data: bytes | None, size: int, role: str) -> ShownContent:
        shown = catalog.decoder.show(data, size, decoding, role=role, most=4 * _PREVIEW)
        line = one_line(shown.text, _PREVIEW)
        return ShownContent(kind=shown.kind, text=line, note=shown.note, is_cut=shown.is_cut)

    return [
        MessageRow(
            one,
            preview(one.line.key, one.key_bytes, "key"),
            preview(one.line.value, one.value_bytes, "value"),
            f"{topic_path(topic)}/messages/{one.line.partition}/{one.position}?{kept}",
        )
        for one in page.messages
    ]


def _links(
    topic: str, query: MessageQuery, page: MessagePage, given: dict[str, str]
) -> dict[str, str]:
    """Return the addresses of other pages, of more results of a search, and of the download."""
    first, after = format_cursor(page.first), format_cursor(page.after)
    here = topic_path(topic, "/messages")
    older = f"{here}?{urlencode({**given, 'before': first})}"
    newer = f"{here}?{urlencode({**given, 'from': after})}"
    return {
        "older": older,
        "newer": newer,
        "more": older if query.is_backward else newer,
        "download": f"{here}.jsonl?{urlencode({**given, 'from': first})}",
    }


def _decoding(visit: Visit) -> Decoding:
    text = visit.query.get("decode", "") or Decoding.AUTO.value
    for one in Decoding:
        if one.value == text:
            return one
    raise RestError(400, f"decode must be one of: {', '.join(Decoding)}")


def _opened_one(visit: Visit) -> tuple[MessageQuery, Message]:
    """Return the one message that the path names, whole."""
    numbers = []
    for part in ("partition", "position"):
        text = visit.path[part]
        if not (text.isascii() and text.isdigit()) or len(text) > 19:
            raise RestError(404, "There is no such message.")
        numbers.append(int(text))
    given = {key: visit.query[key] for key in ("source", "log") if visit.query.get(key)}
    query = parse_query({**given, "partition": str(numbers[0])})
    catalog = visit.service.catalog.messages
    return query, catalog.one(catalog.open(visit.path["topic"], query), *numbers)


def show_message(visit: Visit) -> Response:
    """Show one message with all its headers, times and sizes."""
    decoding = _decoding(visit)
    query, message = _opened_one(visit)
    decoder = visit.service.catalog.messages.decoder
    line = message.line

    def content(data: bytes | None, role: str) -> ShownContent:
        return decoder.show(data, len(data or b""), decoding, role=role, most=_SHOWN_CHARACTERS)

    headers: list[dict[str, Any]] = [
        {
            "key": decoder.show(
                one["key"], len(one["key"] or b""), Decoding.TEXT, role="", most=500
            ),
            "value": decoder.show(
                one["value"], len(one["value"] or b""), Decoding.AUTO, role="", most=2000
            ),
            "size": len(one["value"] or b""),
        }
        for one in line.headers[:_HEADERS_SHOWN]
    ]
    topic = visit.service.catalog.topics.find(visit.path["topic"])
    kept = {key: visit.query[key] for key in ("source", "log") if visit.query.get(key)}
    return tab_page(
        visit,
        "message",
        topic,
        record=message,
        key=content(line.key, "key"),
        value=content(line.value, "value"),
        headers=headers,
        decoding=decoding,
        decodings=tuple(Decoding),
        kept=urlencode(kept),
        here=f"{topic_path(topic.name)}/messages/{line.partition}/{message.position}",
        around=topic_path(topic.name, "/messages?")
        + urlencode(
            {**kept, "partition": line.partition, "start": "offset", "at": message.position}
        ),
        is_archive=query.source == FROM_ARCHIVE or topic.live is None,
    )


def download_content(visit: Visit) -> Response:
    """Send the bytes of a key or a value as a file."""
    what = visit.path["what"]
    if what not in ("key", "value"):
        raise RestError(404, "There is no such content.")
    _, message = _opened_one(visit)
    data = message.line.key if what == "key" else message.line.value
    if data is None:
        raise RestError(404, f"The {what} of this message is null.")
    name = quote(f"{visit.path['topic']}-{message.line.partition}-{message.position}.{what}")
    return Response(
        data,
        media_type="application/octet-stream",
        headers={**HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"},
    )


def download(visit: Visit) -> Response:
    """Send the selected messages as JSON lines."""
    catalog = visit.service.catalog.messages
    query = parse_query(visit.query)
    opened = catalog.open(visit.path["topic"], query)
    response = json_lines(opened, catalog.lines(opened, query))
    response.headers.update(HEADERS)
    return response


_AT = "/topics/{topic}/messages"
ROUTES = (
    PageRoute(path=_AT, run=show_messages, role=Role.OPERATE),
    PageRoute(path=f"{_AT}.jsonl", run=download, role=Role.OPERATE),
    PageRoute(path=f"{_AT}/{{partition}}/{{position}}", run=show_message, role=Role.OPERATE),
    PageRoute(
        path=f"{_AT}/{{partition}}/{{position}}/{{what}}",
        run=download_content,
        role=Role.OPERATE,
    ),
)
