"""Converters, by Connect's classes and keys: the class and its settings.

The settings of a converter have three parts: those that affect its output (``output``), those that
locate its registry (``place``), and credentials (``secrets``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from typing import Literal, TypeVar

from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.option import ConfigErrors, iter_options, option, parse_group
from kafkeep.options.sink.converter_settings import (
    AvroSettings,
    JsonSchemaSettings,
    JsonSettings,
    NoSettings,
    ProtobufSettings,
    StringSettings,
    refuse_unsupported,
)

T = TypeVar("T")
Role = Literal["key", "value", "header"]


class ConverterClass(StrEnum):
    """The converters of Connect that kafkeep supports, by their Java names."""

    JSON = "org.apache.kafka.connect.json.JsonConverter"
    STRING = "org.apache.kafka.connect.storage.StringConverter"
    BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
    LONG = "org.apache.kafka.connect.converters.LongConverter"
    INTEGER = "org.apache.kafka.connect.converters.IntegerConverter"
    SHORT = "org.apache.kafka.connect.converters.ShortConverter"
    FLOAT = "org.apache.kafka.connect.converters.FloatConverter"
    DOUBLE = "org.apache.kafka.connect.converters.DoubleConverter"
    BOOLEAN = "org.apache.kafka.connect.converters.BooleanConverter"
    AVRO = "io.confluent.connect.avro.AvroConverter"
    JSON_SCHEMA = "io.confluent.connect.json.JsonSchemaConverter"
    PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
    SIMPLE_HEADER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    SINETSTREAM = "jp.ad.sinet.sinetstream.connect.converters.SinetStreamConverter"
    ALREADY_BYTES = "com.spredfast.kafka.connect.s3.AlreadyBytesConverter"


_ANY_PACKAGE = (ConverterClass.SINETSTREAM, ConverterClass.ALREADY_BYTES)
"""Matched by class name without package, because they were moved between packages."""

HEADER_CLASSES = (
    ConverterClass.SIMPLE_HEADER,
    ConverterClass.STRING,
    ConverterClass.BYTES,
)

_SETTINGS: Mapping[ConverterClass, type] = {
    ConverterClass.JSON: JsonSettings,
    ConverterClass.STRING: StringSettings,
    ConverterClass.AVRO: AvroSettings,
    ConverterClass.JSON_SCHEMA: JsonSchemaSettings,
    ConverterClass.PROTOBUF: ProtobufSettings,
}

_SECRETS = frozenset(
    {"basic.auth.user.info", "schema.registry.basic.auth.user.info", "bearer.auth.token"}
)
_PLACES = frozenset(
    {
        "schema.registry.url",
        "basic.auth.credentials.source",
        "bearer.auth.credentials.source",
        "schema.registry.ssl.truststore.location",
        "schema.registry.ssl.truststore.type",
        "schemas.cache.config",
        "schemas.cache.size",
    }
)


@dataclass(frozen=True, kw_only=True)
class ConverterChoice:
    """The keys that name converters; each has sub-keys of its own, see ``known_subkeys``."""

    key_converter: str | None = option(
        "key.converter", "Class of the converter for keys.", default=None
    )
    value_converter: str | None = option(
        "value.converter", "Class of the converter for values.", default=None
    )
    header_converter: str | None = option(
        "header.converter",
        "Class of the converter for headers. Without it, headers are stored as text if they are "
        "UTF-8, else as Base64.",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class ConverterOptions:
    """One converter and its settings; keys are without the prefix ``value.converter.``."""

    role: Role
    kind: ConverterClass
    output: Mapping[str, str] = field(default_factory=dict)
    """The settings that affect the objects."""
    place: Mapping[str, str] = field(default_factory=dict)
    """The address and client settings of the registry; they do not affect the objects."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def settings(self, group: type[T]) -> T:
        """Parse all settings as ``group``."""
        return parse_group(group, {**self.output, **self.place, **self.secrets})

    def require_packages(self) -> None:
        """Raise EnvironmentFault when this Python lacks a package that the converter needs."""
        if self.kind is ConverterClass.PROTOBUF and find_spec("grpc_tools") is None:
            raise EnvironmentFault(
                "Protobuf values need a compiler that is not installed",
                hint="Install it: pip install 'kafkeep[protobuf]'.",
            )


