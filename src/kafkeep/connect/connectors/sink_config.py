"""Parse the configuration of a sink connector; report all errors at once.

Every key is honoured, always on, refused with a reason, or unknown. The keys that describe the
objects form the ``SinkSpec``: it keeps them as texts, which the log stores and tasks receive.
Secret values are kept apart from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafkeep.connect.connectors.chtbd import CompactOptions, compact_options
from kafkeep.connect.connectors.config_reader import (
    ConfigReader,
    ConnectorDocument,
    read_connector_file,
    to_texts,
)
from kafkeep.connect.connectors.confluent import CONFLUENT
from kafkeep.connect.connectors.families import OURS, find_family
from kafkeep.connect.connectors.family import Family, TranslatedConfig
from kafkeep.connect.connectors.fixed_keys import FixedKey, fixed_key
from kafkeep.connect.connectors.s3_keys import S3Options, read_address, read_storage
from kafkeep.connect.connectors.sink_keys import (
    DECLARED,
    DEFAULT_CONVERTERS,
    OWN_CODECS,
    ROLES,
    ConnectorOptions,
    ConsumerOptions,
    format_name,
    has_sinetstream_objects,
    is_default,
    is_known_key,
    is_secret,
    is_spec_key,
    unknown_key_message,
)
from kafkeep.errors import UsageError
from kafkeep.options.backup import BackupOptions
from kafkeep.options.option import ConfigErrors, parse_group, parse_option
from kafkeep.options.sink.converters import Role, parse_role_class, unknown_subkeys
from kafkeep.options.sink.sink import SinkOptions, SinkSpec
from kafkeep.options.sink.transforms import known_transform_keys
from kafkeep.options.storage import ArchiveAddress, StorageOptions

__all__ = ["ConnectorConfig", "ConnectorDocument", "is_secret", "read_connector_file"]

_READ_APART = ("archive", "retention_days")


@dataclass(frozen=True, kw_only=True)
class ConnectorConfig:
    """The valid configuration of a sink.

    ``called`` is the connector's name and ``name`` that of its log. They differ if the connector's
    name has characters that a log's name cannot have. ``format`` is ``segment`` if there is no
    ``sink``, otherwise the format that ``format.class`` names. ``kafka`` are client properties.
    ``compact`` is set for a member of ch.tbd's pair. ``unknown`` keys are ignored. ``notes`` are
    warnings for the user.
    """

    name: str
    called: str
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
    sink: SinkSpec | None
    kafka: Mapping[str, str] = field(repr=False)
    retention_days: int | None = None
    retention_by_default: bool = False
    """True if the class sets the retention and not the user; a failure to set it is a warning."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Options of a backup that the configuration sets, by field name."""
    compact: CompactOptions | None = None
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def with_sink(self, options: BackupOptions) -> BackupOptions:
        """Return options of a backup that writes its objects as this connector does.

        Records that no rotation rule has closed wait for the next cycle, except if the backup does
        not follow its topics, or if the class is kafkeep's own.
        """
        options = replace(options, connector=self.called)
        if self.format == "segment":
            return options
        return replace(
            options,
            sink=self.sink,
            keeps_tail=options.follow and self.family != "kafkeep",
        )

    @classmethod
    def from_map(
        cls,
        given: Mapping[str, Any],
        *,
        name: str | None = None,
        archive: str | None = None,
        strict: bool = True,
        environ: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> ConnectorConfig:
        """Parse a flat map; ConfigErrors lists all errors by key.

        ``archive`` replaces the bucket. With ``strict`` an unknown key is an error; otherwise
        ``unknown`` lists it. ``environ`` supplies S3 settings that are not set. ``defaults`` are
        keys of the worker's file; its converters apply to roles without one.
        """
        texts = to_texts(given)
        if name is not None:
            texts["name"] = name
        return _SinkReader(texts, archive, strict, environ, defaults or {}).read()


class _SinkReader(ConfigReader):
    def __init__(
        self,
        texts: dict[str, str],
        archive: str | None,
        strict: bool,
        environ: Mapping[str, str] | None,
        defaults: Mapping[str, str],
    ) -> None:
        super().__init__(texts)
        self._archive = archive
        self._strict = strict
        self._environ = environ
        self._defaults = defaults

    def read(self) -> ConnectorConfig:
        self._family = self._find_family()
        meaning = self._try(self._family.translate, self._given, self._given.get("name", ""))
        self._meaning = meaning or TranslatedConfig()
        self._texts = self._with_defaults(self._meaning.over(self._given))
        common = self._try(parse_group, ConnectorOptions, self._texts)
        compact = self._try(compact_options, self._given)
        extra = self._extra()
        s3 = self._try(parse_group, S3Options, self._texts)
        consumer = self._try(ConsumerOptions.parse, self._texts)
        self._check_fixed_keys(self._fixed_key)
        unknown = self._unknown()
        spec = self._sink_spec(unknown)
        sink = self._sink(spec) if meaning is not None else None
        self._check_topics()
        if self._family.name == "confluent":
            self._check_confluent(sink)
        named = common.archive if common is not None else None
        if self._archive is not None:
            named = str(ArchiveAddress.parse(self._archive))
        known = s3 if meaning is not None else None
        address = read_address(named, known, self._meaning.prefix, self._wrong)
        storage = read_storage(s3, self._environ, self._family.region, self._wrong)
        retention = self._retention(common, sink, address, is_pair=compact is not None)
        if self._wrong or not (common and s3 and consumer and storage):
            raise ConfigErrors(self._meaning.by_given_key(self._wrong, self._given))
        return ConnectorConfig(
            **{key: value for key, value in vars(common).items() if key not in _READ_APART},
            **retention,
            **vars(consumer),
            called=self._given.get("name", common.name).strip(),
            family=self._family.name,
            archive=address,
            storage=storage,
            format="segment" if sink is None else sink.format.format_class.value,
            sink=None if sink is None else spec,
            extra=extra,
            compact=compact,
            unknown=tuple(unknown),
            notes=(*s3.notes(), *self._meaning.notes),
        )

    def _retention(
        self,
        common: ConnectorOptions | None,
        sink: SinkOptions | None,
        address: str,
        *,
        is_pair: bool,
    ) -> dict[str, Any]:
        days = common.retention_days if common is not None else None
        if days is None:
            return {}
        why = why_not_by_topic(sink, is_pair=is_pair)
        by_default = not any(key.startswith("s3.retention.") for key in self._given)
        if by_default and (why or not address.startswith("s3://")):
            return {}
        if why:
            self._wrong["s3.retention.days"] = why
        return {"retention_days": days, "retention_by_default": by_default}

    def _find_family(self) -> Family:
        name = self._given.get("connector.class", OURS).strip()
        try:
            return find_family(name, "sink")
        except UsageError:
            return find_family(OURS)  # ConnectorOptions reports the invalid name

    def _extra(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in self._family.extra:
            if one.name not in self._given:
                continue
            try:
                value = found[one.field] = parse_option(one, self._given[one.name])
                of_segments = one.name.startswith("segment.") and "format.class" in self._texts
                if of_segments and value != one.default:
                    self._wrong[one.name] = "is for segments, but format.class is set"
            except UsageError as error:
                self._wrong[one.name] = error.message
        return found

    def _with_defaults(self, texts: dict[str, str]) -> dict[str, str]:
        """Add the worker's consumer settings, and its converters for roles without one.

        Segments need no converters.
        """
        reading = {k: v for k, v in self._defaults.items() if k.startswith("consumer.override.")}
        texts = {**reading, **texts}
        if "format.class" not in texts:
            return texts
        for role in ROLES:
            name = f"{role}.converter"
            if name not in texts and name in self._defaults:
                below = {k: v for k, v in self._defaults.items() if k.startswith(f"{name}.")}
                texts = {name: self._defaults[name], **below, **texts}
        return texts

    def _fixed_key(self, key: str) -> FixedKey | None:
        if key in DECLARED or key in self._family.keys:
            return None
        return self._family.fixed_key(key) or fixed_key(key)

    def _unknown(self) -> dict[str, None]:
        transforms = known_transform_keys(self._texts)
        subkeys = {key for role in ROLES for key in self._unknown_subkeys(role)}
        unknown: dict[str, None] = {}
        for key in self._given:
            below = key.startswith(tuple(f"{role}.converter." for role in ROLES))
            below = below and fixed_key(key) is None
            known = key not in subkeys if below else is_known_key(key, self._family)
            if not known and key not in transforms:
                unknown[key] = None
                if self._strict:
                    self._wrong.setdefault(key, unknown_key_message(key, self._texts, self._family))
        return unknown

    def _unknown_subkeys(self, role: Role) -> tuple[str, ...]:
        name = f"{role}.converter"
        if name in self._texts and self._try(parse_role_class, role, self._texts[name]) is None:
            return ()
        return unknown_subkeys(role, self._texts)

    def _sink_spec(self, unknown: Iterable[str]) -> SinkSpec:
        apart = {*unknown, *(key for key in self._texts if fixed_key(key) is not None)}
        texts = {k: v for k, v in self._texts.items() if is_spec_key(k) and k not in apart}
        kind = format_name(texts.get("format.class", ""))
        if "value.converter" not in texts:
            texts = {**DEFAULT_CONVERTERS.get(kind, {}), **texts}
        if self._family.name == "kafkeep":
            texts = {**OWN_CODECS.get(kind, {}), **texts}
        if kind == "bytes" and has_sinetstream_objects(texts):
            texts = {"format.bytearray.separator": "", **texts}
        secrets = {key: text for key, text in texts.items() if is_secret(key, text)}
        return SinkSpec({k: v for k, v in texts.items() if k not in secrets}, secrets)

    def _sink(self, spec: SinkSpec) -> SinkOptions | None:
        if "format.class" not in spec.texts and self._family.name != "confluent":
            for key, text in {**spec.texts, **spec.secrets}.items():
                if is_default(key, text) or text == self._defaults.get(key):
                    continue
                self._wrong.setdefault(
                    key, "describes files of a format, but format.class is not set"
                )
            return None
        sink = self._try(lambda: spec.options)
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
            self._wrong["topics.regex"] = "topics is set too: use one of the two"
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


_ROUTERS = frozenset({"RegexRouter", "TimestampRouter"})


def why_not_by_topic(sink: SinkOptions | None, *, is_pair: bool) -> str | None:
    """Return why ``s3.retention.days`` is not possible; None if every topic has its own folder."""
    if is_pair:
        return "is not for a pair: its snapshots must not expire"
    if sink is None:
        return None
    naming = sink.naming
    if naming.directory_delim != "/":
        return f"needs directory.delim /, not {naming.directory_delim!r}"
    if naming.name_template is not None and not naming.name_template.startswith("{{topic}}/"):
        return f"needs a folder per topic: names like {naming.name_template} do not begin with one"
    for spec in sink.transforms:
        if spec.kind in _ROUTERS:
            return (
                f"needs a folder per topic, but {spec.kind} puts objects in folders of other topics"
            )
    return None
