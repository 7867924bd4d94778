"""The options of transforms and predicates: Apache Kafka's, SINETStream's and kafkeep's own.

Paths to fields have the two syntaxes of Connect (``field.syntax.version``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkeep.errors import UsageError
from kafkeep.options.java_regex import compile_java_regex, java_regex, parse_replacement
from kafkeep.options.option import ConfigErrors, one_of, option
from kafkeep.options.sink.date_patterns import date_pattern


def parse_field_path(text: str, version: str) -> tuple[str, ...]:
    """Return the names along the path to a field.

    In ``V1`` the whole text is the name of a top-level field. In ``V2`` a dot separates names, and
    backticks enclose a name that contains dots: ```a.b`.c`` is ``("a.b", "c")``. A backtick ends
    such a name when a dot or the end follows it and no backslash precedes it.
    """
    if version == "V1":
        return (text,)
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            step, at = text[at:end], end + 1
        steps.append(step)
    if not steps or text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Parse the name in backticks at ``start``; return it and the position of the next name."""
    name = ""
    begin = at = start + 1
    while (at := text.find("`", at)) >= 0:
        escaped = text[at - 1] == "\\"
        ends = at == len(text) - 1 or text[at + 1] == "."
        if ends and not escaped:
            return name + text[begin:at], at + 2
        if ends and at < len(text) - 1:
            name += text[begin : at - 1] + "`"
            begin = at + 1
        at += 1
    raise UsageError(
        f"the backtick at position {start} of the path {text!r} is not closed; "
        "a backslash before a backtick makes it part of a name"
    )


CAST_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def _some(text: str) -> tuple[str, ...]:
    if not (found := _list(text)):
        raise UsageError("the list is empty")
    return found


def _not_empty(text: str) -> str:
    if not text:
        raise UsageError("must not be empty")
    return text


def _renames(text: str) -> tuple[tuple[str, str], ...]:
    pairs = tuple(tuple(part.split(":")) for part in _list(text))
    for pair in pairs:
        if len(pair) != 2 or not all(pair):
            raise UsageError(f"{':'.join(pair)!r} is not a rename; write old:new,old2:new2")
    return pairs  # type: ignore[return-value]


def _casts(text: str) -> tuple[tuple[str | None, str], ...]:
    """Parse ``field:type,…``, or one type for the whole value (its field is None)."""
    casts: list[tuple[str | None, str]] = []
    for part in _some(text):
        field, colon, kind = part.rpartition(":")
        if (kind := kind.strip().lower()) not in CAST_TYPES:
            raise UsageError(f"{kind!r} is not a type; use one of {', '.join(CAST_TYPES)}")
        casts.append((field.strip() if colon else None, kind))
    if len(casts) > 1 and any(field is None for field, _ in casts):
        raise UsageError("a type without a field casts the whole value: it must be the only one")
    return tuple(casts)


def _syntax(text: str) -> str:
    return one_of("field.syntax.version", "V1", "V2")(text.upper())


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()) or not -(2**31) <= int(text) < 2**31:
        raise UsageError(f"{text!r} is not a whole number of 32 bits")
    return int(text)


def _optional(name: str, help: str, parse: Callable[[str], Any] | None = None) -> Any:
    return option(name, help, default=None, parse=parse)


def _null_option() -> Any:
    return option(
        "replace.null.with.default",
        "Replace a null field by the default of its schema.",
        default=True,
    )


@dataclass(frozen=True, kw_only=True)
class InsertFieldOptions:
    """Names end in ``!`` for a required field, in ``?`` (or neither) for an optional one."""

    topic_field: str | None = _optional("topic.field", "Field for the topic.")
    partition_field: str | None = _optional("partition.field", "Field for the partition.")
    offset_field: str | None = _optional("offset.field", "Field for the offset.")
    timestamp_field: str | None = _optional("timestamp.field", "Field for the timestamp.")
    static_field: str | None = _optional("static.field", "Field for a fixed text.")
    static_value: str | None = _optional("static.value", "The fixed text.")
    replace_null_with_default: bool = _null_option()

    def __post_init__(self) -> None:
        metadata = (self.topic_field, self.partition_field, self.offset_field, self.timestamp_field)
        if all(field is None for field in (*metadata, self.static_field)):
            raise ConfigErrors({"type": "no field to insert is configured"})
        if self.static_field is not None and self.static_value is None:
            raise ConfigErrors({"static.value": f"missing: static.field is {self.static_field}"})
        if self.static_field is None and self.static_value is not None:
            raise ConfigErrors({"static.field": "missing: static.value is set"})


