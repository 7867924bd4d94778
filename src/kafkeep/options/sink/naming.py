"""Options for the names of a sink's objects, and for their tags.

A name is a template: ``{{topic}}/{{partition}}/{{topic}}-{{start_offset}}{{extension}}``. Sinks of
other makers have their own object names; each is a template here. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kafkeep.archive.names import check_key
from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, did_you_mean, number, option

OFFSETS = ("start_offset", "last_offset")
_PADDED = {"partition": 10, "start_offset": 20, "last_offset": 20}
"""The number of digits of ``padding=true``."""
_PLAIN = ("topic", "extension", "first_timestamp", "last_timestamp", "path", "incarnation")
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*(?::\s*(\w+)\s*(?:=\s*(\w+)\s*)?)?\}\}")
_MAX_PAD = 100


def _delimiter(text: str) -> str:
    if not text or not text.isascii() or not _is_key(f"a{text}b"):
        raise UsageError(f"{text!r} cannot be part of an object name")
    return text


def _folder(text: str) -> str:
    bare = text.strip().strip("/")
    if bare and not _is_key(f"{bare}/a"):
        raise UsageError(
            f"{text!r} is not a valid folder: a part must not be empty, . or .., contain a "
            "backslash or a control character, or begin with _kafkeep, where the log is"
        )
    return bare


def _is_key(text: str) -> bool:
    try:
        return bool(check_key(text))
    except ValueError:
        return False


def _name_template(text: str) -> str | None:
    if not text.strip():
        return None
    parse_name_template(text.strip())
    return text.strip()


@dataclass(frozen=True, kw_only=True)
class NamingOptions:
    """The names of objects, and which objects are stored beside the values."""

    topics_dir: str = option(
        "topics.dir",
        "Folder that holds the topics; empty for none.",
        default="topics",
        parse=_folder,
    )
    directory_delim: str = option(
        "directory.delim", "Delimiter between folders.", default="/", parse=_delimiter
    )
    file_delim: str = option(
        "file.delim",
        "Delimiter between topic, partition and offset.",
        default="+",
        parse=_delimiter,
    )
    pad_width: int = option(
        "filename.offset.zero.pad.width",
        "Minimum number of digits of the offset in names.",
        default=10,
        parse=number(0, 100),
    )
    store_kafka_keys: bool = option(
        "store.kafka.keys", "Write keys to .keys objects beside the values.", default=False
    )
    store_kafka_headers: bool = option(
        "store.kafka.headers", "Write headers to .headers objects beside the values.", default=False
    )
    name_template: str | None = option(
        "object.name.template",
        "Template of object names under topics.dir, instead of Confluent's names: {{topic}}, "
        "{{partition}}, {{start_offset}}, {{last_offset}} (all but topic take :padding=true or "
        ":padding=N), {{first_timestamp}}, {{last_timestamp}}, {{path}} (the directory of the "
        "partitioner; {{path:0}} is its first part), {{extension}}, {{incarnation}} (~2 and so on "
        "for a topic that was re-created or is archived again; default: after the first "
        "{{topic}}).",
        default=None,
        parse=_name_template,
        metavar="TEMPLATE",
    )

    def __post_init__(self) -> None:
        template = self.name_template
        if template is None or has_variable(template, "extension"):
            return
        if self.store_kafka_keys or self.store_kafka_headers:
            raise ConfigErrors(
                {"object.name.template": "needs {{extension}} to distinguish keys from values"}
            )


_PAIR = re.compile(r"[\w .:/=+@-]{1,128}:[\w ./=+@-]{0,256}")
_OFFSET_TAGS = ("startOffset", "endOffset", "recordCount")
_MAX_PAIRS = 10 - len(_OFFSET_TAGS)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [part.strip() for part in text.split(",") if part.strip()]
    for pair in pairs:
        if not _PAIR.fullmatch(pair):
            raise UsageError(f"{pair!r} is not a tag; write name:value,name:value")
    found = dict(pair.rsplit(":", 1) for pair in pairs)
    if taken := [name for name in _OFFSET_TAGS if name in found]:
        raise UsageError(f"{taken[0]} is set by kafkeep itself")
    if len(found) > _MAX_PAIRS:
        raise UsageError(
            f"{len(found)} tags are too many: at most {_MAX_PAIRS} fit beside those of offsets"
        )
    return tuple(found.items())


@dataclass(frozen=True, kw_only=True)
class TagOptions:
    """The tags of data objects."""

    s3_object_tagging: bool = option(
        "s3.object.tagging",
        "Tag each data object with startOffset, endOffset (its last one) and recordCount.",
        default=False,
    )
    s3_object_tagging_key_value_pairs: tuple[tuple[str, str], ...] = option(
        "s3.object.tagging.key.value.pairs",
        "More tags for each data object: name:value,name:value.",
        default=(),
        parse=_pairs,
        metavar="NAME:VALUE,…",
    )

    def object_tags(self, *, start: int, end: int, records: int) -> dict[str, str] | None:
        """Return the tags of an object that holds ``[start, end)``; None if there are none."""
        if not self.s3_object_tagging:
            return None
        counted = (start, end - 1, records)
        own = dict(zip(_OFFSET_TAGS, map(str, counted), strict=True))
        return {**dict(self.s3_object_tagging_key_value_pairs), **own}


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
