"""The classes a client can name: connectors, transforms, predicates and converters. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from kafkeep.connect.connectors.families import CLASSES, matches
from kafkeep.connect.model import Json
from kafkeep.connect.plugins.key_info import VERSION, plugin_definitions
from kafkeep.errors import UsageError
from kafkeep.options.sink.converters import HEADER_CLASSES, ConverterClass
from kafkeep.options.sink.transforms import (
    PREDICATE_PACKAGE,
    PREDICATES,
    SIDED,
    SIDES,
    WHOLE,
    transform_package,
)


@dataclass(frozen=True, slots=True)
class Plugin:
    """One class; ``type`` is sink, source, transformation, predicate, converter or so."""

    class_name: str
    type: str
    version: str

    def to_json(self) -> Json:
        """Return it as ``GET /connector-plugins`` does."""
        return {"class": self.class_name, "type": self.type, "version": self.version}

    def describe(self) -> str:
        """Return it as Connect's messages name a plugin."""
        return (
            f"PluginDesc{{klass=class {self.class_name}, name='{self.class_name}', "
            f"version='{self.version}', encodedVersion={self.version}, type={self.type}, "
            f"typeName='{self.type}', location='kafkeep'}}"
        )


@cache
def connectors() -> tuple[Plugin, ...]:
    """Return the connectors, sinks first."""
    found = [Plugin(name, family.kind, VERSION) for name, family in CLASSES.items()]
    return tuple(sorted(found, key=lambda one: (one.type, one.class_name)))


@cache
def others() -> tuple[Plugin, ...]:
    """Return the plugins that are not connectors."""
    return tuple(_iter_others())


def list_plugins(connectors_only: bool) -> list[Json]:
    """Return class, type and version of each."""
    found = connectors() if connectors_only else connectors() + others()
    return [plugin.to_json() for plugin in found]


def find_plugin(name: str) -> Plugin:
    """Return a connector by its class or a short name; UsageError in Connect's words.

    Where classes share a short name, Confluent's is meant.
    """
    found = matches(name)
    plugins = [plugin for plugin in connectors() if plugin.class_name in found]
    if plugins:
        return plugins[0]
    raise UsageError(
        "Failed to find any class that implements Connector and which name matches "
        f"{name}, available connectors are: {', '.join(one.describe() for one in connectors())}"
    )


def find_any_plugin(name: str) -> Plugin:
    """Return a connector, transform, predicate or converter; UsageError in Connect's words."""
    for plugin in others():
        if name in (plugin.class_name, plugin.class_name.rpartition(".")[2]):
            return plugin
    try:
        return find_plugin(name)
    except UsageError as error:
        raise UsageError(f"Unknown plugin {name}.") from error


def definitions(plugin: Plugin) -> list[Json]:
    """Return the definition of each of a plugin's keys, as Connect's ConfigKeyInfo."""
    return plugin_definitions(plugin.class_name, plugin.type)


def _iter_others() -> Iterator[Plugin]:
    steps = [(f"{kind}${side}", kind) for kind in SIDED for side in SIDES]
    steps += [(kind, kind) for kind in WHOLE]
    for name in sorted(transform_package(kind) + shown for shown, kind in steps):
        yield Plugin(name, "transformation", VERSION)
    for name in sorted(PREDICATES):
        yield Plugin(PREDICATE_PACKAGE + name, "predicate", VERSION)
    for kind in ConverterClass:
        if kind is not ConverterClass.SIMPLE_HEADER:
            yield Plugin(kind.value, "converter", VERSION)
    for kind in HEADER_CLASSES:
        yield Plugin(kind.value, "header_converter", VERSION)
