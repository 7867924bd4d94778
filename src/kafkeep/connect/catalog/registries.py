"""The schema registries that connectors name, found in their configurations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkeep.connect.jobs.job import JobContext
from kafkeep.errors import KafkeepError
from kafkeep.options.option import iter_options, parse_group
from kafkeep.options.registry import RegistryOptions, bare_address
from kafkeep.options.sink.converter_settings import RegistrySettings, refuse_unsupported

_URL = "schema.registry.url"
_CONVERTERS = ("value.converter.", "key.converter.")
_OWN = ("", "restore.")
_KEYS = tuple(one.name for one in iter_options(RegistrySettings))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPlace:
    """Where a registry is, and which connectors use it."""

    address: str
    """Without credentials."""
    settings: RegistrySettings = field(repr=False)
    connectors: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """A short name for addresses of pages."""
        return hashlib.sha256(self.address.encode()).hexdigest()[:10]


def registry_places(
    configs: Callable[[], Mapping[str, Mapping[str, str]]],
    context_for: Callable[[Mapping[str, str]], JobContext],
) -> Callable[[], list[RegistryPlace]]:
    """Return what finds the registries of the connectors whose resolved ``configs`` are given.

    Settings that cannot be read name no registry; the status of their connector says why.
    """

    def places() -> list[RegistryPlace]:
        found: dict[str, RegistryPlace] = {}
        for name, config in sorted(configs().items()):
            try:
                whole = {**context_for(config).defaults, **config}
            except KafkeepError:
                continue
            for settings in _settings_in(whole):
                address = bare_address(settings)
                known = found.get(address)
                users = dict.fromkeys((*(known.connectors if known else ()), name))
                found[address] = RegistryPlace(
                    address=address,
                    settings=known.settings if known else settings,
                    connectors=tuple(users),
                )
        return sorted(found.values(), key=lambda one: one.address)

    return places


def _settings_in(config: Mapping[str, str]) -> Iterator[RegistrySettings]:
    for prefix in _CONVERTERS:
        if prefix + _URL in config:
            given = {key: config[prefix + key] for key in _KEYS if prefix + key in config}
            try:
                settings = parse_group(RegistrySettings, given)
                refuse_unsupported(settings, given)
            except KafkeepError:
                continue
            yield settings
    for prefix in _OWN:
        try:
            own = RegistryOptions(
                schema_registry=config.get(f"{prefix}schema.registry"),
                schema_registry_config=config.get(f"{prefix}schema.registry.config"),
            ).registry()
        except KafkeepError:
            continue
        if own is not None:
            yield own
