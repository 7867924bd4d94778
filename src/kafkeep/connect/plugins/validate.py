"""Validate a configuration before it becomes a connector; the answers are those of Connect.

Validation covers the keys, references to config providers, the worker's restrictions, and what the
configuration needs of this machine (profiles, proxies, key stores). Otherwise a connector would be
created and fail when its job starts. Validation sends no request to S3 or Kafka. It reads files and
connects to a proxy, for a few seconds at most.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.connect.connectors.confluent import CONFLUENT
from kafkeep.connect.connectors.families import CLASSES, matches
from kafkeep.connect.connectors.sink_config import ConnectorConfig, is_secret
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.model import ConnectorType, Json, PluginInfo, RestError, invalid_config
from kafkeep.connect.plugins.classes import (
    OWN_GROUP,
    Plugin,
    display_name,
    find_plugin,
    is_visible,
    plugin_definitions,
    recommended,
)
from kafkeep.connect.plugins.forms import COMMON, DEPENDENTS, S3_SINK
from kafkeep.connect.safety.secrets import hide, mask, unmask
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.kafka.security.client_config import client_config
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.option import ConfigErrors
from kafkeep.store.s3.client import Setting, setting_problems

CLASS = "connector.class"
HIDDEN = "[hidden]"
_TOPICS = "Must configure one of topics or topics.regex"
_NUMBERS = ("INT", "LONG", "SHORT")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """Checks configurations with the providers, defaults and restrictions of one worker."""

    providers: Providers
    defaults: Mapping[str, str] = field(default_factory=dict)
    restrictions: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _config: {}
    """Returns what the worker refuses in a resolved configuration, by key."""
    machine: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _config: {}
    """Returns what a resolved configuration needs and this machine lacks, by key. May read files
    and connect to a proxy, so it is called only if the restrictions allow the configuration."""

    def checked(
        self, name: str, config: Mapping[str, str], stored: Mapping[str, str] | None
    ) -> dict[str, str]:
        """Return the configuration to store: masks filled from ``stored``, references unresolved.

        RestError 400 lists all errors, in Connect's words.
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
        """Return Connect's validation answer, key by key, without secrets or resolved values.

        It validates the class that ``config`` names; ``plugin`` may be the short name of several.
        A mask that a form sends back is no error: it means the stored value.
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
        return _as_sent(self._validate(plugin, whole, problems), given, resolved)

    def describe(self, config: Mapping[str, str]) -> PluginInfo:
        """Return kind and version; never fails: a newer kafkeep may have stored the class."""
        try:
            found = _find(config.get(CLASS, ""))
        except RestError:
            return PluginInfo(type="sink", version="unknown")
        kind: ConnectorType = "source" if found.type == "source" else "sink"
        return PluginInfo(type=kind, version=found.version)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration of a job, with references resolved; raise ConfigErrors."""
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


def _as_sent(answer: Json, given: Mapping[str, str], resolved: Mapping[str, str]) -> Json:
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


def validate(
    plugin_name: str,
    config: Mapping[str, str | None],
    defaults: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
) -> Json:
    """Return every key with its definition, value and errors; secrets are hidden.

    ``problems`` are errors from other checks, by key; they replace those found here. RestError 400
    if the class does not exist or is not the requested one.
    """
    given = {key: text for key, text in config.items() if text is not None}
    named = given.get(CLASS, "").strip()
    if not named:
        shown = ", ".join(f"{key}={_shown(key, text)}" for key, text in given.items())
        raise RestError(400, f"Connector config {{{shown}}} contains no connector type")
    if not _same(plugin_name, named):
        raise RestError(
            400, f"Included connector type {named} does not match request type {plugin_name}"
        )
    try:
        plugin = find_plugin(named)
    except UsageError as error:
        raise RestError(400, error.message) from error
    found = config_errors(given, defaults)
    errors = {**found, **{key: [why] for key, why in (problems or {}).items()}}
    definitions = _in_order(plugin_definitions(plugin.class_name, plugin.type), errors)
    configs = [_one(one, given, defaults or {}, errors) for one in definitions]
    groups = dict.fromkeys(one["definition"]["group"] for one in configs)
    return {
        "name": plugin.class_name,
        "error_count": sum(1 for one in configs if one["value"]["errors"]),
        "groups": list(groups),
        "configs": configs,
    }


