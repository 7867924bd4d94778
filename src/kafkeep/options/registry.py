"""Where a schema registry is, for backup and restore: its address, and a file for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from kafkeep.errors import UsageError
from kafkeep.options.files import load_text, parse_properties
from kafkeep.options.option import ConfigErrors, iter_options, one_of, option, parse_group
from kafkeep.options.sink.converter_settings import RegistrySettings, refuse_unsupported

_NOT_HERE = ("schemas.cache.config", "use.latest.version", "auto.register.schemas")
_KEYS = tuple(one.name for one in iter_options(RegistrySettings) if one.name not in _NOT_HERE)


def _address(text: str) -> str:
    try:
        parse_group(RegistrySettings, {"schema.registry.url": text})
    except ConfigErrors as error:
        raise UsageError(next(iter(error.by_key.values()))) from error
    return text


@dataclass(frozen=True, kw_only=True)
class RegistryOptions:
    """A registry that a command speaks to; none unless it is given."""

    schema_registry: str | None = option(
        "schema.registry",
        "Schema registry, with Confluent's API; Apicurio has it under /apis/ccompat/v7.",
        default=None,
        parse=_address,
        metavar="URL",
    )
    schema_registry_config: str | None = option(
        "schema.registry.config",
        "File with how to log in there: basic.auth.user.info, bearer.auth.token and so on, as "
        "Confluent's clients take it.",
        default=None,
        parse=str,
        metavar="FILE",
    )

    def registry(self) -> RegistrySettings | None:
        """Read what was given, and the file; UsageError names what is wrong."""
        if self.schema_registry is None and self.schema_registry_config is None:
            return None
        given = _read(self.schema_registry_config) if self.schema_registry_config else {}
        if self.schema_registry is not None:
            given["schema.registry.url"] = self.schema_registry
        try:
            settings = parse_group(RegistrySettings, given)
            refuse_unsupported(settings, given)
        except ConfigErrors as error:
            raise UsageError(
                f"schema-registry: {error.message}",
                hint=f"The file has keys of these: {', '.join(_KEYS)}.",
            ) from error
        return settings


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(RegistryOptions):
    """What a restore does with the archived schemas."""

    schemas: str = option(
        "schemas",
        "What becomes of the archived schemas in --schema-registry: ids brings them back under "
        "their ids; map registers them anew and puts the new ids into the records; off leaves "
        "them alone.",
        default="off",
        parse=one_of("schemas", "off", "ids", "map"),
        metavar="HOW",
    )
    schema_ids_in: str = option(
        "schema.ids.in",
        "With --schemas map, where ids are: in both keys and values, or in one of them.",
        default="both",
        parse=one_of("schema-ids-in", "both", "keys", "values"),
        metavar="WHERE",
    )

    def check_schemas(self) -> None:
        """Refuse what has no meaning together."""
        registry = self.registry()
        if self.schemas != "off" and registry is None:
            raise UsageError("schemas needs a registry to restore into: give schema-registry")
        if self.schemas == "off" and registry is not None:
            raise UsageError("schema-registry is for schemas, which is not given")
        if self.schemas != "map" and self.schema_ids_in != "both":
            raise UsageError("schema-ids-in is for schemas=map, which is not given")

    def schema_selection(self) -> dict[str, object]:
        """Return what was asked for, for the name of the restore."""
        registry = self.registry()
        if registry is None:
            return {}
        asked: dict[str, object] = {
            "schemas": self.schemas,
            "schema_registry": bare_address(registry),
        }
        return asked if self.schema_ids_in == "both" else {**asked, "ids_in": self.schema_ids_in}


def bare_address(settings: RegistrySettings) -> str:
    """Return the first address, without credentials."""
    parts = urlsplit(settings.urls[0])
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _read(path: str) -> dict[str, str]:
    try:
        found = parse_properties(load_text(path))
    except UsageError as error:
        raise UsageError(f"schema-registry-config: {error.message}", hint=error.hint) from error
    unknown = sorted(set(found) - set(_KEYS))
    if unknown:
        raise UsageError(
            f"schema-registry-config: {path} has {unknown[0]}, which means nothing here",
            hint=f"It takes: {', '.join(_KEYS)}.",
        )
    return found