@dataclass(frozen=True, kw_only=True)
class ReplaceFieldOptions:
    """``exclude`` wins over ``include``; ``blacklist`` and ``whitelist`` are old names."""

    exclude: tuple[str, ...] = option("exclude", "Fields to drop.", default=(), parse=_list)
    include: tuple[str, ...] = option(
        "include", "Fields to keep. Default: all.", default=(), parse=_list
    )
    renames: tuple[tuple[str, str], ...] = option(
        "renames", "New names: old:new,old2:new2.", default=(), parse=_renames
    )
    blacklist: tuple[str, ...] = option(
        "blacklist", "Old name of exclude.", default=(), parse=_list
    )
    whitelist: tuple[str, ...] = option(
        "whitelist", "Old name of include.", default=(), parse=_list
    )
    replace_null_with_default: bool = _null_option()

    def __post_init__(self) -> None:
        if self.exclude and self.blacklist:
            raise ConfigErrors({"blacklist": "the old name of exclude, which is set as well"})
        if self.include and self.whitelist:
            raise ConfigErrors({"whitelist": "the old name of include, which is set as well"})


@dataclass(frozen=True, kw_only=True)
class MaskFieldOptions:
    """The fields to mask, and their replacement."""

    fields: tuple[str, ...] = option("fields", "Fields to mask.", parse=_some)
    replacement: str | None = _optional(
        "replacement",
        "Number or text to write instead of the value. Default: the zero of its type.",
        _not_empty,
    )
    replace_null_with_default: bool = _null_option()


@dataclass(frozen=True, kw_only=True)
class ValueToKeyOptions:
    """The fields of the value that become the key."""

    fields: tuple[str, ...] = option("fields", "Fields of the value.", parse=_some)
    replace_null_with_default: bool = _null_option()


@dataclass(frozen=True, kw_only=True)
class ExtractFieldOptions:
    """The field that replaces the whole value."""

    field: str = option("field", "The field.")
    field_syntax_version: str = option(
        "field.syntax.version", "V2 allows dots for nested fields.", default="V1", parse=_syntax
    )
    replace_null_with_default: bool = _null_option()

    def __post_init__(self) -> None:
        try:
            parse_field_path(self.field, self.field_syntax_version)
        except UsageError as error:
            raise ConfigErrors({"field": error.message}) from error


@dataclass(frozen=True, kw_only=True)
class HoistFieldOptions:
    """The one field of the new value."""

    field: str = option("field", "Name of the field.")


@dataclass(frozen=True, kw_only=True)
class FlattenOptions:
    """The delimiter between the names of nested fields."""

    delimiter: str = option("delimiter", "Delimiter between the names.", default=".")


@dataclass(frozen=True, kw_only=True)
class CastOptions:
    """The new types of fields."""

    spec: tuple[tuple[str | None, str], ...] = option(
        "spec", "field:type,field2:type2, or one type for the whole value.", parse=_casts
    )
    replace_null_with_default: bool = _null_option()


@dataclass(frozen=True, kw_only=True)
class TimestampConverterOptions:
    """The conversion of a time."""

    field: str = option("field", "The field; empty for the whole value.", default="")
    target_type: str = option(
        "target.type",
        "string, unix, Date, Time or Timestamp.",
        parse=one_of("target.type", "string", "unix", "Date", "Time", "Timestamp"),
    )
    format: str = option(
        "format", "Pattern of java.text.SimpleDateFormat.", default="", parse=date_pattern
    )
    unix_precision: str = option(
        "unix.precision",
        "Unit of unix times: seconds, milliseconds, microseconds or nanoseconds.",
        default="milliseconds",
        parse=one_of("unix.precision", "seconds", "milliseconds", "microseconds", "nanoseconds"),
    )
    replace_null_with_default: bool = _null_option()

    def __post_init__(self) -> None:
        if self.target_type == "string" and not self.format.strip():
            raise ConfigErrors({"format": "missing: target.type is string"})


