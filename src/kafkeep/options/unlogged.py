"""Options to read a bucket without a log: the layout of its objects, and changes of records.

The keys are Connect's. The keys of the layout and the formats describe how to find and read
objects. ``ChangeOptions`` describe how records change, as for records of a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kafkeep.archive.names import topic_name
from kafkeep.errors import UsageError
from kafkeep.options.java_regex import JavaPattern, compile_java_regex
from kafkeep.options.option import ConfigErrors, did_you_mean, parse_group
from kafkeep.options.record_changes import TIME_KEYS, ChangeOptions, is_change_key
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.options.sink.naming import NamingOptions
from kafkeep.options.sink.rotation import RotateOptions
from kafkeep.options.sink.sink import NullOptions

TOMBSTONES = "tombstone"
"""Confluent's default folder for tombstones."""
READ_KEYS = (
    "topics.dir",
    "directory.delim",
    "file.delim",
    "tombstone.encoded.partition",
    "store.kafka.keys",
    "store.kafka.headers",
    "flush.size",
    "format.class",
    "format.bytearray.extension",
    "format.bytearray.separator",
    "enhanced.avro.schema.support",
    *TIME_KEYS,
)
"""The keys that apply, besides converters and transforms."""
GENERIC = "GENERIC"
MODE, TOPIC_REGEXES = "mode", "topic.regex.list"
_OF_A_SOURCE = (MODE, TOPIC_REGEXES)
"""Options of a source connector only: objects with arbitrary names can only be followed."""


@dataclass(frozen=True)
class UnloggedOptions(ChangeOptions):
    """Parsed from a flat map of texts. Pickled to tasks with the secrets of converters."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, strict: bool = True) -> UnloggedOptions:
        """Parse the keys about reading; ConfigErrors names all errors at once.

        With ``strict`` any other key is an error; without it, other keys are ignored.
        """
        wrong: dict[str, str] = {}
        for key in given if strict else ():
            if not is_read_key(key):
                near = did_you_mean(key, READ_KEYS)
                wrong[key] = "is not an option for reading" + (f". {near}" if near else "")
        also = _OF_A_SOURCE if not strict and _is_generic(given) else ()
        found = cls({key: text for key, text in given.items() if is_read_key(key) or key in also})
        for look in ("naming", "nulls", "rotate", "format"):
            try:
                getattr(found, look)
            except ConfigErrors as error:
                wrong |= error.by_key
            except UsageError as error:
                wrong[look] = error.message
        try:
            found.generic  # noqa: B018 - read for what it raises
        except UsageError as error:
            wrong[TOPIC_REGEXES] = error.message
        wrong |= found.mistakes()
        if wrong:
            raise ConfigErrors(wrong)
        return found

    @cached_property
    def naming(self) -> NamingOptions:
        """The names of objects."""
        return parse_group(NamingOptions, self.texts)

    @cached_property
    def nulls(self) -> NullOptions:
        """The folder and handling of tombstones."""
        return parse_group(NullOptions, self.texts)

    @cached_property
    def rotate(self) -> RotateOptions:
        """The rotation rules of the objects."""
        return parse_group(RotateOptions, self.texts)

    @cached_property
    def format(self) -> FormatOptions:
        """How rows are read. The name of each object determines its format."""
        return parse_group(FormatOptions, {"format.class": "json", **self.texts})

    @cached_property
    def generic(self) -> tuple[tuple[str, JavaPattern], ...] | None:
        """Topics and the patterns of their keys, for objects with arbitrary names; else None."""
        if not _is_generic(self.texts):
            return None
        return parse_topic_regexes(self.texts.get(TOPIC_REGEXES, ""))

    @property
    def kind(self) -> FormatKind | None:
        """The only format of values to read, if one is named."""
        return self.format.format_class if "format.class" in self.texts else None

    @property
    def tombstones(self) -> str:
        """The folder of tombstones."""
        return self.nulls.tombstone_encoded_partition or TOMBSTONES


def _is_generic(texts: Mapping[str, str]) -> bool:
    return texts.get(MODE, "").strip().upper() == GENERIC


def parse_topic_regexes(text: str) -> tuple[tuple[str, JavaPattern], ...]:
    """Parse ``topic:regex,topic:regex``; a topic may have several patterns."""
    found = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        topic, colon, pattern = one.partition(":")
        if not colon or not pattern:
            raise UsageError(f"{one!r} is not topic:regex")
        found.append((topic_name(topic), compile_java_regex(pattern)))
    if not found:
        raise UsageError("names no topic: write topic:regex,topic:regex")
    return tuple(found)


def is_read_key(key: str) -> bool:
    """Return whether a key is about reading objects or changing their records."""
    return key in READ_KEYS or is_change_key(key)


def changes_of_log(options: UnloggedOptions | None, where: str) -> ChangeOptions | None:
    """Return the changes of records of a log; UsageError for options that the log determines.

    Converters read and write the records that transforms change. Without transforms they have no
    effect and are refused.
    """
    if options is None or not options.texts:
        return None
    for key in options.texts:
        if not is_change_key(key) or key.startswith("header.converter"):
            raise UsageError(
                f"{key}: {where} has a log, which describes its objects",
                hint="Change records of a log with transforms, and set key.converter and "
                "value.converter to read and write them.",
            )
    changes = ChangeOptions.of(options.texts)
    if changes.converters and not changes.transforms:
        role = next(iter(changes.converters))
        raise UsageError(
            f"{role}.converter has no effect without transforms: records of a log are restored "
            "with their original bytes",
            hint="Leave it out, or add transforms.",
        )
    if "timestamp.extractor" in options.texts and changes.time_field is None:
        raise UsageError(
            "timestamp.extractor: records of a log are restored with their original timestamps",
            hint="Use RecordField if its objects do not hold timestamps.",
        )
    if not changes.active:
        raise UsageError(f"{next(iter(options.texts))} has no effect without transforms")
    return changes


def layout_of_sink(given: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a sink's configuration that describes its objects, without transforms.

    Its transforms were already applied, and the field that determined directories is not
    necessarily the timestamp of the record.
    """
    return {
        key: text
        for key, text in given.items()
        if is_read_key(key) and not key.startswith(("transforms", "predicates", "timestamp."))
    }
