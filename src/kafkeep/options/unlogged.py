"""Options to read a bucket without a log: how its objects were written, how records change.

The keys are Connect's. Those of the layout and the formats say how to find and read objects.
``ChangeOptions`` say how records change, as for records of a log.
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
from kafkeep.options.sink.files import NamingOptions, RotateOptions
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.options.sink.sink import NullOptions

TOMBSTONES = "tombstone"
"""Confluent's folder for them, unless told otherwise."""
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
"""What matters beside converters and transforms."""
GENERIC = "GENERIC"
MODE, TOPIC_REGEXES = "mode", "topic.regex.list"
_OF_A_SOURCE = (MODE, TOPIC_REGEXES)
"""What a source alone may be told: objects of any name are only followed."""


@dataclass(frozen=True)
class UnloggedOptions(ChangeOptions):
    """Read from a flat map of texts; travels to tasks, secrets of converters included."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, strict: bool = True) -> UnloggedOptions:
        """Take what matters here; ConfigErrors names everything that is wrong at once.

        With ``strict`` a key that says nothing about reading is an error, without it is left.
        """
        wrong: dict[str, str] = {}
        for key in given if strict else ():
            if not is_read_key(key):
                near = did_you_mean(key, READ_KEYS)
                wrong[key] = "says nothing about reading" + (f". {near}" if near else "")
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
        """What objects are called."""
        return parse_group(NamingOptions, self.texts)

    @cached_property
    def nulls(self) -> NullOptions:
        """Where tombstones lie."""
        return parse_group(NullOptions, self.texts)

    @cached_property
    def rotate(self) -> RotateOptions:
        """When files were closed."""
        return parse_group(RotateOptions, self.texts)

    @cached_property
    def format(self) -> FormatOptions:
        """How rows are read; the format of each object is told by its name."""
        return parse_group(FormatOptions, {"format.class": "json", **self.texts})

    @cached_property
    def generic(self) -> tuple[tuple[str, JavaPattern], ...] | None:
        """Topics and which keys are theirs, where objects have any name; else None."""
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
    """Read ``topic:regex,topic:regex``; a topic may be named for several."""
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


def changes_of_log(told: UnloggedOptions | None, where: str) -> ChangeOptions | None:
    """Return what is to be done to records of a log; UsageError for what the log says itself.

    Converters say how records are read and written that transforms change; without one they would
    change nothing, and are refused.
    """
    if told is None or not told.texts:
        return None
    for key in told.texts:
        if not is_change_key(key) or key.startswith("header.converter"):
            raise UsageError(
                f"{key}: {where} has a log, which says how its objects were made",
                hint="Records of a log can be changed with transforms, and with key.converter and "
                "value.converter to read and write them.",
            )
    changes = ChangeOptions.of(told.texts)
    if changes.converters and not changes.transforms:
        role = next(iter(changes.converters))
        raise UsageError(
            f"{role}.converter changes nothing without transforms: records of a log come back "
            "with the bytes they had",
            hint="Leave it out, or add transforms.",
        )
    if "timestamp.extractor" in told.texts and changes.time_field is None:
        raise UsageError(
            "timestamp.extractor: records of a log come back with the times they had",
            hint="Where its objects do not hold them, RecordField takes them from a field.",
        )
    if not changes.active:
        raise UsageError(f"{next(iter(told.texts))} changes nothing without transforms")
    return changes


def layout_of_sink(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a sink's own configuration tells of its objects: not what it did to records.

    Its transforms were done already, and the field that decided about directories is not
    necessarily the record's time.
    """
    return {
        key: text
        for key, text in given.items()
        if is_read_key(key) and not key.startswith(("transforms", "predicates", "timestamp."))
    }