@dataclass(frozen=True, kw_only=True)
class HeaderFromOptions:
    """The fields to copy or move into headers."""

    fields: tuple[str, ...] = option("fields", "Fields.", parse=_some)
    headers: tuple[str, ...] = option("headers", "Headers, in the same order.", parse=_some)
    operation: str = option("operation", "move or copy.", parse=one_of("operation", "move", "copy"))
    replace_null_with_default: bool = _null_option()

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.headers):
            raise ConfigErrors({"headers": "must be as many as fields"})


@dataclass(frozen=True, kw_only=True)
class InsertHeaderOptions:
    """The header to add to every record."""

    header: str = option("header", "Its name.")
    value_literal: str = option("value.literal", "Value of the header.")


@dataclass(frozen=True, kw_only=True)
class DropHeadersOptions:
    """The headers to remove."""

    headers: tuple[str, ...] = option("headers", "Names of the headers.", parse=_some)


@dataclass(frozen=True, kw_only=True)
class RegexRouterOptions:
    """The new name of topics that match."""

    regex: str = option("regex", "Regular expression, as in Java.", parse=java_regex)
    replacement: str = option("replacement", "The new name; $1 is the first group.")

    def __post_init__(self) -> None:
        try:
            parse_replacement(self.replacement, compile_java_regex(self.regex))
        except UsageError as error:
            raise ConfigErrors({"replacement": error.message}) from error


@dataclass(frozen=True, kw_only=True)
class TimestampRouterOptions:
    """The new names of topics, with a time."""

    topic_format: str = option(
        "topic.format", "Template with ${topic} and ${timestamp}.", default="${topic}-${timestamp}"
    )
    timestamp_format: str = option(
        "timestamp.format",
        "Pattern of java.text.SimpleDateFormat, in UTC.",
        default="yyyyMMdd",
        parse=date_pattern,
    )


@dataclass(frozen=True, kw_only=True)
class SetSchemaMetadataOptions:
    """The new name or version of the schema."""

    schema_name: str | None = _optional("schema.name", "The name.")
    schema_version: int | None = _optional("schema.version", "The version.", _integer)
    replace_null_with_default: bool = _null_option()

    def __post_init__(self) -> None:
        if self.schema_name is None and self.schema_version is None:
            raise ConfigErrors({"schema.name": "missing, and schema.version too"})


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """A class without options."""


@dataclass(frozen=True, kw_only=True)
class TopicNameMatchesOptions:
    """The topics whose records match."""

    pattern: str = option("pattern", "Regular expression for the whole name.", parse=java_regex)


@dataclass(frozen=True, kw_only=True)
class HasHeaderKeyOptions:
    """The header that matching records have."""

    name: str = option("name", "Name of the header.", parse=_not_empty)


def _csv_fields(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.lower().split(","))
    for name in found:
        one_of("field", "key", "value", "offset", "timestamp")(name)
    return found


@dataclass(frozen=True, kw_only=True)
class WholeOrFieldOptions:
    """The field that SINETStream's casts and JSON parser read."""

    field: str = option("field", "The field; empty for the whole value.", default="")


@dataclass(frozen=True, kw_only=True)
class CsvLineOptions:
    """The columns of a CSV line, in order."""

    fields: tuple[str, ...] = option(
        "fields",
        "key (in Base64), value, offset and timestamp (in ms).",
        default=("value",),
        parse=_csv_fields,
    )
    value_encoding: str = option(
        "value.encoding",
        "Encoding of values: base64, or none.",
        default="base64",
        parse=lambda text: one_of("value.encoding", "base64", "none")(text.strip().lower()),
    )
