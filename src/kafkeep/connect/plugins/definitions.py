"""Check a configuration before it becomes a connector: plugins, providers, validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.connect.model import ConnectorType, Json, PluginInfo, RestError, invalid_config
from kafkeep.connect.plugins.classes import Plugin, find_plugin
from kafkeep.connect.plugins.validate import CLASS, HIDDEN, validate
from kafkeep.connect.safety.secrets import hide, mask, unmask
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """Checks configurations from the point of view of one worker."""

    providers: Providers
    defaults: Mapping[str, str] = field(default_factory=dict)
    restrictions: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _config: {}
    """Returns what a resolved configuration may not ask for, by key."""
    machine: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _config: {}
    """Returns what a resolved configuration needs and this machine lacks, by key. May read files
    and connect to a proxy, so it is asked only for what the restrictions allows."""

    def checked(
        self, name: str, config: Mapping[str, str], stored: Mapping[str, str] | None
    ) -> dict[str, str]:
        """Return the configuration to keep: masks filled from ``stored``, references as they are.

        RestError 400 with everything that is wrong with it, worded as Connect does.
        """
        sent = {**config, "name": name}
        try:
            whole = unmask(sent, stored or {})
            self._plugin(whole)
            resolved = self.resolve(whole)
        except ConfigErrors as error:
            raise invalid_config(
                [f"Invalid value for configuration {k}: {why}" for k, why in error.by_key.items()]
            ) from error
        errors = _errors_of(self._validate(whole[CLASS], resolved, self.machine(resolved)))
        if errors:
            raise invalid_config([hide(one, [whole, resolved]) for one in errors])
        return whole

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        """Say what is right and wrong, key by key; secrets and resolved references do not show.

        The class that ``config`` names is validated; ``plugin`` may be the short name of several.
        A mask, as a form sends it back, is no error: it stands for a value that is kept.
        """
        given = {key: text for key, text in config.items() if text is not None}
        problems: dict[str, str] = {}
        resolved = dict(given)
        for key, text in given.items():
            try:
                resolved |= self.providers.resolve({key: text})
            except ConfigErrors as error:
                problems |= error.by_key
        problems = {**self.restrictions(resolved), **problems}
        named = resolved.get(CLASS, "").strip() or _find(plugin).class_name
        whole = {**resolved, CLASS: named}
        problems = problems or dict(self.machine(whole))
        return _shown(self._validate(plugin, whole, problems), given, resolved)

    def describe(self, config: Mapping[str, str]) -> PluginInfo:
        """Return kind and version; never fails, for what is stored may be of a newer kafkeep."""
        try:
            found = _find(config.get(CLASS, ""))
        except RestError:
            return PluginInfo(type="sink", version="unknown")
        kind: ConnectorType = "source" if found.type == "source" else "sink"
        return PluginInfo(type=kind, version=found.version)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """Resolve every reference and check the result, which a job gets; raise ConfigErrors."""
        resolved = self.providers.resolve(config)
        if refused := self.restrictions(resolved):
            raise ConfigErrors(refused)
        return resolved

    def _plugin(self, config: Mapping[str, str]) -> None:
        name = config.get(CLASS, "").strip()
        if not name:
            shown = ", ".join(f"{key}={text}" for key, text in mask(config).items())
            raise RestError(400, f"Connector config {{{shown}}} contains no connector type")
        _find(name)

    def _validate(
        self, plugin: str, config: Mapping[str, str], problems: Mapping[str, str] | None = None
    ) -> Json:
        return validate(plugin, config, self.defaults, problems)


def _find(name: str) -> Plugin:
    try:
        return find_plugin(name)
    except UsageError as error:
        raise RestError(400, error.message) from error


def _errors_of(answer: Json) -> list[str]:
    return [text for one in answer["configs"] for text in one["value"]["errors"]]


def _shown(answer: Json, given: Mapping[str, str], resolved: Mapping[str, str]) -> Json:
    """Return the answer with values as they were sent, masked, and errors without secrets."""
    shown, configs = mask(given), []
    for one in answer["configs"]:
        value: dict[str, Any] = dict(one["value"])
        key = value["name"]
        if key in shown and value["value"] not in (HIDDEN, None):
            value["value"] = shown[key]
        value["errors"] = [hide(text, [given, resolved]) for text in value["errors"]]
        configs.append({**one, "value": value})
    return {**answer, "configs": configs}
