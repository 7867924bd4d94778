"""Options of a sink's files: when they are closed, their names, and their tags."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kafkeep.archive.names import check_key
from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, number, one_of, option, positive
from kafkeep.options.sink.object_name import has_variable, parse_name_template
from kafkeep.options.units import above_zero, parse_size

MIB = 1024 * 1024
_NOT_POSITIVE = re.compile(r"-\d+|0+", re.ASCII)


def _or_off(what: str) -> Callable[[str], int | None]:
    """Make a parser for milliseconds; 0 or less means off, as in Confluent's sink."""

    def parse(text: str) -> int | None:
        bare = text.strip()
        return None if _NOT_POSITIVE.fullmatch(bare) else positive(what)(bare)

    return parse


def _or_any(what: str) -> Callable[[str], int | None]:
    """Make a parser for a positive number; -1 means no limit."""

    def parse(text: str) -> int | None:
        bare = text.strip()
        if _NOT_POSITIVE.fullmatch(bare) and bare != "-1":
            raise UsageError(
                f"{what} is {bare}", hint="Write a number above 0, or -1 for no limit."
            )
        return None if bare == "-1" else positive(what)(bare)

    return parse


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
class RotateOptions:
    """When files are closed."""

    flush_size: int | None = option(
        "flush.size",
        "Close the files of a partition when they hold this many records in total.",
        default=None,
        parse=positive("flush.size"),
        metavar="COUNT",
    )
    flush_bytes: int = option(
        "flush.bytes",
        "Close the files of a partition when they hold this many bytes of keys, values and "
        "headers.",
        default=128 * MIB,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    rotate_interval_ms: int | None = option(
        "rotate.interval.ms",
        "Close the files when the timestamp of a record is this much later than that of their "
        "first record, with every partitioner; if no record comes, by the clock. 0 or less: off.",
        default=None,
        parse=_or_off("rotate.interval.ms"),
        metavar="MS",
    )
    rotate_schedule_interval_ms: int | None = option(
        "rotate.schedule.interval.ms",
        "Close the files at this interval of the clock, counted from midnight in timezone. 0 or "
        "less: off.",
        default=None,
        parse=_or_off("rotate.schedule.interval.ms"),
        metavar="MS",
    )
    rotate_file_on_partition_change: bool = option(
        "rotate.file.on.partition.change",
        "With a time-based partitioner and rotate.interval.ms: close the files whenever the "
        "directory changes.",
        default=True,
    )
    partitioner_max_open_files: int | None = option(
        "partitioner.max.open.files",
        "Close the files of a partition when this many directories have an open file and a record "
        "belongs to another directory. -1: no limit; memory use is bounded in any case.",
        default=None,
        parse=_or_any("partitioner.max.open.files"),
        metavar="COUNT",
    )
    schema_compatibility: str = option(
        "schema.compatibility",
        "NONE closes the files at every change of the schema. BACKWARD and FULL close them for a "
        "newer schema, FORWARD for an older one; other records are projected to the schema of the "
        "file.",
        default="NONE",
        parse=lambda text: one_of("schema.compatibility", "NONE", "BACKWARD", "FORWARD", "FULL")(
            text.upper()
        ),
    )


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
        """Return the tags of an object that holds ``[start, end)``; None where there are none."""
        if not self.s3_object_tagging:
            return None
        counted = (start, end - 1, records)
        own = dict(zip(_OFFSET_TAGS, map(str, counted), strict=True))
        return {**dict(self.s3_object_tagging_key_value_pairs), **own}
