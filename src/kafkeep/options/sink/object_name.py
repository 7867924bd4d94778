"""Object names as templates: ``{{topic}}/{{partition}}/{{topic}}-{{start_offset}}{{extension}}``.

Sinks of other makers have their own object names; each is a template here. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kafkeep.errors import UsageError
from kafkeep.options.option import did_you_mean

OFFSETS = ("start_offset", "last_offset")
_PADDED = {"partition": 10, "start_offset": 20, "last_offset": 20}
"""The number of digits of ``padding=true``."""
_PLAIN = ("topic", "extension", "first_timestamp", "last_timestamp", "path", "incarnation")
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*(?::\s*(\w+)\s*(?:=\s*(\w+)\s*)?)?\}\}")
_MAX_PAD = 100


@dataclass(frozen=True, slots=True)
class Variable:
    """One ``{{name:pad}}``; ``pad`` is a number of digits or, for ``path``, the index of a part.

    ``path`` without an index is the whole directory of the partitioner.
    """

    name: str
    pad: int | None = None


@dataclass(frozen=True, slots=True)
class NameFacts:
    """The values of all variables of a name."""

    topic: str
    incarnation: int
    partition: int
    start_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    path: str
    extension: str


@lru_cache(maxsize=256)
def parse_name_template(text: str) -> tuple[str | Variable, ...]:
    """Parse a template; UsageError if objects could get the same name or an invalid one."""
    parts: list[str | Variable] = []
    end = 0
    for match in _VARIABLE.finditer(text):
        parts += [text[end : match.start()], _variable(match)]
        end = match.end()
    parts.append(text[end:])
    literal = "".join(part for part in parts if isinstance(part, str))
    if "{{" in literal or "}}" in literal:
        raise UsageError(f"{text!r} has an invalid variable or an unclosed bracket")
    if "\\" in literal or not literal.isprintable() or text.startswith("/") or "//" in text:
        raise UsageError(f"{text!r} is not a valid object name")
    names = {part.name for part in parts if isinstance(part, Variable)}
    for wanted in ({"topic"}, {"partition"}, set(OFFSETS)):
        if not wanted & names:
            missing = " or ".join(f"{{{{{name}}}}}" for name in sorted(wanted))
            raise UsageError(f"{missing} is missing: objects would get the same name")
    return tuple(part for part in parts if part != "")


def has_variable(text: str, name: str) -> bool:
    """Return whether a template has this variable."""
    return any(isinstance(p, Variable) and p.name == name for p in parse_name_template(text))


def format_name(template: str, facts: NameFacts, *, extra: int = 0) -> str:
    """Return the name of an object; ``extra`` zeros before its offset avoid a taken name.

    A topic that was re-created, or is archived again, gets ``~2`` at ``{{incarnation}}``, or else
    after the first ``{{topic}}``. ValueError if the directory lacks a part that the template names.
    """
    texts: list[str] = []
    seen_topic = has_variable(template, "incarnation")
    for part in parse_name_template(template):
        if isinstance(part, str):
            texts.append(part)
            continue
        texts.append(_format(part, facts, extra))
        if part.name == "topic" and not seen_topic:
            seen_topic = True
            texts.append(_number(facts))
    return "".join(texts)


def _variable(match: re.Match[str]) -> Variable:
    name, parameter, value = match.groups()
    if name in _PADDED:
        return Variable(name, _pad(match[0], name, parameter, value))
    if name == "path" and parameter is not None and parameter.isdecimal() and value is None:
        return Variable(name, int(parameter))
    if name not in _PLAIN:
        known = [*_PADDED, *_PLAIN]
        raise UsageError(
            f"{match[0]} is not a variable; the variables are {', '.join(known)}",
            hint=did_you_mean(name, known),
        )
    if parameter is not None:
        raise UsageError(f"{name} does not take {parameter} in {match[0]}")
    return Variable(name)


def _pad(whole: str, name: str, parameter: str | None, value: str | None) -> int | None:
    if parameter is None or (parameter, value) == ("padding", "false"):
        return None
    if (parameter, value) == ("padding", "true"):
        return _PADDED[name]
    if parameter != "padding" or value is None or not value.isdecimal() or int(value) > _MAX_PAD:
        raise UsageError(f"{whole} has a parameter that is not padding=true, false or a number")
    return int(value)


def _format(part: Variable, facts: NameFacts, extra: int) -> str:
    if part.name in _PADDED:
        number = str(getattr(facts, part.name))
        if part.name in OFFSETS:
            return number.zfill(max(part.pad or 0, len(number)) + extra)
        return number.zfill(part.pad or 0)
    if part.name == "incarnation":
        return _number(facts)
    if part.name == "path" and part.pad is not None:
        return _part(facts.path, part.pad)
    return str(getattr(facts, part.name))


def _number(facts: NameFacts) -> str:
    return f"~{facts.incarnation}" if facts.incarnation > 1 else ""


def _part(path: str, number: int) -> str:
    parts = path.split("/")
    if number >= len(parts):
        raise ValueError(f"the directory {path!r} has no part {number}")
    return parts[number]
