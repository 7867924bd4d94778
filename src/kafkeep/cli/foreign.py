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
    if file is None and not settings:
        return None
    texts = _from_file(read_connector_file(file).config) if file is not None else {}
    return ForeignOptions.parse(texts | parse_settings(settings))


def with_topics_of(file: str | None, options: RestoreOptions) -> RestoreOptions:
    """Let a connector's file say which topics come back, where no flag does."""
    if file is None or options.topics or options.topics_regex is not None:
        return options
    config = read_connector_file(file).config
    if topics := config.get("topics", "").strip():
        return replace(options, topics=parse_renames(topics))
    regex = config.get("topics.regex", "").strip()
    return replace(options, topics_regex=java_regex(regex)) if regex else options


def _from_file(config: Mapping[str, str]) -> dict[str, str]:
    name = config.get("connector.class", "")
    if name and find_family(name).kind == "sink":
        return layout_of_sink(config)
    return {key: text for key, text in config.items() if is_read_key(key)}
