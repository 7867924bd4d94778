"""How ``restore`` reads objects without a log, from ``--set`` and a connector's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkeep.cli.places import parse_settings
from kafkeep.config.connector_file import read_connector_file
from kafkeep.config.families import find_family
from kafkeep.config.foreign import ForeignOptions, is_read_key, layout_of_sink


def foreign_options(file: str | None, settings: Sequence[str]) -> ForeignOptions | None:
    """Put ``--set`` over the file; None when neither is given.

    A sink's file tells how its objects were written; a source's also what becomes of records.
    """
    if file is None and not settings:
        return None
    texts = _from_file(read_connector_file(file).config) if file is not None else {}
    return ForeignOptions.parse(texts | parse_settings(settings))


def _from_file(config: Mapping[str, str]) -> dict[str, str]:
    name = config.get("connector.class", "")
    if name and find_family(name).kind == "sink":
        return layout_of_sink(config)
    return {key: text for key, text in config.items() if is_read_key(key)}
