"""The options of a sink, under Connect's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, one_of, option, parse_group, positive
from kafkeep.options.sink.converters import ConverterClass, ConverterOptions, parse_converter
from kafkeep.options.sink.formats import FormatKind, FormatOptions
from kafkeep.options.sink.naming import NamingOptions, TagOptions
from kafkeep.options.sink.partitioners import PartitionOptions
from kafkeep.options.sink.rotation import RotateOptions
from kafkeep.options.sink.transforms import TransformSpec, parse_transforms


def _tombstone_folder(text: str) -> str:
    odd = "/" in text or "\\" in text or not text.isprintable()
    if not text or odd or text in (".", ".."):
        raise UsageError(f"{text!r} is not a folder name")
    return text


@dataclass(frozen=True, kw_only=True)
class NullOptions:
    """How to store records without a value (tombstones)."""

    behavior_on_null_values: str = option(
        "behavior.on.null.values",
        "What to do with records without a value: fail, ignore or write.",
        default="fail",
        parse=lambda text: one_of("behavior.on.null.values", "fail", "ignore", "write")(
            text.lower()
        ),
    )
    report_null_values_to_dlq: bool = option(
        "report.null.values.to.dlq",
        "With errors.tolerance=all: send ignored records without a value to the dead letter queue.",
        default=True,
    )
    tombstone_encoded_partition: str | None = option(
        "tombstone.encoded.partition",
        "Folder for tombstones, which hold keys only, as in Confluent's sink (where the default is "
        "'tombstone'). If not set, tombstones are stored with the values.",
        default=None,
        parse=_tombstone_folder,
    )


@dataclass(frozen=True, kw_only=True)
class ErrorOptions:
    """How to handle records that cannot be converted, transformed or partitioned."""

    errors_tolerance: str = option(
        "errors.tolerance",
        "none: a bad record stops the run. all: bad records are skipped, counted and reported.",
        default="none",
        parse=lambda text: one_of("errors.tolerance", "none", "all")(text.lower()),
    )
    errors_log_enable: bool = option(
        "errors.log.enable",
        "Log the position and the error of bad records: the first 50 of a partition in a cycle.",
        default=False,
    )
    errors_log_include_messages: bool = option(
        "errors.log.include.messages",
        "With errors.log.enable: also log the timestamp and the sizes of a bad record.",
        default=False,
    )
    dead_letter_topic: str = option(
        "errors.deadletterqueue.topic.name",
        "Topic of the dead letter queue; empty for none.",
        default="",
        parse=str.strip,
    )
    dead_letter_replication: int = option(
        "errors.deadletterqueue.topic.replication.factor",
        "Replication factor of that topic, if kafkeep creates it.",
        default=3,
        parse=positive("errors.deadletterqueue.topic.replication.factor"),
    )
    dead_letter_context: bool = option(
        "errors.deadletterqueue.context.headers.enable",
        "Add headers to dead letters that describe their origin and the error.",
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """All options of a sink, parsed from a flat map of texts."""

    format: FormatOptions
    key_converter: ConverterOptions | None
    value_converter: ConverterOptions | None
    header_converter: ConverterOptions | None
    partition: PartitionOptions
    rotate: RotateOptions
    naming: NamingOptions
    nulls: NullOptions
    errors: ErrorOptions
    tags: TagOptions
    transforms: tuple[TransformSpec, ...]

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Parse all groups; ConfigErrors names all errors at once."""
        parts: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for name, read in _PARTS.items():
            try:
                parts[name] = read(given)
            except ConfigErrors as error:
                wrong |= error.by_key
            except UsageError as error:
                wrong[name] = error.message
        if wrong:
            raise ConfigErrors(wrong)
        sink = cls(**parts)
        sink.check()
        return sink

    def check(self) -> None:
        """Raise ConfigErrors for options that contradict each other."""
        wrong: dict[str, str] = {}
        bytes_format = self.format.format_class is FormatKind.BYTES
        if self.nulls.behavior_on_null_values == "write" and not self.has_envelope:
            folder = self.nulls.tombstone_encoded_partition is not None
            if (folder or bytes_format) and not self.naming.store_kafka_keys:
                wrong["store.kafka.keys"] = (
                    "must be true to write tombstones, which consist of keys"
                )
            if bytes_format and not folder:
                wrong["tombstone.encoded.partition"] = (
                    "must be set: in the bytes format a tombstone looks like an empty value"
                )
        if self.format.store_envelope and self.value.kind is not ConverterClass.BYTES:
            wrong["store.envelope"] = "needs value.converter=ByteArrayConverter: it holds bytes"
        if self.naming.name_template and self.nulls.tombstone_encoded_partition is not None:
            wrong["tombstone.encoded.partition"] = "cannot be combined with object.name.template"
        if self.has_envelope and self.transforms:
            wrong["transforms"] = "cannot change whole records, which are stored as bytes"
        if wrong:
            raise ConfigErrors(wrong)

    @property
    def value(self) -> ConverterOptions:
        """The converter of values. Default: JSON for the JSON format, else bytes."""
        if self.value_converter is not None:
            return self.value_converter
        if self.format.format_class is FormatKind.JSON:
            return ConverterOptions("value", ConverterClass.JSON, {"schemas.enable": "false"})
        return ConverterOptions("value", ConverterClass.BYTES)

    @property
    def key(self) -> ConverterOptions:
        """The converter of keys. Default: bytes."""
        return self.key_converter or ConverterOptions("key", ConverterClass.BYTES)

    @property
    def has_envelope(self) -> bool:
        """True if each row is a whole Kafka record: if set, or for Parquet of plain bytes."""
        if self.format.store_envelope is not None:
            return self.format.store_envelope
        plain = self.value.kind is ConverterClass.BYTES
        return self.format.format_class is FormatKind.PARQUET and plain

    @property
    def places_by_key(self) -> bool:
        """True if directories depend on keys."""
        names = self.partition.partition_field_name if self.partition.is_field else ()
        return any(name.startswith("key:") for name in names)

    @property
    def has_schemas(self) -> bool:
        """True if values have schemas that may change."""
        kind, settings = self.value.kind, self.value.output
        if kind is ConverterClass.JSON:
            return settings.get("schemas.enable", "true").lower() == "true"
        return kind in (ConverterClass.AVRO, ConverterClass.JSON_SCHEMA, ConverterClass.PROTOBUF)

    @property
    def can_split(self) -> bool:
        """True if a partition may be split anywhere: no rotation rule needs earlier files."""
        rotate = self.rotate
        limits = (
            rotate.flush_size,
            rotate.rotate_interval_ms,
            rotate.partitioner_max_open_files,
        )
        return limits == (None, None, None)