def known_subkeys(kind: ConverterClass) -> tuple[str, ...]:
    """Return the sub-keys that a converter supports, without the prefix."""
    return tuple(one.name for one in iter_options(settings_group(kind)))


def settings_group(kind: ConverterClass) -> type:
    """Return the option group of a converter."""
    return _SETTINGS.get(kind, NoSettings)


def is_secret_key(key: str) -> bool:
    """Return whether a full key, such as ``value.converter.basic.auth.user.info``, is a secret."""
    return key.partition(".converter.")[2] in _SECRETS


def parse_class(name: str) -> ConverterClass:
    """Find a converter by its class name; the last part is enough, as in Connect."""
    last = name.rpartition(".")[2]
    for kind in ConverterClass:
        known_last = kind.value.rpartition(".")[2]
        if name in (kind.value, known_last) or (kind in _ANY_PACKAGE and last == known_last):
            return kind
    known = ", ".join(kind.value for kind in ConverterClass)
    raise UsageError(f"unknown converter {name}", hint=f"Use one of: {known}.")


def parse_converter(
    role: Role, given: Mapping[str, str], *, unknown: Literal["refuse", "allow"] = "refuse"
) -> ConverterOptions | None:
    """Read ``<role>.converter`` and its sub-keys; None when no class is named.

    A sub-key that the class does not support is refused, or ignored when the caller allows unknown
    keys (and reports them itself, see ``unknown_subkeys``).
    """
    name = f"{role}.converter"
    if name not in given:
        return None
    kind = parse_role_class(role, given[name])
    subkeys = _subkeys(role, given)
    known = {key: text for key, text in subkeys.items() if key in known_subkeys(kind)}
    if unknown == "refuse" and (others := unknown_subkeys(role, given)):
        raise ConfigErrors(dict.fromkeys(others, f"is not supported by {kind.value}"))
    try:
        refuse_unsupported(parse_group(settings_group(kind), known), known)
    except ConfigErrors as error:
        raise ConfigErrors({f"{name}.{key}": why for key, why in error.by_key.items()}) from error
    secret = {key for key in known if key in _SECRETS or "@" in known.get(key, "")}
    return ConverterOptions(
        role,
        kind,
        {key: text for key, text in known.items() if key not in _PLACES | secret},
        {key: text for key, text in known.items() if key in _PLACES - secret},
        {key: text for key, text in known.items() if key in secret},
    )


def unknown_subkeys(role: Role, given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the full keys under ``<role>.converter.`` that its class does not support."""
    name = f"{role}.converter"
    if name not in given:
        return tuple(f"{name}.{key}" for key in _subkeys(role, given))
    known = known_subkeys(parse_class(given[name]))
    return tuple(f"{name}.{key}" for key in _subkeys(role, given) if key not in known)


def parse_role_class(role: Role, name: str) -> ConverterClass:
    """Find a converter that can have this role; ConfigErrors names the key."""
    try:
        kind = parse_class(name)
    except UsageError as error:
        raise ConfigErrors({f"{role}.converter": error.message}, hint=error.hint) from error
    if role == "header" and kind not in HEADER_CLASSES:
        known = ", ".join(one.value for one in HEADER_CLASSES)
        raise ConfigErrors(
            {"header.converter": f"{kind.value} does not support headers"},
            hint=f"Use one of: {known}.",
        )
    if role != "header" and kind is ConverterClass.SIMPLE_HEADER:
        raise ConfigErrors({f"{role}.converter": f"{kind.value} supports headers only"})
    return kind


def _subkeys(role: Role, given: Mapping[str, str]) -> dict[str, str]:
    prefix = f"{role}.converter."
    return {key.removeprefix(prefix): text for key, text in given.items() if key.startswith(prefix)}
