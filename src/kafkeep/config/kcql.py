"""KCQL, the language of Lenses' sinks, as far as one statement for S3 goes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.errors import UsageError

_WORD = r"(?:`[^`]+`|[^\s`;,()]+)"
_HEAD = re.compile(
    rf"insert\s+into\s+({_WORD})\s+select\s+(\S+(?:\s+\S+)*?)\s+from\s+({_WORD})(?:\s+(.*))?",
    re.I | re.S,
)
_CLAUSES = re.compile(
    r"\b(PARTITIONBY|STOREAS|PROPERTIES|NOPARTITION|WITHPARTITIONER|WITH_FLUSH_COUNT|"
    r"WITH_FLUSH_SIZE|WITH_FLUSH_INTERVAL|LIMIT|WHERE)\b|['`]",
    re.I,
)
_PROPERTY = re.compile(r"\s*'([^']+)'\s*=\s*('[^']*'|[^',)\s]+)\s*(?:,|\Z)")
_OLD_FLUSH = {
    "WITH_FLUSH_COUNT": "flush.count",
    "WITH_FLUSH_SIZE": "flush.size",
    "WITH_FLUSH_INTERVAL": "flush.interval",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """``INSERT INTO bucket:prefix SELECT * FROM topic …``; topic ``*`` means every one."""

    bucket: str
    prefix: str
    topic: str
    store_as: str = "JSON"
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def parse_kcql(text: str) -> Statement:
    """Read one statement; UsageError names what is not known here."""
    whole = text.strip().rstrip(";").strip()
    if ";" in re.sub(r"['`][^'`]*['`]", "", whole):
        raise UsageError("there are several statements; one bucket and prefix can be had")
    match = _HEAD.fullmatch(whole)
    if match is None:
        raise UsageError("not INSERT INTO bucket:prefix SELECT * FROM topic STOREAS …")
    target, selected, topic, rest = match.groups()
    if selected.strip() != "*":
        raise UsageError(f"SELECT {selected.strip()}: whole values can be had alone, SELECT *")
    bucket, _, prefix = _bare(target).partition(":")
    return Statement(
        bucket=bucket, prefix=prefix.strip("/"), topic=_bare(topic), **_clauses(rest or "")
    )


def _clauses(rest: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    properties: dict[str, str] = {}
    marks = _marks(rest)
    if (rest[: marks[0].start()] if marks else rest).strip():
        raise UsageError(f"{rest.split(maxsplit=1)[0]} is not known in KCQL here")
    ends = [*(mark.start() for mark in marks[1:]), len(rest)]
    for mark, end in zip(marks, ends, strict=False):
        word = mark[1].upper()
        body = rest[mark.end() : end].strip()
        if word == "STOREAS":
            found["store_as"] = _bare(body).upper()
        elif word == "PARTITIONBY":
            found["partition_by"] = tuple(_bare(name) for name in body.strip("()").split(","))
        elif word == "PROPERTIES":
            properties |= _properties(body)
        elif word in _OLD_FLUSH:
            properties[_OLD_FLUSH[word]] = body.lstrip("=").strip()
        else:
            raise UsageError(f"{word} is not known here")
    return {**found, "properties": properties}


def _marks(rest: str) -> list[re.Match[str]]:
    """Return the words that begin clauses: those with an even number of quotes behind them."""
    marks: list[re.Match[str]] = []
    is_quoted = False
    for found in reversed(list(_CLAUSES.finditer(rest))):
        if found[1] is None:
            is_quoted = not is_quoted
        elif not is_quoted:
            marks.append(found)
    return marks[::-1]


def _properties(body: str) -> dict[str, str]:
    if not (body.startswith("(") and body.endswith(")")):
        raise UsageError("PROPERTIES must be ('name'=value, …)")
    inner, found, at = body[1:-1].strip(), {}, 0
    while at < len(inner):
        match = _PROPERTY.match(inner, at)
        if match is None:
            raise UsageError(f"PROPERTIES: {inner[at:]!r} is not 'name'=value")
        found[match[1]] = match[2].strip("'")
        at = match.end()
    return found


def _bare(word: str) -> str:
    return word.strip().strip("`").strip()
