"""A whole connector configuration, read key by key; every error is told at once.

Every key is honoured, holds anyway, is refused with the reason, or is unknown: there is no fifth
way. What shapes objects goes on as texts (``shape``), so that it can stand in the log and travel to
tasks; what nobody may see goes apart (``secrets``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from kafkeep.config.connector_file import ConnectorDocument, read_connector_file, to_texts
from kafkeep.config.connector_keys import (
    CONFLUENT,
    DECLARED,
    DEFAULT_CONVERTERS,
    FAMILIES,
    OURS,
    PRESETS,
    ROLES,
    ConnectorOptions,
    is_secret,
    is_shape_key,
    means_something,
    say_unknown,
)
from kafkeep.config.consumer import ConsumerOptions
from kafkeep.config.converters import ConverterClass, Role, parse_role_class, unknown_subkeys
from kafkeep.config.formats import FormatOptions
from kafkeep.config.group import ConfigErrors, parse_group
from kafkeep.config.s3 import S3Options
from kafkeep.config.sink import SinkOptions
from kafkeep.config.standing import standing_key
from kafkeep.config.storage import ArchiveAddress, StorageOptions
from kafkeep.config.transforms import known_transform_keys
from kafkeep.errors import UsageError

__all__ = ["ConnectorConfig", "ConnectorDocument", "is_secret", "read_connector_file"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ConnectorConfig:
    """A configuration that holds together.

    ``format`` is ``segment``, with an empty ``shape``, or what ``format.class`` means. ``shape``
    and ``secrets`` together are what ``SinkOptions.parse`` reads. ``kafka`` are client properties.
    ``unknown`` keys were left out; ``notes`` are for people.
    """

    name: str
    connector_class: str
    family: str
    topics: tuple[str, ...]
    topics_regex: str | None
    tasks_max: int | None
    archive: str
    storage: StorageOptions
    isolation_level: str
    auto_offset_reset: str
    format: str
    shape: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    kafka: Mapping[str, str] = field(repr=False)
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_map(
        cls,
        given: Mapping[str, Any],
        *,
        name: str | None = None,
        archive: str | None = None,
        strict: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> ConnectorConfig:
        """Read a flat map; ConfigErrors has everything that is wrong, by key.

        ``archive`` is used in place of the bucket. With ``strict`` an unknown key is an error;
        without it is only named in ``unknown``. What S3 needs and is not set comes from
        ``environ``.
        """
        texts = to_texts(given)
        if name is not None:
            texts["name"] = name
        return _Reader(texts, archive, strict, environ).read()


class _Reader:
    def __init__(
        self,
        texts: dict[str, str],
        archive: str | None,
        strict: bool,
        environ: Mapping[str, str] | None,
    ) -> None:
        self._texts = texts
        self._archive = archive
        self._strict = strict
        self._environ = environ
        self._wrong: dict[str, str] = {}

    def read(self) -> ConnectorConfig:
        common = self._try(parse_group, ConnectorOptions, self._texts)
        family = FAMILIES.get(self._texts.get("connector.class", OURS).strip(), "kafkeep")
        s3 = self._try(parse_group, S3Options, self._texts)
        consumer = self._try(ConsumerOptions.parse, self._texts)
        self._check_standing()
        unknown = self._unknown(family)
        shape = self._shape(family, unknown)
        sink = self._sink(family, shape)
        self._check_topics()
        if family == "confluent":
            self._check_confluent(sink)
        address = self._address(s3)
        storage = self._storage(s3, "us-west-2" if family == "confluent" else None)
        if self._wrong or not (common and s3 and consumer and storage):
            raise ConfigErrors(self._wrong)
        secrets = {key: text for key, text in shape.items() if is_secret(key, text)}
        return ConnectorConfig(
            **vars(common),
            family=family,
            archive=address,
            storage=storage,
            isolation_level=consumer.isolation_level,
            auto_offset_reset=consumer.auto_offset_reset,
            format="segment" if sink is None else sink.format.format_class.value,
            shape={key: text for key, text in shape.items() if key not in secrets},
            secrets=secrets,
            kafka=consumer.kafka,
            unknown=tuple(unknown),
            notes=s3.notes(),
        )

    def _try(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return read(*args, **kwargs)
        except ConfigErrors as error:
            for key, why in error.by_key.items():
                self._wrong.setdefault(key, why)
        return None

    def _check_standing(self) -> None:
        for key, text in self._texts.items():
            found = standing_key(key) if key not in DECLARED else None
            try:
                if found is not None:
                    found.check(text)
            except UsageError as error:
                self._wrong[key] = error.message

    def _unknown(self, family: str) -> dict[str, None]:
        transforms = known_transform_keys(self._texts)
        strangers = {key for role in ROLES for key in self._strange_subkeys(role)}
        unknown: dict[str, None] = {}
        for key in self._texts:
            below = key.startswith(tuple(f"{role}.converter." for role in ROLES))
            known = key not in strangers if below else means_something(key, family)
            if not known and key not in transforms:
                unknown[key] = None
                if self._strict:
                    self._wrong.setdefault(key, say_unknown(key, self._texts))
        return unknown

    def _strange_subkeys(self, role: Role) -> tuple[str, ...]:
        name = f"{role}.converter"
        if name in self._texts and self._try(parse_role_class, role, self._texts[name]) is None:
            return ()
        return unknown_subkeys(role, self._texts)

    def _shape(self, family: str, unknown: Iterable[str]) -> dict[str, str]:
        apart = set(unknown)
        shape = {k: v for k, v in self._texts.items() if is_shape_key(k) and k not in apart}
        shape = {**PRESETS.get(family, {}), **shape}
        kind = _format_name(shape.get("format.class", ""))
        if "value.converter" not in shape:
            shape = {**DEFAULT_CONVERTERS.get(kind, {}), **shape}
        if kind == "bytes" and _has_sinetstream_objects(shape):
            shape = {"format.bytearray.separator": "", **shape}
        return shape

    def _sink(self, family: str, shape: Mapping[str, str]) -> SinkOptions | None:
        if "format.class" not in shape and family != "confluent":
            for key in shape:
                self._wrong.setdefault(
                    key, "says how records are turned into files, but format.class is not set"
                )
            return None
        sink = self._try(SinkOptions.parse, shape)
        if sink is not None:
            naming = sink.naming
            self._try(
                sink.format.check_compression,
                keys=naming.store_kafka_keys,
                headers=naming.store_kafka_headers,
            )
        return sink

    def _check_topics(self) -> None:
        if self._texts.get("topics", "").strip() and self._texts.get("topics.regex", "").strip():
            self._wrong["topics.regex"] = "topics are given by list already: use one of the two"
        if not (self._texts.get("topics") or self._texts.get("topics.regex", "")).strip():
            self._wrong.setdefault("topics", "missing: give topics or topics.regex")

    def _check_confluent(self, sink: SinkOptions | None) -> None:
        if "flush.size" not in self._texts:
            self._wrong["flush.size"] = f"missing: {CONFLUENT} has no default for it"
        if sink is None or sink.has_envelope:
            return
        writes = sink.nulls.behavior_on_null_values == "write"
        if writes and not sink.naming.store_kafka_keys:
            self._wrong["store.kafka.keys"] = "must be true to write records without a value"

    def _address(self, s3: S3Options | None) -> str:
        if self._archive is not None:
            return str(ArchiveAddress.parse(self._archive))
        bucket = s3.s3_bucket_name if s3 else None
        if s3 is not None and bucket is None:
            self._wrong["s3.bucket.name"] = "missing: it says where the archive is"
        try:
            return str(ArchiveAddress.parse(f"s3://{bucket}")) if bucket else ""
        except UsageError as error:
            self._wrong["s3.bucket.name"] = error.message
            return ""

    def _storage(self, s3: S3Options | None, region: str | None) -> StorageOptions | None:
        try:
            return s3.to_storage(self._environ, default_region=region) if s3 else None
        except UsageError as error:
            self._wrong["store.url"] = error.message
            return None


def _format_name(text: str) -> str:
    try:
        return parse_group(FormatOptions, {"format.class": text}).format_class.value
    except UsageError:
        return ""


def _has_sinetstream_objects(shape: Mapping[str, str]) -> bool:
    """Tell whether each object is one SINETStream payload, which a separator would change."""
    name = shape.get("value.converter", "").strip().rpartition(".")[2]
    alone = shape.get("flush.size", "").strip() == "1"
    return alone and name == ConverterClass.SINETSTREAM.value.rpartition(".")[2]
