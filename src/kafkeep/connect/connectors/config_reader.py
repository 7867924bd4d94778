"""Read configurations: connector files, JSON values as texts, and all errors at once, by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from kafkeep.connect.connectors.fixed_keys import FixedKey
from kafkeep.errors import UsageError
from kafkeep.options.config_files import load_text, parse_properties
from kafkeep.options.option import ConfigErrors

P = ParamSpec("P")
T = TypeVar("T")

_FORMS = (
    'Write {"name": …, "config": {…}} as for POST /connectors, the map of config alone, or a '
    ".properties file."
)


@dataclass(frozen=True, slots=True)
class ConnectorDocument:
    """The content of a connector file; ``config`` is not validated yet."""

    name: str | None
    config: Mapping[str, str]


def read_connector_file(path: str | Path) -> ConnectorDocument:
    """Read JSON (what POST or PUT takes) or a ``.properties`` file; UsageError names the file."""
    try:
        text = load_text(path)
    except UsageError as error:
        raise UsageError(error.message, hint=_FORMS) from error
    try:
        if Path(path).suffix == ".properties" or not text.lstrip().startswith(("{", "[")):
            return _document(parse_properties(text))
        return _document(json.loads(text, parse_float=str, parse_int=str))
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply", hint=_FORMS) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{path} is not JSON: {error.msg} at {where}", hint=_FORMS) from error
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error


def to_texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Return a configuration as texts; numbers and booleans are converted, null is not set.

    ConfigErrors names the keys whose values are lists or maps.
    """
    texts: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for key, value in given.items():
        match value:
            case None:
                continue
            case bool():
                texts[key] = str(value).lower()
            case str() | int() | float():
                texts[key] = str(value)
            case _:
                wrong[key] = "must be a text, a number, true or false"
    if wrong:
        raise ConfigErrors(wrong)
    return texts


def _document(found: Any) -> ConnectorDocument:
    if not isinstance(found, dict):
        raise UsageError("the file holds a list, not one connector", hint=_FORMS)
    config = found.get("config")
    if not isinstance(config, dict):
        texts = to_texts(found)
        return ConnectorDocument(texts.get("name"), texts)
    others = sorted(found.keys() - {"name", "config", "initial_state"})
    if others:
        raise UsageError(f"{', '.join(others)} must be in config, not beside it", hint=_FORMS)
    texts, name = to_texts(config), found.get("name")
    if name is not None and not isinstance(name, str):
        raise UsageError("the connector's name is not a text", hint=_FORMS)
    if name is not None and texts.get("name", name) != name:
        raise UsageError(f"the connector is called {name} and, in its config, {texts['name']}")
    return ConnectorDocument(name or texts.get("name"), texts)


class ConfigReader:
    """Parses a configuration and collects all errors, by key."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._wrong: dict[str, str] = {}

    def _try(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what ``read`` returns; None after ConfigErrors. A key keeps its first error."""
        try:
            return read(*args, **kwargs)
        except ConfigErrors as error:
            for key, why in error.by_key.items():
                self._wrong.setdefault(key, why)
        return None

    def _check_fixed_keys(self, find: Callable[[str], FixedKey | None]) -> None:
        """Check the value of every given key that ``find`` has a fixed key for."""
        for key, text in self._given.items():
            found = find(key)
            try:
                if found is not None:
                    found.check(text)
            except UsageError as error:
                self._wrong[key] = error.message
