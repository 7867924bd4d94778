"""What ``restore`` takes from ``--set`` and a connector's file: how objects are read; topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkeep.cli.places import parse_settings
from kafkeep.config.connector_file import read_connector_file
from kafkeep.config.families import find_family
from kafkeep.config.foreign import ForeignOptions, is_read_key, layout_of_sink
from kafkeep.config.java_regex import java_regex
from kafkeep.config.restore import RestoreOptions, parse_renames


def foreign_options(file: str | None, settings: Sequence[str]) -> ForeignOptions | None:
    """Put ``--set`` over the file; None when neither is given.

    A sink's file tells how its objects were written; a source's also what becomes of records.
    """
    return _reading(_load(file), settings)


def options_of_restore(
    file: str | None, settings: Sequence[str], options: RestoreOptions
) -> tuple[ForeignOptions | None, RestoreOptions]:
    """Return those, and which topics come back; the file may be a pipe, and is read once."""
    config = _load(file)
    return _reading(config, settings), _with_topics(config or {}, options)


def _load(file: str | None) -> Mapping[str, str] | None:
    return None if file is None else read_connector_file(file).config


def _reading(config: Mapping[str, str] | None, settings: Sequence[str]) -> ForeignOptions | None:
    if config is None and not settings:
        return None
    return ForeignOptions.parse(_from_file(config or {}) | parse_settings(settings))


def _with_topics(config: Mapping[str, str], options: RestoreOptions) -> RestoreOptions:
    """Let a connector's file say which topics come back, where no flag does."""
    if options.topics or options.topics_regex is not None:
        return options
    if topics := config.get("topics", "").strip():
        return replace(options, topics=parse_renames(topics))
    regex = config.get("topics.regex", "").strip()
    return replace(options, topics_regex=java_regex(regex)) if regex else options


def _from_file(config: Mapping[str, str]) -> dict[str, str]:
    name = config.get("connector.class", "")
    if name and find_family(name).kind == "sink":
        return layout_of_sink(config)
    return {key: text for key, text in config.items() if is_read_key(key)}