_PARTS: Mapping[str, Callable[[Mapping[str, str]], Any]] = {
    "format": lambda given: parse_group(FormatOptions, given),
    "key_converter": lambda given: parse_converter("key", given),
    "value_converter": lambda given: parse_converter("value", given),
    "header_converter": lambda given: parse_converter("header", given),
    "partition": lambda given: parse_group(PartitionOptions, given),
    "rotate": lambda given: parse_group(RotateOptions, given),
    "naming": lambda given: parse_group(NamingOptions, given),
    "nulls": lambda given: parse_group(NullOptions, given),
    "errors": lambda given: parse_group(ErrorOptions, given),
    "tags": lambda given: parse_group(TagOptions, given),
    "transforms": parse_transforms,
}


@dataclass(frozen=True)
class SinkSpec:
    """The options of a sink as texts under Connect's names, parsed once.

    Intents keep ``texts``. ``secrets`` are the options that no log may hold.
    """

    texts: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @cached_property
    def options(self) -> SinkOptions:
        """The parsed options; ConfigErrors names all errors."""
        return SinkOptions.parse({**self.texts, **self.secrets})

    def __reduce__(self) -> tuple[type[SinkSpec], tuple[dict[str, str], dict[str, str]]]:
        """Pickle the texts; tasks parse them again."""
        return SinkSpec, (dict(self.texts), dict(self.secrets))
