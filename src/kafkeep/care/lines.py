"""Records as text: kcat's JSON, and kcat's format strings. Pure."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from kafkeep.errors import UsageError

NULL = b"NULL"
_TIME_TYPES = ("create", "logappend")
_PIECE = re.compile(rb"%(.)|\\(x[0-9A-Fa-f]{2}|.)|[^%\\]+|[%\\]", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"0": b"\0"}


class Line(NamedTuple):
    """One record to print."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Mapping[str, bytes | None]]


ToLine = Callable[[Line], bytes]


def json_line(line: Line) -> bytes:
    """Return a record as one JSON line with the names ``kcat -J`` uses.

    What is not UTF-8 comes whole as ``key_b64``, ``payload_b64`` or ``headers_b64`` instead.
    """
    document: dict[str, Any] = {
        "topic": line.topic,
        "partition": line.partition,
        "offset": line.offset,
        "tstype": _TIME_TYPES[line.timestamp_type],
        "ts": line.timestamp,
    }
    if line.headers:
        flat = [part for header in line.headers for part in (header["key"], header["value"])]
        document |= _text_list("headers", flat)
    document |= _text("key", line.key)
    document |= _text("payload", line.value)
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _text(name: str, data: bytes | None) -> dict[str, Any]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_b64": b64encode(data or b"").decode()}


def _text_list(name: str, parts: Sequence[bytes | None]) -> dict[str, Any]:
    try:
        return {name: [None if part is None else part.decode() for part in parts]}
    except UnicodeDecodeError:
        return {
            f"{name}_b64": [None if part is None else b64encode(part).decode() for part in parts]
        }


def parse_format(text: str) -> ToLine:
    """Understand kcat's format string; UsageError names the token that is not one.

    Null keys and values are ``NULL`` and have the length -1, as ``kcat -Z`` prints them. What is
    not UTF-8 is printed as it was given.
    """
    pieces = [_piece(match) for match in _PIECE.finditer(os.fsencode(text))]
    # What does not depend on the record is put together once.
    return lambda line: b"".join(p if isinstance(p, bytes) else p(line) for p in pieces)


def _piece(match: re.Match[bytes]) -> bytes | ToLine:
    token, escape = match[1], match[2]
    if token is not None:
        if token == b"%":
            return b"%"
        if token not in _TOKENS:
            raise UsageError(
                f"{match[0].decode(errors='replace')!r} is not a token of --format",
                hint="There are %s %S %k %K %t %p %o %T %h and %%.",
            )
        return _TOKENS[token]
    if escape is not None:
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if len(escape) == 3:
            return bytes([int(escape[1:], 16)])
        raise UsageError(
            f"{match[0].decode(errors='replace')!r} is not an escape of --format",
            hint=r"There are \n \t \r \0 \\ and \xNN.",
        )
    if match[0] in (b"%", b"\\"):
        raise UsageError(f"--format ends in a lone {match[0].decode()}", hint="Write it twice.")
    return match[0]


def _size(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _shown(data: bytes | None) -> bytes:
    return NULL if data is None else data


def _headers(line: Line) -> bytes:
    return b",".join(_shown(h["key"]) + b"=" + _shown(h["value"]) for h in line.headers)


_TOKENS: dict[bytes, ToLine] = {
    b"s": lambda line: _shown(line.value),
    b"S": lambda line: _size(line.value),
    b"k": lambda line: _shown(line.key),
    b"K": lambda line: _size(line.key),
    b"t": lambda line: line.topic.encode(),
    b"p": lambda line: b"%d" % line.partition,
    b"o": lambda line: b"%d" % line.offset,
    b"T": lambda line: b"%d" % line.timestamp,
    b"h": _headers,
}
