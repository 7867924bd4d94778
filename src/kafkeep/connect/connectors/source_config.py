"""Parse the configuration of a source connector; report all errors at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafkeep.connect.connectors.config_reader import ConfigReader, to_texts
from kafkeep.connect.connectors.families import OUR_SOURCE, find_family, matches
from kafkeep.connect.connectors.family import TranslatedConfig
from kafkeep.connect.connectors.s3_keys import S3Options, read_address, read_storage
from kafkeep.connect.connectors.source_keys import (
    PRODUCER,
    RESTORE,
    ROLES,
    SourceOptions,
    is_client_key,
    is_known_source_key,
    restore_options,
    source_fixed_key,
    unknown_source_message,
)
from kafkeep.errors import UsageError
from kafkeep.options.kafka import parse_servers
from kafkeep.options.option import ConfigErrors, parse_group
from kafkeep.options.record_changes import TIME_KEYS, ChangeOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.sink.converters import ConverterClass, parse_role_class
from kafkeep.options.storage import StorageOptions
from kafkeep.options.unlogged import UnloggedOptions


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """The valid configuration of a source.

    ``called`` is the connector's name and ``name`` that of its state. They differ if the
    connector's name has characters that a log's name cannot have. ``restore`` selects the records
    and their target; ``restore.topics`` renames topics. ``instance`` is the log to read, None if
    the archive has only one. ``poll_interval_ms`` is None if the connector ends after one restore.
    ``kafka`` are client properties. ``unknown`` keys are ignored. ``notes`` are warnings for the
    user.
    """

    name: str
    called: str
    connector_class: str
    family: str
    tasks_max: int | None
    archive: str
    storage: StorageOptions
    restore: RestoreOptions
    poll_interval_ms: int | None
    instance: str | None
    converters: Mapping[str, ConverterClass]
    """The configured classes by role: ``key``, ``value``, ``header``."""
    kafka: Mapping[str, str] = field(repr=False)
    changes: ChangeOptions
    """Changes to the restored records: transforms and timestamps."""
    unlogged: UnloggedOptions | None = None
    """How to read a bucket without a log; None if the class cannot."""
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """Archived and new names of the topics; empty if all topics keep their names."""
        return self.restore.topics

    @classmethod
    def from_map(
        cls,
        given: Mapping[str, Any],
        *,
        name: str | None = None,
        strict: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> SourceConfig:
        """Parse a flat map; ConfigErrors lists all errors by key.

        With ``strict`` an unknown key is an error; otherwise ``unknown`` lists it. ``environ``
        supplies S3 settings that are not set.
        """
        texts = to_texts(given)
        if name is not None:
            texts["name"] = name
        return _SourceReader(texts, strict, environ).read()

    def changes_of(
        self, spec: Mapping[str, str], defaults: Mapping[str, str]
    ) -> ChangeOptions | None:
        """Return the changes to the records of a log; None if they are restored unchanged.

        ``spec`` are the texts of the log's sink spec, empty for segments. Transforms decode and
        encode records with the configured converters. Without them they use those of the log, or
        for segments those of the worker's ``defaults``.
        """
        texts = dict(self.changes.texts)
        if not self.changes.transforms:
            self.check_converters(spec)
            texts = {key: text for key, text in texts.items() if key in TIME_KEYS}
        elif not spec:
            texts = with_converters(texts, defaults)
        changes = ChangeOptions(texts)
        return changes if changes.active else None

    def check_converters(self, spec: Mapping[str, str]) -> None:
        """Raise UsageError if a converter differs from the one that wrote the objects.

        ``spec`` are the texts of the log's sink spec, empty for segments. A restore writes the
        original bytes, so another converter would have no effect.
        """
        for role, kind in self.converters.items():
            written = spec.get(f"{role}.converter")
            if written is None or kind in (ConverterClass.BYTES, ConverterClass.ALREADY_BYTES):
                continue
            if kind.value.rpartition(".")[2] != written.rpartition(".")[2]:
                raise UsageError(
                    f"{role}.converter is {kind.value}, but records were archived with {written}",
                    hint="A restore writes the original bytes: set the same class, or none.",
                )


def with_converters(texts: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Add the worker's converters where none is named."""
    found = dict(texts)
    for role in ROLES:
        name = f"{role}.converter"
        if name in defaults and name not in texts:
            found |= {k: v for k, v in defaults.items() if f"{k}.".startswith(f"{name}.")}
    return found