def config_errors(
    config: Mapping[str, str | None], defaults: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Return the errors of a configuration, by key, in Connect's words; unknown keys are allowed.

    The class must exist (see ``find_plugin``) and values must be resolved. No error shows a secret.
    """
    given = {key: text for key, text in config.items() if text is not None}
    found = matches(given.get(CLASS, ""))
    kind = CLASSES[found[0]].kind if found else "sink"
    wrong: dict[str, str] = {}
    try:
        if kind == "source":
            SourceConfig.from_map(given, strict=False)
        else:
            ConnectorConfig.from_map(given, strict=False, defaults=defaults)
    except ConfigErrors as error:
        wrong |= error.by_key
    except UsageError as error:
        wrong[CLASS] = error.message
    for key in ("name", *(("storage.class",) if found == (CONFLUENT,) else ())):
        if not given.get(key, "").strip():
            wrong.setdefault(key, "missing")
    if wrong.get("topics", "").startswith("missing"):
        wrong["topics.regex"] = wrong["topics"]
    return {key: [_sentence(key, why, given)] for key, why in wrong.items()}


def _same(asked: str, named: str) -> bool:
    """Return True if the class in the configuration is the one in the path; either may be short."""
    full = matches(named)
    names = [named, *full]
    return any(_bare(name).endswith(_bare(asked)) for name in names)


def _bare(name: str) -> str:
    """Return a name without ``Connector`` at its end, unless that is all of it, as Connect does."""
    return name.strip().removesuffix("Connector") or name.strip()


def _sentence(key: str, why: str, given: Mapping[str, str]) -> str:
    if why.startswith("missing"):
        if key in ("topics", "topics.regex"):
            return _TOPICS
        return f'Missing required configuration "{key}" which has no default value.'
    text = _shown(key, given.get(key, ""))
    if _type_of(key) in _NUMBERS and not _WHOLE.fullmatch(given.get(key, "0")):
        return f"Invalid value {text} for configuration {key}: Not a number of type {_type_of(key)}"
    if key == "tasks.max":
        return f"Invalid value {text} for configuration {key}: Value must be at least 1"
    return f"Invalid value {text} for configuration {key}: {_capital(why)}"


def _type_of(key: str) -> str:
    field = COMMON.get(key) or S3_SINK.get(key)
    return field.type if field is not None else ""


def _capital(why: str) -> str:
    return why[:1].upper() + why[1:]


def _shown(key: str, text: str) -> str:
    return HIDDEN if text and is_secret(key, text) else text


def _in_order(definitions: list[Json], errors: Mapping[str, list[str]]) -> list[Json]:
    """Return the common keys first, as Connect does, and a row for each error without one."""
    common = [one for one in definitions if one["name"] in COMMON]
    own = [one for one in definitions if one["name"] not in COMMON]
    known = {one["name"] for one in definitions}
    extra = [_nameless(key) for key in errors if key not in known]
    return [*common, *own, *extra]


def _nameless(key: str) -> Json:
    return {
        "name": key,
        "type": "STRING",
        "required": False,
        "default_value": None,
        "importance": "MEDIUM",
        "documentation": "",
        "group": OWN_GROUP,
        "width": "MEDIUM",
        "display_name": display_name(key),
        "dependents": list(DEPENDENTS.get(key, ())),
        "order": -1,
    }


def _one(
    definition: Json,
    given: Mapping[str, str],
    defaults: Mapping[str, str],
    errors: Mapping[str, list[str]],
) -> Json:
    key = definition["name"]
    worker = defaults.get(key) if key.endswith(".converter") else None
    shown = {**definition, "default_value": worker or definition["default_value"]}
    return {
        "definition": shown,
        "value": {
            "name": key,
            "value": _value(shown, given),
            "recommended_values": recommended(key),
            "errors": errors.get(key, []),
            "visible": is_visible(key, given),
        },
    }


def _value(definition: Json, given: Mapping[str, str]) -> str | None:
    key, kind = definition["name"], definition["type"]
    if kind == "PASSWORD":
        return HIDDEN
    text = given.get(key)
    if text is None:
        return definition["default_value"]  # type: ignore[no-any-return]
    if kind in _NUMBERS and not _WHOLE.fullmatch(text):
        return None
    return _shown(key, text)


_KEYS: Mapping[Setting, tuple[str, ...]] = {
    "profile": ("s3.profile.name",),
    "region": ("s3.region", "aws.s3.region", "aws_s3_region", "connect.s3.aws.region"),
    "proxy_url": ("s3.proxy.url",),
}
"""Keys that set a client property; an error names the first one if none of them is set."""
_FILE = re.compile(r".*\.converter\.(.*\.)?ssl\.[a-z]+\.location")


def machine_problems(config: Mapping[str, str], worker: WorkerOptions) -> dict[str, str]:
    """Return what this machine lacks for a valid configuration, by key.

    Empty for an invalid configuration: its own errors come first.
    """
    found = matches(config.get("connector.class", ""))
    is_source = bool(found) and CLASSES[found[0]].kind == "source"
    try:
        read: ConnectorConfig | SourceConfig
        if is_source:
            read = SourceConfig.from_map(config, strict=False)
        else:
            read = ConnectorConfig.from_map(config, strict=False, defaults=worker.defaults)
    except UsageError:
        return {}
    wrong = _file_problems(config)
    if read.archive.startswith("s3://"):
        for setting, why in setting_problems(read.storage).items():
            names = _KEYS[setting]
            wrong[next((name for name in names if name in config), names[0])] = why
    client = worker.producer if is_source else worker.consumer
    prefix = "producer.override." if is_source else "consumer.override."
    wrong |= _client_problem(client, read.kafka, prefix)
    return wrong


def _file_problems(config: Mapping[str, str]) -> dict[str, str]:
    """Return the errors of files that converters name."""
    named = {key: text.strip() for key, text in config.items() if _FILE.fullmatch(key)}
    return {
        key: f"cannot read {path}"
        for key, path in named.items()
        if path and not (os.path.isfile(path) and os.access(path, os.R_OK))
    }


def _client_problem(
    worker: KafkaOptions, overrides: Mapping[str, str], prefix: str
) -> dict[str, str]:
    """Create the client's settings as a job does: open key stores and parse JAAS texts."""
    own = {key: text for key, text in overrides.items() if key != "bootstrap.servers"}
    if not own:
        return {}
    options = KafkaOptions(worker.bootstrap_servers, {**worker.properties, **own})
    try:
        client_config(options)
    except (UsageError, EnvironmentFault) as error:
        named = [key for key in own if key in error.message]
        blamed = max(named, key=len, default=next(iter(own)))
        return {prefix + blamed: error.message.removeprefix(f"{blamed}: ")}
    return {}
