"""The settings of each converter; keys are those after ``value.converter.``."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, option


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.upper() not in values:
            raise UsageError(f"{text!r} is not one of {', '.join(values)}")
        return text.upper()

    return parse


def _count(text: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(f"{text!r} is not a whole number")
    return int(text)


def _urls(text: str) -> tuple[str, ...]:
    urls = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise UsageError(f"{text!r} is not a list of http:// or https:// addresses")
    return urls


def _encoding(text: str) -> str:
    try:
        "".encode(text)  # a lookup by name would also find codecs such as hex
        return codecs.lookup(text).name
    except (LookupError, ValueError) as error:
        raise UsageError(f"{text!r} is not an encoding") from error


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """A converter without settings."""


@dataclass(frozen=True, kw_only=True)
class JsonSettings:
    """Connect's JsonConverter."""

    schemas_enable: bool = option(
        "schemas.enable",
        'Whether each value is {"schema": ..., "payload": ...}.',
        default=True,
    )
    decimal_format: Literal["BASE64", "NUMERIC"] = option(
        "decimal.format",
        "Format of decimals in produced values: BASE64 or NUMERIC.",
        default="BASE64",
        parse=_one_of("BASE64", "NUMERIC"),
    )
    schemas_cache_size: int = option(
        "schemas.cache.size",
        "Accepted and ignored: every schema is cached.",
        default=1000,
        parse=_count,
    )
    replace_null_with_default: bool = option(
        "replace.null.with.default",
        "Replace a null by the default of its field; only true is supported.",
        default=True,
    )


@dataclass(frozen=True, kw_only=True)
class StringSettings:
    """Connect's StringConverter."""

    encoding: str = option(
        "converter.encoding", "Character encoding.", default="utf-8", parse=_encoding
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class RegistrySettings:
    """A schema registry with Confluent's API."""

    urls: tuple[str, ...] = option(
        "schema.registry.url", "Addresses of the schema registry.", parse=_urls
    )
    basic_auth_source: str = option(
        "basic.auth.credentials.source",
        "Source of user and password: URL (in the address) or USER_INFO.",
        default="URL",
        parse=_one_of("URL", "USER_INFO"),
    )
    basic_auth_user_info: str | None = option(
        "basic.auth.user.info", "user:password for the registry.", default=None
    )
    old_basic_auth_user_info: str | None = option(
        "schema.registry.basic.auth.user.info",
        "The old name of basic.auth.user.info.",
        default=None,
    )
    bearer_source: str | None = option(
        "bearer.auth.credentials.source",
        "Source of the token: STATIC_TOKEN (bearer.auth.token).",
        default=None,
        parse=_one_of("STATIC_TOKEN"),
    )
    bearer_token: str | None = option("bearer.auth.token", "Token for the registry.", default=None)
    truststore: str | None = option(
        "schema.registry.ssl.truststore.location",
        "File of trusted certificates, in PEM.",
        default=None,
    )
    truststore_type: str = option(
        "schema.registry.ssl.truststore.type",
        "Type of that file; only PEM is supported.",
        default="PEM",
        parse=_one_of("PEM"),
    )
    cache_size: int = option(
        "schemas.cache.config",
        "Accepted and ignored: every schema is cached.",
        default=1000,
        parse=_count,
    )
    use_latest_version: bool = option(
        "use.latest.version",
        "Read values with the newest schema of their subject; only false is supported.",
        default=False,
    )
    auto_register: bool = option(
        "auto.register.schemas",
        "Register the schemas of produced values if the registry lacks them.",
        default=True,
    )

    def __repr__(self) -> str:
        """Show the addresses, without secrets."""
        return f"{type(self).__name__}({', '.join(url.rpartition('@')[2] for url in self.urls)})"


@dataclass(frozen=True, kw_only=True, repr=False)
class AvroSettings(RegistrySettings):
    """Confluent's AvroConverter."""

    enhanced: bool = option(
        "enhanced.avro.schema.support",
        "Keep the symbols of enums and the namespaces of records.",
        default=False,
    )
    connect_meta_data: bool = option(
        "connect.meta.data", "Add connect.* properties to schemas.", default=True
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class JsonSchemaSettings(RegistrySettings):
    """Confluent's JsonSchemaConverter."""

    optional_for_nonrequired: bool = option(
        "use.optional.for.nonrequired",
        "Turn properties that are not required into optional fields.",
        default=False,
    )
    decimal_format: Literal["BASE64", "NUMERIC"] = option(
        "decimal.format",
        "Format of decimals in produced values: BASE64 or NUMERIC.",
        default="BASE64",
        parse=_one_of("BASE64", "NUMERIC"),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class ProtobufSettings(RegistrySettings):
    """Confluent's ProtobufConverter."""

    enhanced: bool = option(
        "enhanced.protobuf.schema.support",
        "Name structs and enums with their package.",
        default=False,
    )
    int_for_enums: bool = option(
        "int.for.enums", "Write enums as numbers instead of names.", default=False
    )
    optional_for_nullables: bool = option(
        "optional.for.nullables",
        "Make fields optional only if the schema says so.",
        default=False,
    )
    wrapper_for_nullables: bool = option(
        "wrapper.for.nullables",
        "Turn Google's wrapper messages into optional values.",
        default=False,
    )
    wrapper_for_raw: bool = option(
        "wrapper.for.raw.primitives",
        "Turn a value that is one of Google's wrapper messages into its plain value.",
        default=True,
    )
    index_for_unions: bool = option(
        "generate.index.for.unions",
        "Name the struct of a oneof with its number.",
        default=True,
    )
    flatten_unions: bool = option(
        "flatten.unions", "Make the members of a oneof fields of the message.", default=False
    )


_ONLY: Mapping[str, Any] = {"use_latest_version": False, "replace_null_with_default": True}


def refuse_unsupported(settings: object, given: Mapping[str, str]) -> None:
    """Raise ConfigErrors for valid values that are not supported."""
    wrong: dict[str, str] = {}
    for name, only in _ONLY.items():
        if getattr(settings, name, only) != only:
            wrong[name.replace("_", ".")] = f"only {str(only).lower()} is supported"
    if isinstance(settings, RegistrySettings):
        wrong |= _auth_problems(settings)
    if wrong:
        raise ConfigErrors(wrong)


def _auth_problems(settings: RegistrySettings) -> dict[str, str]:
    user_info = settings.basic_auth_user_info or settings.old_basic_auth_user_info
    if settings.basic_auth_source == "USER_INFO" and not user_info:
        return {"basic.auth.user.info": "missing: basic.auth.credentials.source is USER_INFO"}
    if user_info and ":" not in user_info:
        return {"basic.auth.user.info": "is not user:password"}
    if user_info and settings.basic_auth_source == "URL":
        return {"basic.auth.credentials.source": "must be USER_INFO for basic.auth.user.info"}
    if settings.bearer_source and not settings.bearer_token:
        return {"bearer.auth.token": "missing: bearer.auth.credentials.source is STATIC_TOKEN"}
    if settings.bearer_token and not settings.bearer_source:
        return {"bearer.auth.credentials.source": "must be STATIC_TOKEN for bearer.auth.token"}
    return {}
