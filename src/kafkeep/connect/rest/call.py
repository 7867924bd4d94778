"""A REST call and an endpoint as values; parsing of paths, bodies and configurations.

A path is split before it is decoded, so that ``%2F`` is part of a name. JSON is parsed strictly.
Values of configurations are text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response

from kafkeep.connect.model import RestError, invalid_config
from kafkeep.connect.rest.answers import plain_error
from kafkeep.connect.safety.secrets import mask
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MARK = "~"


def has_controls(text: str) -> bool:
    """Return True for a text with control characters, by Java's definition: C0, DEL and C1."""
    return any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in text)


def check_name(name: str) -> None:
    """Refuse a connector's name that is not safe in a URL, a header or a log line.

    Spaces and letters of any script are allowed.
    """
    if has_controls(name):
        raise RestError(400, "A connector's name may not contain control characters")
    if "/" in name:
        raise RestError(400, f"Connector name {name!r} contains a slash, which no URL can hold")
    if name in (".", ".."):
        raise RestError(400, f"Connector name {name!r} means a folder in a URL")


def split_path(raw_path: bytes) -> tuple[str, ...]:
    """Return the decoded segments, ignoring one slash at the end. 400 for bad escapes."""
    if _BAD_ESCAPE.search(raw_path):
        raise RestError(400, "The path has a % that is not followed by two hex digits")
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise RestError(400, "The path is not UTF-8") from None
    if len(segments) > 1 and not segments[-1]:
        segments.pop()
    for segment in segments:
        check_name(segment)
    return tuple(segments)


