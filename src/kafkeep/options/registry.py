"""Options of a schema registry, for backup and restore: its address and a file of settings."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from kafkeep.errors import UsageError
from kafkeep.options.config_files import load_text, parse_properties
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
    """The schema registry that a command uses, if any."""

    schema_registry: str | None = option(
        "schema.registry",
        "Address of a schema registry with Confluent's API (Apicurio: add /apis/ccompat/v7).",
        default=None,
        parse=_address,
        metavar="URL",
    )
    schema_registry_config: str | None = option(
        "schema.registry.config",
        "File with settings of the registry client, as for Confluent's clients, such as "
        "basic.auth.user.info or bearer.auth.token.",
        default=None,
        parse=str,
        metavar="FILE",
    )

    def registry(self) -> RegistrySettings | None:
        """Read the address and the file; UsageError names the invalid setting."""
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
                hint=f"The file may have these keys: {', '.join(_KEYS)}.",
            ) from error
        return settings


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(RegistryOptions):
    """What a restore does with the archived schemas."""

    schemas: str = option(
        "schemas",
        "How to restore schemas into --schema-registry. ids: with their original ids. map: "
        "register them, and write the new ids into the records. off: do not restore them.",
        default="off",
        parse=one_of("schemas", "off", "ids", "map"),
        metavar="HOW",
    )
    schema_ids_in: str = option(
        "schema.ids.in",
        "With --schemas map: where records have ids.",
        default="both",
        parse=one_of("schema-ids-in", "both", "keys", "values"),
        metavar="WHERE",
    )

    def check_schemas(self) -> None:
        """Raise UsageError for options that contradict each other."""
        registry = self.registry()
        if self.schemas != "off" and registry is None:
            raise UsageError("schemas needs schema-registry")
        if self.schemas == "off" and registry is not None:
            raise UsageError("schema-registry needs schemas")
        if self.schemas != "map" and self.schema_ids_in != "both":
            raise UsageError("schema-ids-in needs schemas=map")

    def schema_selection(self) -> dict[str, object]:
        """Return the choice, for the id of the restore."""
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
            f"schema-registry-config: {path} has an unknown key: {unknown[0]}",
            hint=f"The file may have these keys: {', '.join(_KEYS)}.",
        )
    return found
