"""The tags of data objects, as Connect's S3 sink sets them.

The files of a sink: when they are closed, what they are called, which lie beside each other.
"""

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
    """Make a parser for a number of ms; 0 and less is off, as for Confluent's sink."""

    def parse(text: str) -> int | None:
        bare = text.strip()
        return None if _NOT_POSITIVE.fullmatch(bare) else positive(what)(bare)

    return parse


def _or_any(what: str) -> Callable[[str], int | None]:
    """Make a parser for a positive number; -1 is no limit."""

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
        raise UsageError(f"{text!r} cannot stand in an object name")
    return text


def _folder(text: str) -> str:
    bare = text.strip().strip("/")
    if bare and not _is_key(f"{bare}/a"):
        raise UsageError(
            f"{text!r} is no folder for data: its parts are not empty, . or .., have no backslash "
            "or control character, and do not begin with _kafkeep, where the log is"
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
        "Close the files of a partition after this many records, over all of them.",
        default=None,
        parse=positive("flush.size"),
        metavar="COUNT",
    )
    flush_bytes: int = option(
        "flush.bytes",
        "Close the files of a partition after this many bytes of keys, values and headers.",
        default=128 * MIB,
        parse=above_zero(parse_size),
        metavar="SIZE",
    )
    rotate_interval_ms: int | None = option(
        "rotate.interval.ms",
        "Close the files when a record is this much later than their first one, with every "
        "partitioner; and by the clock when no record comes. 0 and less: off.",
        default=None,
        parse=_or_off("rotate.interval.ms"),
        metavar="MS",
    )
    rotate_schedule_interval_ms: int | None = option(
        "rotate.schedule.interval.ms",
        "Close the files at these steps of the clock, counted from midnight in timezone. 0 and "
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
        "Close the files of a partition when so many directories have one and a record goes to "
        "another. -1: any number; memory is bounded whatever their number.",
        default=None,
        parse=_or_any("partitioner.max.open.files"),
        metavar="COUNT",
    )
    schema_compatibility: str = option(
        "schema.compatibility",
        "NONE closes the files at every change of the schema; BACKWARD and FULL only for newer "
        "ones, FORWARD for older ones, and records are fitted to the file's schema.",
        default="NONE",
        parse=lambda text: one_of("schema.compatibility", "NONE", "BACKWARD", "FORWARD", "FULL")(
            text.upper()
        ),
    )


@dataclass(frozen=True, kw_only=True)
class NamingOptions:
    """What objects are called, and which lie beside the values."""

    topics_dir: str = option(
        "topics.dir", "Folder above the topics; empty for none.", default="topics", parse=_folder
    )
    directory_delim: str = option(
        "directory.delim", "What stands between folders.", default="/", parse=_delimiter
    )
    file_delim: str = option(
        "file.delim",
        "What stands between topic, partition and offset.",
        default="+",
        parse=_delimiter,
    )
    pad_width: int = option(
        "filename.offset.zero.pad.width",
        "Digits of the offset in names, at least.",
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
        "Names under topics.dir as a template, in place of Confluent's: {{topic}}, {{partition}}, "
        "{{start_offset}} or {{last_offset}} (each but topic with :padding=true or a number of "
        "digits), {{first_timestamp}}, {{last_timestamp}}, {{path}} (the partitioner's directory; "
        "{{path:0}} its first part), {{extension}}, {{incarnation}} (~2 and so on of a topic that "
        "was re-created or is archived anew; without it that stands behind the first {{topic}}).",
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
                {"object.name.template": "needs {{extension}}, which tells keys from values"}
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
            f"{len(found)} tags, but beside those of offsets there is room for {_MAX_PAIRS}"
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