def match(template: str, segments: tuple[str, ...]) -> Mapping[str, str] | None:
    """Return the values of a template's ``{names}``, or None if the path does not match."""
    parts = template.split("/")[1:]
    if len(parts) != len(segments):
        return None
    values: dict[str, str] = {}
    for part, segment in zip(parts, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            values[part[1:-1]] = segment
        elif part != segment:
            return None
    return values


def allow_header(methods: Iterable[str]) -> str:
    """Return the value of the Allow header; an endpoint that has GET has HEAD."""
    known = set(methods)
    return ", ".join(sorted(known | ({"HEAD"} if "GET" in known else set())))


_MAX_KEYS = 1000
_MAX_KEY_LENGTH = 1000
"""Limited because every answer and log line compares every key with patterns."""
_DRAIN_BYTES = 64 << 20
"""How much of a body that is too large is read and dropped, so that the client gets the answer."""


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """Return the body; 413 when it is too large, 415 when it is not declared as JSON."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit_bytes and "expect" in request.headers:
        raise _too_large(limit_bytes)
    chunks: list[bytes] = []
    seen = 0
    async for chunk in request.stream():
        seen += len(chunk)
        if seen > limit_bytes:
            chunks.clear()
            if seen > _DRAIN_BYTES:
                break
        else:
            chunks.append(chunk)
    if seen > limit_bytes:
        raise _too_large(limit_bytes)
    body = b"".join(chunks)
    if body and not _is_json(request.headers.get("content-type", "")):
        raise plain_error(415)
    return body


def _too_large(limit_bytes: int) -> RestError:
    return RestError(413, f"The body is longer than the limit of {limit_bytes} bytes")


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


def parse_json(body: bytes, *, numbers_as_text: bool = False) -> Any:
    """Return the JSON value of a body; the message of a 400 says what is wrong.

    ``numbers_as_text`` keeps numbers as they were written, because configurations are text.
    """
    if not body.strip():
        raise RestError(400, "The body is empty where JSON is needed")
    as_number: dict[str, Any] = {"parse_int": str, "parse_float": str} if numbers_as_text else {}
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant, **as_number)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise RestError(400, "The body is nested too deeply") from None
    except UnicodeError:
        raise RestError(400, "The body is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RestError(400, f"The body is not JSON: {error.msg} at {where}") from None
    except ValueError:
        raise RestError(400, "The body is not JSON: it has a number that cannot be read") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def parse_object(body: bytes, known: tuple[str, ...]) -> dict[str, Any]:
    """Return a body that is an object with no fields but ``known``; numbers stay numbers."""
    return _known_fields(parse_json(body), known)


def parse_creation(body: bytes) -> dict[str, Any]:
    """Return the object of POST /connectors, with numbers as text."""
    value = parse_json(body, numbers_as_text=True)
    return _known_fields(value, ("name", "config", "initial_state"))


def _known_fields(value: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RestError(400, "The body must be a JSON object")
    for key in value:
        if key not in known:
            raise RestError(400, f'Unrecognized field "{key}" (known are: {", ".join(known)})')
    return value


def parse_config(body: bytes) -> dict[str, str | None]:
    """Return a body that is a configuration."""
    return as_config(parse_json(body, numbers_as_text=True))


def as_config(value: Any) -> dict[str, str | None]:
    """Return a configuration as Connect reads it: numbers and booleans become text."""
    if not isinstance(value, dict):
        raise RestError(400, "A connector's configuration must be a JSON object of texts")
    if len(value) > _MAX_KEYS:
        raise RestError(400, f"A connector's configuration has at most {_MAX_KEYS} keys")
    config: dict[str, str | None] = {}
    for key, item in value.items():
        if len(key) > _MAX_KEY_LENGTH:
            raise RestError(400, f"A key has at most {_MAX_KEY_LENGTH} characters")
        if isinstance(item, bool):
            config[key] = "true" if item else "false"
        elif item is None or isinstance(item, str):
            config[key] = item
        else:
            raise RestError(400, f'The value of "{key}" must be a text, not an object or a list')
    return config


def without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    """Return a configuration to store; a null is an error, as in Connect."""
    nulls = [key for key, value in config.items() if value is None]
    if nulls:
        raise invalid_config(
            [f"Null value can not be supplied as the configuration value: {key}" for key in nulls]
        )
    return {key: value for key, value in config.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A decoded request: the values of the path, the query and the body."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    role: Role | None = None
    """The caller's role; None for an anonymous caller."""
    caller: str = ""
    """The caller's name."""
    sees_secrets: bool = False
    """True when the caller sees configurations with their secrets."""

    def shown(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a configuration as this caller may see it; references are not secrets."""
        return dict(config) if self.sees_secrets else mask(config)

    @property
    def name(self) -> str:
        """The connector in the path."""
        return self.path["connector"]

    @property
    def task(self) -> int:
        """The task in the path; 404 when it is not a number, as in Connect."""
        text = self.path["task"]
        if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) >= 1 << 31:
            raise plain_error(404)
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean of the query; 400 for anything but true and false."""
        values = self.query.get(name)
        if not values:
            return default
        value = values[0].lower()
        if value not in ("true", "false"):
            raise RestError(400, f"{name} must be true or false, not {values[0]!r}")
        return value == "true"


Responder = Callable[[ConnectService, Call], Response]
"""Answers a call. It may block, so it runs in a thread unless its endpoint is quick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query parameter, with the type of its JSON schema."""

    name: str
    help: str
    type: Literal["boolean", "string", "array"] = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path. The OpenAPI document is generated from these."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """A template with ``{connector}``, ``{task}``, ``{plugin}`` or ``{logger}``."""
    role: Role | None
    """The lowest role that may call it; None: everyone, without credentials."""
    run: Responder
    help: str
    answers: Mapping[int, str | None]
    """Status of success → schema of the body, None for no body."""
    body: str | None = None
    """The schema of the request's body; None: it has none."""
    query: tuple[Query, ...] = ()
    media_type: str = "application/json"
    quick: bool = False
    """True when it only reads connectors: it needs no thread while these are in memory."""


def get_endpoint(
    path: str,
    run: Responder,
    schema: str,
    text: str,
    query: tuple[Query, ...] = (),
    *,
    quick: bool = False,
) -> Endpoint:
    """Return an endpoint that reads: GET, for everybody who may read."""
    return Endpoint(
        method="GET",
        path=path,
        role=Role.READ,
        run=run,
        help=text,
        answers={200: schema},
        query=query,
        quick=quick,
    )


def to_segment(name: str) -> str:
    """Return a name of any text as one segment of a path: of a group or a subject.

    A plain name is its own segment. A name that no path can hold (a slash, control characters,
    ``.`` and ``..``, the empty name) is written as ``~`` and its UTF-8 in URL-safe base64.
    Percent-encode the segment in an address as usual.
    """
    if name and name not in (".", "..") and name[0] != _MARK and _is_plain(name):
        return name
    return _MARK + base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def from_segment(segment: str) -> str:
    """Return the name of a segment; 404 for one that ``to_segment`` does not make."""
    if not segment.startswith(_MARK):
        return segment
    body = segment[1:]
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise RestError(404, f"{segment!r} is not a name in a path") from None


def _is_plain(name: str) -> bool:
    return "/" not in name and not has_controls(name)