def _key_of(message: str) -> str:
    """Return the key of the flag that an error message of RestoreOptions begins with."""
    first = message.partition(" ")[0].rstrip(":").replace("-", ".")
    known = {one.name for one in restore_options()}
    return RESTORE + (first if first in known else "commit")


class _SourceReader(ConfigReader):
    def __init__(
        self, texts: dict[str, str], strict: bool, environ: Mapping[str, str] | None
    ) -> None:
        super().__init__(texts)
        self._strict = strict
        self._environ = environ

    def read(self) -> SourceConfig:
        name = self._given.get("connector.class", OUR_SOURCE).strip()
        try:
            self._family = find_family(name, "source")
        except UsageError as error:
            raise ConfigErrors({"connector.class": error.message}) from error
        meaning = self._try(self._family.translate, self._given, self._given.get("name", ""))
        self._meaning = meaning or TranslatedConfig()
        texts = self._meaning.over(self._given)
        self._check_fixed_keys(lambda key: source_fixed_key(key, self._family))
        unknown = self._unknown()
        options = self._try(parse_group, SourceOptions, texts)
        s3 = self._try(parse_group, S3Options, texts)
        restore = self._restore(texts, options)
        named = options.archive if options is not None else None
        known = s3 if meaning is not None else None
        archive = read_address(named, known, self._meaning.prefix, self._wrong)
        storage = read_storage(s3, self._environ, self._family.region, self._wrong)
        converters, kafka = self._converters(), self._kafka()
        unlogged = self._unlogged(texts)
        changes = unlogged or self._try(ChangeOptions.of, texts)
        if restore is not None and changes is not None and changes.transforms:
            self._check_together(restore, changes)
        if self._wrong or not (options and s3 and restore and storage and changes):
            raise ConfigErrors(self._meaning.by_given_key(self._wrong, self._given))
        return SourceConfig(
            name=options.name,
            called=self._given.get("name", options.name).strip(),
            connector_class=next(iter(matches(name)), name),
            family=self._family.name,
            tasks_max=options.tasks_max,
            archive=archive,
            storage=storage,
            restore=restore,
            poll_interval_ms=options.poll_interval_ms,
            instance=options.restore_log,
            converters=converters,
            kafka=kafka,
            changes=changes,
            unlogged=unlogged,
            unknown=unknown,
            notes=(*s3.notes(), *self._meaning.notes),
        )

    def _unknown(self) -> tuple[str, ...]:
        unknown = tuple(key for key in self._given if not is_known_source_key(key, self._family))
        if self._strict:
            for key in unknown:
                self._wrong.setdefault(key, unknown_source_message(key, self._family))
        return unknown

    def _restore(
        self, texts: Mapping[str, str], options: SourceOptions | None
    ) -> RestoreOptions | None:
        own = {
            one.name: texts[RESTORE + one.name]
            for one in restore_options()
            if RESTORE + one.name in texts
        }
        try:
            found = parse_group(RestoreOptions, own)
        except ConfigErrors as error:
            self._wrong |= {RESTORE + key: why for key, why in error.by_key.items()}
            return None
        except UsageError as error:
            self._wrong[_key_of(error.message)] = error.message
            return None
        try:
            if options is not None:
                found = replace(found, topics=options.topics, name=options.restore_log)
        except UsageError as error:
            self._wrong[RESTORE + "topics.regex"] = error.message
        return found

    def _check_together(self, restore: RestoreOptions, changes: ChangeOptions) -> None:
        try:
            replace(restore, changes=changes)
        except UsageError as error:
            self._wrong.setdefault("transforms", error.message)

    def _unlogged(self, texts: Mapping[str, str]) -> UnloggedOptions | None:
        if self._family.name not in ("confluent", "kafkeep"):
            return None
        return self._try(partial(UnloggedOptions.parse, strict=False), texts)

    def _converters(self) -> dict[str, ConverterClass]:
        found: dict[str, ConverterClass] = {}
        for role in ROLES:
            text = self._given.get(f"{role}.converter")
            if text is not None:
                kind = self._try(parse_role_class, role, text)  # type: ignore[arg-type]
                found |= {role: kind} if kind is not None else {}
        return found

    def _kafka(self) -> dict[str, str]:
        found = {k.removeprefix(PRODUCER): v for k, v in self._given.items() if is_client_key(k)}
        try:
            if servers := found.get("bootstrap.servers"):
                parse_servers(servers)
        except UsageError as error:
            self._wrong[PRODUCER + "bootstrap.servers"] = error.message
        return found
