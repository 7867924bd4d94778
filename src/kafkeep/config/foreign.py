"""Objects that Confluent's sink wrote and no log names: how they were written, what they become.

The keys are Connect's. Those of the layout and the formats say how objects are found and read;
converters, transforms and ``timestamp.field`` what records are made of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from kafkeep.config.choose import did_you_mean
from kafkeep.config.converters import ConverterOptions, Role, parse_converter
from kafkeep.config.formats import FormatKind, FormatOptions
from kafkeep.config.group import ConfigErrors, parse_group
from kafkeep.config.sink import NamingOptions, NullOptions, RotateOptions
from kafkeep.config.transforms import TransformSpec, parse_transforms
from kafkeep.errors import UsageError

T = TypeVar("T")

TOMBSTONES = "tombstone"
"""Confluent's folder for them, unless told otherwise."""
EXTRACTORS = ("Wallclock", "Record", "RecordField")
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
    "timestamp.extractor",
    "timestamp.field",
)
"""What matters beside converters and transforms."""
_ROUTERS = ("RegexRouter", "TimestampRouter")
_ROLES: tuple[Role, ...] = ("key", "value", "header")


@dataclass(frozen=True)
class ForeignOptions:
    """Read from a flat map of texts; travels to tasks, secrets of converters included."""

    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    targets: Mapping[str, str] = field(default_factory=dict)
    """The topics' new names, where they have others: schemas are registered under these."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, strict: bool = True) -> ForeignOptions:
        """Take what matters here; ConfigErrors names everything that is wrong at once.

        With ``strict`` a key that says nothing about reading is an error, without it is left.
        """
        wrong: dict[str, str] = {}
        for key in given if strict else ():
            if not is_read_key(key):
                near = did_you_mean(key, READ_KEYS)
                wrong[key] = "says nothing about reading" + (f". {near}" if near else "")
        found = cls({key: text for key, text in given.items() if is_read_key(key)})
        for look in ("naming", "nulls", "rotate", "format", "converters", "transforms"):
            try:
                getattr(found, look)
            except ConfigErrors as error:
                wrong |= error.by_key
            except UsageError as error:
                wrong[look] = error.message
        try:
            found.time_field  # noqa: B018 - looked at for its errors
        except UsageError as error:
            wrong["timestamp.extractor"] = error.message
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

    @property
    def kind(self) -> FormatKind | None:
        """The only format of values to read, if one is named."""
        return self.format.format_class if "format.class" in self.texts else None

    @property
    def tombstones(self) -> str:
        """The folder of tombstones."""
        return self.nulls.tombstone_encoded_partition or TOMBSTONES

    @cached_property
    def converters(self) -> Mapping[str, ConverterOptions]:
        """Those named, by ``key``, ``value`` and ``header``."""
        found = {role: parse_converter(role, self.texts) for role in _ROLES}
        return {role: told for role, told in found.items() if told is not None}

    @cached_property
    def transforms(self) -> tuple[TransformSpec, ...]:
        """What is done to records on their way back."""
        found = parse_transforms(self.texts)
        for spec in found:
            if spec.kind in _ROUTERS:
                raise ConfigErrors(
                    {f"transforms.{spec.alias}.type": "topics are renamed with topics=a:new-a"}
                )
        return found

    @property
    def drops_records(self) -> bool:
        """Whether fewer records may come out than rows go in."""
        return any(spec.kind == "Filter" for spec in self.transforms)

    @property
    def time_field(self) -> str | None:
        """The field of values that becomes the record's time, if one does."""
        name = self.texts.get("timestamp.extractor", "").strip()
        kind = next((one for one in EXTRACTORS if one.lower() == name.lower()), None)
        if name and kind is None and name.endswith("TimestampExtractor"):
            kind = name.rpartition("$")[2].removesuffix("TimestampExtractor")
        if name and kind not in EXTRACTORS:
            raise UsageError(f"{name!r} is none of {', '.join(EXTRACTORS)}")
        return self.texts.get("timestamp.field", "timestamp") if kind == "RecordField" else None

    def target(self, topic: str) -> str:
        """Return the name a topic is restored under."""
        return self.targets.get(topic, topic)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (ForeignOptions, (dict(self.texts), dict(self.targets)))


def is_read_key(key: str) -> bool:
    """Tell whether a key matters for reading objects and making records of them."""
    below = ("transforms.", "predicates.", *(f"{role}.converter." for role in _ROLES))
    exact = ("transforms", "predicates", *(f"{role}.converter" for role in _ROLES))
    return key in READ_KEYS or key in exact or key.startswith(below)


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
